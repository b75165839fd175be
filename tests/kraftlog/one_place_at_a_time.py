"""The search for the next batch behind damage, position by position: `kraftlog.walks` has to give the same result."""

from __future__ import annotations

from collections.abc import Iterator

from kraftlog.batches import MAGIC, MAGIC_AT, Damage, DamageReason, Pieces, pieces
from kraftlog.walks import _BatchHeads


def measured(data: Pieces, damage: Damage, heads: _BatchHeads) -> Damage:
    """The damage with its true size, up to the next batch or the end. `heads.budget`: bytes that may be checked."""
    start = damage.position
    inner = DamageReason.LENGTH if damage.reason is DamageReason.TRUNCATED else damage.reason
    for at in _magics(data, start + MAGIC_AT + 1):
        candidate = at - MAGIC_AT
        if heads.budget < 0:
            detail = f"{damage.detail}; not searched from byte {candidate} on: too much there looks like batches"
            return Damage(start, len(data) - start, inner, detail)
        if not isinstance(heads.at(candidate), Damage):
            return Damage(start, candidate - start, inner, damage.detail)
    if all(piece.count(0) == len(piece) for _, piece in pieces(data, start, len(data))):
        return Damage(start, len(data) - start, DamageReason.ZEROS)
    return Damage(start, len(data) - start, damage.reason, damage.detail)


def _magics(data: Pieces, start: int) -> Iterator[int]:
    for begin, piece in pieces(data, start, len(data)):
        at = piece.find(MAGIC)
        while at != -1:
            yield begin + at
            at = piece.find(MAGIC, at + 1)
