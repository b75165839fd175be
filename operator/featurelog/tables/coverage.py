"""Judges whether copies of enough nodes were read for the verdict `ready`. Called by `upgrade_readiness`, the gate, and
`client_evidence`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from featurelog.tables.history import History
from kafkafeatures.core.facts.readings import majority_of

FEWEST_COPIES = 2
"""Fewest copies of different nodes: with a single copy, nothing shows whether its end is missing."""


def coverage_of(history: History) -> dict[str, Any]:
    """The columns about coverage that `coverage` judges."""
    return {
        "known_from_offset": history.base if not history.doubts else None,
        "voters": sorted(history.voters) if history.voters is not None else None,
        "copies": sorted({copy.node for copy in history.cluster.copies}),
        "copied_nodes": sorted(history.log.copied(history.voters or ())),
    }


def coverage(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Reasons against `ready`, as (kind, text), if copies of too few nodes were read. A node whose log is there twice
    counts once. `row`: a row with the columns about coverage.
    """
    copies, nodes, voters = row["copies"] or (), row["copied_nodes"], row["voters"]
    if not voters:
        return [("voters", "who votes is not known: neither a record of the log nor quorum-state says")]
    if nodes is None:
        return [("coverage", "an older release made the tables; run the pipeline again")]
    ids = set(nodes)
    copied = sorted(ids & set(voters))
    if len(copied) < majority_of(len(voters)):
        text = f"copies of {len(copied)} of {len(voters)} voters were read, not of a majority"
        if len(copies) > len(ids):
            text += f" (of {len(copies)} folders only {len(ids)} are of different nodes for sure; see data_quality)"
        return [("coverage", f"{text}; copy the whole log folder of each node, and meta.properties with it")]
    if len(ids) < FEWEST_COPIES:
        text = (
            "only one copy was read, and it may lack the newest records; add the copy of a second node; for a cluster "
            "of one node, use kafkafeatures check"
        )
        return [("coverage", text)]
    if row["known_from_offset"] is None:
        return [("coverage", "the state is not known without a hole")]
    return []
