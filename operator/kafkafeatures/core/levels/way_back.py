"""Lines about the way back from a changed level, and what it loses: for the steps of a plan.

Pure. Called by `core/levels/proposal.py` and `core/report/levels_document.py`. The rules by which Kafka allows a
downgrade are in `core/facts/releases.py`.
"""

from __future__ import annotations

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.facts.releases import Undo, floor_of, format_level
from kafkafeatures.core.levels.changes import may_lose_metadata
from kafkafeatures.core.levels.effects import levels_of
from kafkafeatures.core.levels.readiness import floor_above
from kafkafeatures.core.levels.update_feature import UpdateFeature


def way_back_of(change: UpdateFeature) -> str:
    """Line about the way back after a change: "way back to ...: how; losses", or "no way back: reason". Empty for
    a downgrade that Kafka refuses. That a downgrade may lose metadata is not in it: `undo` of the change says so.
    """
    name_before, name_after = (format_level(change.feature, level) for level in (change.from_level, change.to_level))
    if change.is_downgrade:
        if (
            change.feature == KRAFT_VERSION
            or floor_above(change.feature, change.from_level, change.to_level) is not None
        ):
            return ""  # Kafka refuses the downgrade, which a blocker says
        lost = "what the downgrade removed stays lost" if may_lose_metadata(change) else "nothing is lost"
        return f"way back to {name_before}: raise it again; {lost}"
    if change.feature == KRAFT_VERSION:
        return "no way back: a dynamic quorum stays dynamic"
    if change.feature == METADATA_VERSION:
        return _of_metadata_version(change, name_before, name_after)
    losses = "".join(f"; {row.after_downgrade}" for row in levels_of(change) if row.after_downgrade)
    return f"way back to {name_before}: downgrade{losses}"


def _of_metadata_version(change: UpdateFeature, from_level: str, to_level: str) -> str:
    """Line for a raise of metadata.version. `from_level`, `to_level`: with the names of the levels."""
    floor = floor_of(change.to_level)  # the lowest level that can be reached without a loss
    if floor is None:
        return f"no way back is known: {to_level} is not a level that this version knows"
    lowest = format_level(change.feature, floor)
    if change.undo is Undo.IMPOSSIBLE and floor == change.to_level:
        return f"no way back: Kafka refuses to downgrade below {lowest}"
    if change.undo is Undo.IMPOSSIBLE:
        return f"way back only to {lowest}: Kafka refuses to downgrade further"
    further = f", down to {lowest}" if floor < change.from_level else ""
    return f"way back to {from_level}{further}: downgrade; nothing is lost"
