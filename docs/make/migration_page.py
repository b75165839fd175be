"""Makes docs/reference/migration.md: positions of a migration, the transitions between them, and what is refused.

Called by `reference.py`. The rows and the picture are made from the tables in `core/migration/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from kafkafeatures.core.migration.edges import BACK, FORWARD, TARGETS, Edge, NoEdge, next_edge
from kafkafeatures.core.migration.phases import phase_of
from kafkafeatures.core.migration.positions import ROWS, BrokerMode, ClaimKind, MigrationEvidence, Position, PositionRow
from kafkafeatures.core.migration.way_back import RETURNS
from kraftlog.image import ZkMigrationState

_MODES = {
    BrokerMode.PLAIN: "ZooKeeper mode",
    BrokerMode.FLAGGED: "ZooKeeper mode with the flag",
    BrokerMode.KRAFT: "KRaft mode",
}
_FLAGS: Mapping[tuple[bool, ...] | None, str] = {
    None: "-",
    (True,): "all with the flag",
    (True, False): "some with the flag",
    (False,): "none with the flag",
}
_OFFSETS = {None: "any", True: "above 0", False: "absent or -1"}
_EVIDENCE = MigrationEvidence(ZkMigrationState.MIGRATION, ClaimKind.LEADER, 1, {1: BrokerMode.FLAGGED})
"""The evidence that the last table assumes: no broker is in KRaft mode. Only the way from `Copied` depends on it."""

_HEAD = """\
# Migration from ZooKeeper: positions and transitions

{note}
For the procedure, see [migrate to KRaft](../how-to/migrate-to-kraft.md). The *flag* is
`zookeeper.metadata.migration.enable=true`. The operator finds the position of a cluster from the metadata log, the
znodes and the nodes together. If they match no position below, the position is unknown, and the operator does nothing.

```mermaid
{picture}
```

## Positions

The position is in `status.migration.position`. A cluster is at a position if it matches all columns of its row. A node
that does not answer matches a row if it could be in one of the modes of that row. The last column is the phase
(`status.migration.phase`) on the way forward, and on the way back.

| Position | Metadata log | `/controller` names | `/migration` offset | Brokers | Controllers | Phase |
|---|---|---|---|---|---|---|
{positions}

## Transitions

Transitions are listed in the order in which the operator takes them. It skips none.

| From | To | Change in Git | Restarted, one by one | Deleted in ZooKeeper | Way back afterwards |
|---|---|---|---|---|---|
{ways}

## What comes next

The next transition depends on the position and on `spec.migration.desired`. The table assumes that no broker is in
KRaft mode at `Copied`, and that `/migration` does not exist if there is no quorum. **Refused** means
`MigrationBlocked`; the numbers refer to the messages below the table.

| Position | {desired} |
|---|{rules}
{answers}

{refusals}
"""


def page(note: str) -> str:
    """The whole page. `note`: the comment that says that the file is made."""
    reasons: dict[str, int] = {}
    answers = "\n".join(_answers(reasons))
    return _HEAD.format(
        note=note,
        picture="\n".join(_picture()),
        positions="\n".join(map(_position, ROWS)),
        ways="\n".join(_ways()),
        desired=" | ".join(f"`{target}`" for target in TARGETS),
        rules="---|" * len(TARGETS),
        answers=answers,
        refusals="\n".join(f"{number}. {text}" for text, number in reasons.items()),
    )


def _picture() -> Iterator[str]:
    """Lines of a Mermaid diagram of all transitions."""
    yield "stateDiagram-v2"
    yield f"    [*] --> {Position.ZOOKEEPER}"
    for edge in FORWARD:  # one arrow after the other through all positions that it may begin in
        for start, end in pairwise((*edge.start, edge.end)):
            yield f"    {start} --> {end}"
    for edge in BACK:  # an arrow from each position that it may begin in
        for start in edge.start:
            if start is not edge.end_from(start):
                yield f"    {start} --> {edge.end_from(start)}: back"
    yield f"    {Position.FINALIZED} --> [*]"


def _position(row: PositionRow) -> str:
    """The row of a position in the first table."""
    states = " or ".join(f"`{state.name}`" if state is not None else "no quorum answers" for state in row.state)
    claims = "any" if len(row.claim) == len(ClaimKind) else " or ".join(row.claim)
    some_modes = " or ".join(_MODES[mode] for mode in row.some)
    other_modes = [_MODES[mode] for mode in row.modes if mode not in row.some]
    brokers = f"at least one in {some_modes}" + (f", the others in {' or '.join(other_modes)}" if other_modes else "")
    if row.modes == row.some:
        brokers = f"all in {some_modes}"
    phases = ", ".join(dict.fromkeys(f"`{phase_of(row.position, target)}`" for target in TARGETS))
    return (
        f"| `{row.position}` | {states} | {claims} | {_OFFSETS[row.copied]} | {brokers} | {_FLAGS[row.flags]} "
        f"| {phases} |"
    )


def _ways() -> Iterator[str]:
    """The rows of the table of transitions."""
    for edge in (*FORWARD, *BACK):
        asks = [f"{'controllers' if edge.restarts is None else edge.restarts.value.lower() + 's'}: {edge.asks}"]
        git = "; ".join([*(asks if edge.asks is not None else []), *edge.further_actions]) or "-"
        restarted = f"{edge.restarts.value.lower()}s" if edge.restarts is not None else "-"
        deleted = ", ".join(f"`{path}`" for path in edge.deletes) or "-"
        ends = [*dict.fromkeys(map(edge.end_from, edge.start))]
        one_end = len(ends) == 1
        start = (
            ", ".join(f"`{position}`" for position in edge.start if not (one_end and position is edge.end))
            or f"`{edge.end}`"
        )
        end, back = ", ".join(f"`{position}`" for position in ends), _sentence(str(RETURNS[edge]))
        yield f"| {start} | {end} | {git} | {restarted} | {deleted} | {back} |"


def _answers(reasons: dict[str, int]) -> Iterator[str]:
    """The rows of the last table. Adds each refusal to `reasons`, with its number in that table."""
    for position in Position:
        cells = []
        for desired in TARGETS:
            answer = next_edge(position, desired, _EVIDENCE)
            if isinstance(answer, NoEdge):
                number = reasons.setdefault(f"{_sentence(answer.message)}: {answer.remedy}.", len(reasons) + 1)
                cells.append(f"**refused** ({number})")
            else:
                cells.append(f"to `{answer.end_from(position)}`" if isinstance(answer, Edge) else "reached")
        yield f"| `{position}` | {' | '.join(cells)} |"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
