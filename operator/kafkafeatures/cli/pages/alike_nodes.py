"""Groups the nodes that block a target: nodes with equal blockers are one group, with their Kafka release and one
remedy.

Pure. Called by the pages `fleet.py`, with a line for each group, and `cluster.py`, with a row for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kafkafeatures.api.status import BlockerStatus
from kafkafeatures.cli.cluster.blocker_cards import kind_in_words
from kafkafeatures.cli.cluster.blockers_text import range_lines
from kafkafeatures.cli.pages.cluster_tables import MAY_BE_A_GHOST, ClusterTables, Row
from kafkafeatures.core.engine.blockers import shortened
from kafkafeatures.core.facts.binaries import releases_with, supported_by
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import ANY_CLUSTER
from kafkafeatures.core.facts.releases import releases

NOT_REGISTERED = "votes and is not registered"


class AlikeNodes(Struct, frozen=True):
    """Nodes of one role with equal blockers. is_ghost: their registrations may be ghosts. release: `release_of` their
    version ranges. rows: by node id its blockers, one for each feature that it does not support; `needed` is None in
    the blocker of a voter that is not registered.
    """

    role: str
    is_ghost: bool
    release: str
    rows: Mapping[int, Sequence[Row]]

    @property
    def title(self) -> str:
        """Role and ids, such as "broker 3" or "brokers 1-5"."""
        return f"{self.role}{'s' if len(self.rows) > 1 else ''} {shortened(self.rows)}"

    @property
    def first(self) -> Sequence[Row]:
        """The blockers of the first node; those of the other nodes are equal."""
        return next(iter(self.rows.values()))

    @property
    def kinds(self) -> str:
        """The kinds of the blockers in words, each once."""
        return ", ".join(dict.fromkeys(map(_kind_of, self.first)))

    @property
    def lacks(self) -> list[str]:
        """Ranges that the nodes support and levels that are required, in the words of `describe`."""
        lacks = [blocker for blocker in self.first if blocker["needed"] is not None]
        statuses = [
            BlockerStatus(
                kind=lack["reason"],
                message="",
                feature=lack["feature"],
                supported_min=lack["supportedMin"],
                supported_max=lack["supportedMax"],
                wanted=lack["needed"],
            )
            for lack in lacks
        ]
        return range_lines(statuses) + [NOT_REGISTERED] * (len(lacks) < len(self.first))

    @property
    def in_short(self) -> str:
        """The group as one line."""
        if any(blocker["needed"] is None for blocker in self.first):
            lack = NOT_REGISTERED
        elif self.release:
            lack = f"Kafka {self.release}"
        else:
            lack = f"no support of {', '.join(blocker['feature'] for blocker in self.first)}"
        return f"{self.title}: {lack}{f' ({MAY_BE_A_GHOST})' if self.is_ghost else ''}"

    @property
    def remedy(self) -> str:
        """The remedy for the whole group."""
        if self.is_ghost:
            return self._ghost_remedy()
        if any(blocker["needed"] is None for blocker in self.first):
            return f"start {self.title}, so that it registers"
        if any(blocker["needed"] < blocker["supportedMin"] for blocker in self.first):
            return "choose a level that every node supports"
        release = _first_with({blocker["feature"]: blocker["needed"] for blocker in self.first})
        target = f"to {release} or newer" if release else "to a release that supports it"
        return f"upgrade Kafka on {self.title} {target}"

    def _ghost_remedy(self) -> str:
        first_id = min(self.rows)
        gone = f"if {self.title} {'are' if len(self.rows) > 1 else 'is'} permanently gone"
        if self.role == "broker":
            each = "for each of them: " if len(self.rows) > 1 else ""
            return f"{gone}: {each}`kafkafeatures unregister --broker {first_id} {ANY_CLUSTER}`"
        return f"{gone}, see how to remove the registration: `kafkafeatures describe {ANY_CLUSTER}`"


def alike_nodes(cluster: ClusterTables) -> list[AlikeNodes]:
    """The groups of nodes that block the target, brokers first, each role in the order of its first ids."""
    blockers: dict[tuple[str, int], list[Row]] = {}
    for blocker in cluster.gate["blockers"]["nodes"]:
        blockers.setdefault((blocker["role"], blocker["nodeId"]), []).append(blocker)
    ranges = {(row["role"], row["node_id"]): row["features"] for row in cluster.current}
    groups: dict[object, tuple[str, bool, str, dict[int, Sequence[Row]]]] = {}
    for (role, id_), rows in sorted(blockers.items()):
        release, is_ghost = release_of(ranges.get((role, id_))), any(row["ghostSuspect"] is True for row in rows)
        lacks = tuple(
            (row["reason"], row["feature"], row["needed"], row["supportedMin"], row["supportedMax"]) for row in rows
        )
        groups.setdefault((role, is_ghost, release, lacks), (role, is_ghost, release, {}))[3][id_] = rows
    return [AlikeNodes(*group) for group in groups.values()]


def release_of(features: Iterable[tuple[str, Any]] | None) -> str:
    """The releases of Kafka that register with these ranges, such as "3.9" or "3.8 or 3.9"; empty if none does.
    `features`: a map as Arrow gives it, pairs of name and bounds.
    """
    ranges = {name: VersionRange(bounds["min"], bounds["max"]) for name, bounds in features or ()}
    return " or ".join(releases_with(ranges))


def _kind_of(blocker: Row) -> str:
    """The kind of a blocker in words."""
    needed = blocker["needed"]
    if needed is None:
        return "Not registered"
    return kind_in_words(blocker["reason"], is_too_new=needed < blocker["supportedMin"])


def _first_with(levels: Mapping[str, int]) -> str:
    """The oldest release whose nodes support all of these levels; empty if no known one does."""
    for release in releases():
        ranges = supported_by(release) or {}
        if all(name in ranges and level in ranges[name] for name, level in levels.items()):
            return release
    return ""
