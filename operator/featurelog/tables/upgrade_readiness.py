"""The table `upgrade_readiness`: can a cluster be raised to a release, or a feature to a level, by its log?

It applies the rules of the operator's preflight (`core/levels/readiness.py`) to the records of a log: every registered
broker and controller, running or not, must support the level, and from metadata.version 15 (3.7-IV0) on every voter
must be registered. The verdict is `unknown` if the state is in doubt, if it rests on a record that may not be
committed, or if copies of too few nodes were read (`coverage`). Removing, truncating or repeating inputs never makes a
verdict `ready`: missing records cause a doubt, or an earlier end of the log, which is too old after `valid_for_ms`. One
loss leaves no trace: that of the newest records, if only one copy had them. The operator does not read this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from featurelog.tables import min_insync
from featurelog.tables.client_evidence import ClientJudging
from featurelog.tables.coverage import coverage, coverage_of
from featurelog.tables.history import BROKER, CONTROLLER, History, Registered
from featurelog.tables.node_registrations import ghost
from featurelog.tables.table import TIME, WHERE, Column, Row, Table
from featurelog.tables.tracks import Version
from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import NOT_SUPPORTED
from kafkafeatures.core.facts.releases import (
    CONTROLLER_REGISTRATION,
    KAFKAS_FEATURES,
    KRAFT_VERSION_RAISABLE,
    METADATA_VERSIONS,
    Undo,
    bundle,
    format_level,
    releases,
)
from kafkafeatures.core.levels.min_insync import writes_min_insync
from kafkafeatures.core.levels.readiness import (
    can_make_the_quorum_dynamic,
    controllers_are_registered,
    makes_the_quorum_dynamic,
    undo_of_downgrade,
    unmet_dependencies,
    unregistered_voters,
)
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kraftlog.ghosts import FENCED_FOR_MS
from kraftlog.image import BrokerRegistration, is_under_way

READY, BLOCKED, UNKNOWN = "ready", "blocked", "unknown"
VALID_FOR_MS = 24 * 60 * 60 * 1000
MAX_LEVEL, MAX_FEATURES = 100, 100
"""Most levels of a feature, and most features that Kafka does not have, with rows: a log may have any number."""

_EVIDENCE = (
    pa.field("node", pa.string()), pa.field("file", pa.string()), pa.field("offset", pa.int64()), pa.field("ts", TIME),
)  # fmt: skip
_NODE = pa.struct(
    [
        pa.field("role", pa.string()), pa.field("node_id", pa.int32()), pa.field("reason", pa.string()),
        pa.field("feature", pa.string()), pa.field("needed", pa.int32()), pa.field("supported_min", pa.int32()),
        pa.field("supported_max", pa.int32()), pa.field("ghost_suspect", pa.bool_()), *_EVIDENCE,
    ]
)  # fmt: skip
_LOSS = pa.struct(
    [
        pa.field("feature", pa.string()), pa.field("from_level", pa.int32()), pa.field("to_level", pa.int32()),
        pa.field("undo", pa.string()), pa.field("text", pa.string()),
    ]
)  # fmt: skip
_WHY = pa.struct([pa.field("kind", pa.string()), pa.field("text", pa.string())])
_CHANGE = pa.struct(
    [pa.field("feature", pa.string()), pa.field("from_level", pa.int32()), pa.field("to_level", pa.int32())]
)

TABLE = Table(
    "upgrade_readiness",
    "A row for each target: every release of Kafka, and every level of every feature that Kafka or a node knows. Of "
    "the features that Kafka does not know, only the first hundred have rows.",
    ("cluster", "cluster_id", "target_kind", "target"),
    (
        *WHERE,
        Column("target_kind", pa.string(), "`release` (the levels that `releaseVersion` stands for) or `feature`"),
        Column("target", pa.string(), "`4.1`, or `group.version=1`"),
        Column("verdict", pa.string(), "`ready` (nothing blocks it), `blocked`, or `unknown` (see `unknown_because`)"),
        Column("changes", pa.list_(_CHANGE), "levels that would change; empty: the cluster is already at the target"),
        Column(
            "blocking_nodes",
            pa.list_(_NODE),
            "registered nodes that do not support a level (`NodeRange`), voters that are not "
            "registered (`ControllerNotRegistered`), and controllers that cannot make the quorum dynamic "
            "(`ControllerTooOld`); each with its last registration as evidence",
        ),
        Column("downgrade_losses", pa.list_(_LOSS), "downgrades that are `Lossy` (may lose metadata) or `Impossible`"),
        Column(
            "other_blockers",
            pa.list_(_WHY),
            "a migration that is in progress, or was finalized while brokers were in ZooKeeper mode; a level that "
            "requires another level; a `min.insync.replicas` that the change would take from a broker (`Setting`)",
        ),
        Column(
            "unknown_because",
            pa.list_(_WHY),
            "unknown facts that prevent the verdict `ready`; `min_insync_replicas`: raising "
            "`eligible.leader.replicas.version` would write a value that only the file of a controller has",
        ),
        Column(
            "known_from_offset",
            pa.int64(),
            "coverage: offset from which the state is known without a gap; null: there is none",
        ),
        Column("committed_below", pa.int64(), "coverage: records below this offset are known to be committed"),
        Column("voters", pa.list_(pa.int32()), "ids of the voters; null: not known"),
        Column("copies", pa.list_(pa.string()), "coverage: folders of the nodes whose copies were read"),
        Column(
            "copied_nodes",
            pa.list_(pa.int32()),
            "coverage: ids of the nodes whose logs were copied, each once; null: an older release made the row",
        ),
        Column("watermark_offset", pa.int64(), "end of the log that was read, exclusive"),
        Column("watermark_ts", TIME, "when the last record that was read was appended; the verdict is as of then"),
        Column("evaluated_at", TIME, "when the verdict was made"),
        Column("valid_until", TIME, "from then on the log that was read is too old: treat the verdict as `unknown`"),
    ),
)


@dataclass(frozen=True, slots=True)
class Judging:
    """Parameters. at_ms: time of the verdict. valid_for_ms: largest age of a log. fenced_for_ms: see `kraftlog.ghosts`.
    clients: None: clients are not judged.
    """

    at_ms: int
    valid_for_ms: int = VALID_FOR_MS
    fenced_for_ms: int = FENCED_FOR_MS
    clients: ClientJudging | None = None


@dataclass(slots=True)
class _Findings:
    """Reasons against a target, by column: blocking_nodes, downgrade_losses, other_blockers and unknown_because."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    losses: list[dict[str, Any]] = field(default_factory=list)
    other_blockers: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[tuple[str, str]] = field(default_factory=list)

    def verdict(self, is_state_known: bool) -> str:
        """The verdict; `blocked` only if the state is known, since a missing record may have removed what blocks."""
        if is_state_known and (self.nodes or self.losses or self.other_blockers):
            return BLOCKED
        return UNKNOWN if self.unknown else READY


def rows(history: History, judging: Judging) -> Iterator[Row]:
    """The rows of one cluster: one for each target."""
    return _Judge(history, judging).rows()


class _Judge:
    """Judges all targets of a cluster. A registration counts until the record that ended it is surely committed."""

    def __init__(self, history: History, judging: Judging) -> None:
        self._history = history
        self._judging = judging
        self._below = history.committed_below
        may_hold = [version for version in history.nodes.versions if version.may_hold(self._below)]
        self._nodes = sorted(
            may_hold, key=lambda version: (version.key[0] == BROKER, version.key[1], version.end is not None)
        )
        self._levels = {name: version.value for name, version in history.levels.current.items()}
        # Features whose level changes back if the last records, which may not be committed, are undone.
        self._unsure = {version.key for version in history.levels.versions if not version.is_committed(self._below)}
        self._doubts = list(self._general_doubts())
        self._coverage = coverage_of(history)

    def rows(self) -> Iterator[Row]:
        for release in releases():
            levels = bundle(release) or {}
            yield self._row("release", release, self._of_release(levels))
        for feature, highest in sorted(self._features().items()):
            for level in METADATA_VERSIONS if feature == METADATA_VERSION else range(highest + 1):
                yield self._row("feature", f"{feature}={level}", {feature: level})

    def _features(self) -> Mapping[str, int]:
        """Every known feature with its highest known level, within the limits."""
        highest = {name: max(1, self._levels.get(name, 0)) for name in (*KAFKAS_FEATURES, *self._levels)}
        for feature, level in (bundle(releases()[-1]) or {}).items():
            highest[feature] = max(highest.get(feature, 0), level)
        for version in self._nodes:
            for feature, (_, high) in version.value.registration.features.items():
                highest[feature] = max(highest.get(feature, 0), high)
        other_features = sorted(highest.keys() - KAFKAS_FEATURES)[:MAX_FEATURES]
        return {feature: min(highest[feature], MAX_LEVEL) for feature in (*KAFKAS_FEATURES, *other_features)}

    def _of_release(self, levels: Mapping[str, int]) -> Mapping[str, int]:
        """Target levels: below the current metadata.version, later features go to 0; otherwise no level goes down."""
        if self._levels.get(METADATA_VERSION, 0) > levels.get(METADATA_VERSION, 0):
            later = {name: 0 for name in self._levels if name in KAFKAS_FEATURES and name != KRAFT_VERSION}
            return {**later, **levels}
        return {name: max(level, self._levels.get(name, 0)) for name, level in levels.items()}

    def _row(self, kind: str, target: str, levels: Mapping[str, int]) -> Row:
        history, judging = self._history, self._judging
        changes = {name: level for name, level in levels.items() if level != self._levels.get(name, 0)}
        findings = _Findings(unknown=list(self._doubts))
        for name in sorted(self._unsure & levels.keys()):
            findings.unknown.append(("not_committed", f"the last change of {name} may not be committed"))
        if changes:
            self._judge(changes, findings)
        until = None if history.end_ms is None else history.end_ms + judging.valid_for_ms
        verdict = findings.verdict(is_state_known=not self._doubts)
        if verdict == READY:
            findings.unknown += coverage(self._coverage)
            verdict = findings.verdict(is_state_known=not self._doubts)
        return {
            "target_kind": kind,
            "target": target,
            "verdict": verdict,
            "changes": [
                {"feature": name, "from_level": self._levels.get(name, 0), "to_level": level}
                for name, level in sorted(changes.items())
            ],
            "blocking_nodes": findings.nodes,
            "downgrade_losses": findings.losses,
            "other_blockers": _whys(findings.other_blockers),
            "unknown_because": _whys(findings.unknown),
            **self._coverage,
            "committed_below": self._below,
            "watermark_offset": history.end,
            "watermark_ts": history.end_ms,
            "evaluated_at": judging.at_ms,
            "valid_until": until,
        }

    def _general_doubts(self) -> Iterator[tuple[str, str]]:
        """Doubts that concern every target, as kind and text."""
        history, judging = self._history, self._judging
        yield from dict.fromkeys((doubt.kind, doubt.text) for doubt in history.doubts)
        if history.end_ms is None:
            yield "too_old", "when the last record was appended is not known"
        elif judging.at_ms - history.end_ms > judging.valid_for_ms:
            hours = (judging.at_ms - history.end_ms) // 3_600_000
            yield "too_old", f"the last record that was read was appended {hours} hours before this was judged"
        if not any(version.end is None and version.key[0] == BROKER for version in self._nodes):
            yield "no_broker", "no broker is registered"

    # --- one target

    def _judge(self, changes: Mapping[str, int], findings: _Findings) -> None:
        for feature, level in sorted(changes.items()):
            self._losses(feature, level, findings)
            self._ranges(feature, level, findings)
        if KRAFT_VERSION in changes:
            self._dynamic_quorum(changes[KRAFT_VERSION], findings)
        self._voters(findings)
        self._dependencies(changes, findings)
        self._migration(findings)
        self._settings(changes, findings)

    def _settings(self, changes: Mapping[str, int], findings: _Findings) -> None:
        if not writes_min_insync(UpdateFeature(name, self._levels.get(name, 0), to) for name, to in changes.items()):
            return
        brokers = sorted({node.key[1] for node in self._nodes if node.key[0] == BROKER})
        for kind, text in min_insync.findings(self._history.min_insync, brokers, self._below):
            (findings.other_blockers if kind == min_insync.SETTING else findings.unknown).append((kind, text))

    def _migration(self, findings: _Findings) -> None:
        for state in self._history.migration.versions:
            migrates = is_under_way(state.value.code)
            if not state.may_hold(self._below) or migrates is False:
                continue
            if migrates is None:
                findings.unknown.append(("migration", f"the state {state.value.code} of the migration is unknown"))
            elif state.end is None:
                findings.other_blockers.append(("Migration", "a migration from ZooKeeper is in progress"))
            else:
                findings.unknown.append(
                    ("not_committed", "the end of the migration from ZooKeeper may not be committed")
                )
        self._in_zookeeper_mode(findings)

    def _in_zookeeper_mode(self, findings: _Findings) -> None:
        """Add brokers that are still registered in ZooKeeper mode although the migration is over."""
        code = next((state.value.code for state in self._history.migration.versions if state.end is None), None)
        if is_under_way(code) is not False:
            return
        in_zookeeper_mode: dict[bool, set[int]] = {True: set(), False: set()}
        for version in self._nodes:
            registration = version.value.registration
            if isinstance(registration, BrokerRegistration) and registration.is_migrating_zk_broker:
                in_zookeeper_mode[version.end is None].add(version.key[1])
        if in_zookeeper_mode[True]:
            ids = ", ".join(map(str, sorted(in_zookeeper_mode[True])))
            text = f"the migration was finalized while brokers were in ZooKeeper mode: {ids}"
            findings.other_blockers.append(("Migration", text))
        for id_ in sorted(in_zookeeper_mode[False] - in_zookeeper_mode[True]):
            text = f"that broker {id_} is no longer in ZooKeeper mode may not be committed"
            findings.unknown.append(("not_committed", text))

    def _losses(self, feature: str, level: int, findings: _Findings) -> None:
        current_level = self._levels.get(feature, 0)
        undo = undo_of_downgrade(feature, current_level, level)
        if undo is not Undo.SAFE:
            consequence = "metadata may be lost" if undo is Undo.LOSSY else "Kafka refuses it"
            text = f"{feature} {format_level(feature, current_level)} to {format_level(feature, level)}: {consequence}"
            findings.losses.append(
                {"feature": feature, "from_level": current_level, "to_level": level, "undo": undo.value, "text": text}
            )

    def _ranges(self, feature: str, level: int, findings: _Findings) -> None:
        for version in self._nodes:
            supported = _range(version.value, feature)
            if level not in supported:
                self._add_node(findings, version, "NodeRange", feature=feature, needed=level, supported=supported)

    def _dynamic_quorum(self, level: int, findings: _Findings) -> None:
        if not makes_the_quorum_dynamic(KRAFT_VERSION, self._levels.get(KRAFT_VERSION, 0), level):
            return
        controllers = {version.key[1] for version in self._nodes if version.key[0] == CONTROLLER}
        for version in self._nodes:  # of a combined node both registrations, as either may be of an older process
            supported = _range(version.value, METADATA_VERSION)
            if version.key[1] in controllers and not can_make_the_quorum_dynamic(supported):
                needed = KRAFT_VERSION_RAISABLE
                self._add_node(
                    findings, version, "ControllerTooOld", feature=METADATA_VERSION, needed=needed, supported=supported
                )
                controllers -= {version.key[1]} if version.end is None else set()

    def _add_node(
        self,
        findings: _Findings,
        version: Version[Registered],
        reason: str,
        *,
        feature: str,
        needed: int,
        supported: VersionRange,
    ) -> None:
        """Add a node that lacks support; or a doubt, if the record that ended its registration may not be committed."""
        role, id_ = version.key
        if version.end is not None:
            text = f"the record that ends the registration of {role} {id_}, which does not support {feature} {needed}"
            findings.unknown.append(("not_committed", f"{text}, may not be committed"))
            return
        suspect, _ = ghost(self._history, version, self._judging.fenced_for_ms)
        by = version.value.by
        findings.nodes.append(
            {
                "role": role, "node_id": id_, "reason": reason, "feature": feature, "needed": needed,
                "supported_min": supported.min, "supported_max": supported.max, "ghost_suspect": suspect,
                "node": by.node, "file": by.file, "offset": by.offset, "ts": by.at_ms,
            }
        )  # fmt: skip

    def _voters(self, findings: _Findings) -> None:
        """Add voters that are not registered. Below the level at which controllers register, they are unknown."""
        if not controllers_are_registered(self._levels):
            text = f"controllers do not register below metadata.version {CONTROLLER_REGISTRATION}; ask them"
            findings.unknown.append(("controllers", text))
            return
        voters = self._history.voters_from(self._below)
        if voters is None:
            text = "who votes is not known: neither a record of the log nor quorum-state says"
            findings.unknown.append(("voters", text))
            return
        registered = {version.key[1] for version in self._nodes if version.key[0] == CONTROLLER}
        surely = {
            version.key[1]
            for version in self._nodes
            if version.key[0] == CONTROLLER and version.is_committed(self._below)
        }
        for id_ in unregistered_voters(voters, registered):
            findings.nodes.append(
                {
                    "role": CONTROLLER, "node_id": id_, "reason": "ControllerNotRegistered",
                    "feature": METADATA_VERSION, "needed": None, "supported_min": None, "supported_max": None,
                    "ghost_suspect": None, "node": None, "file": None, "offset": None, "ts": None,
                }
            )  # fmt: skip
        for id_ in sorted((voters & registered) - surely):
            findings.unknown.append(("not_committed", f"the registration of controller {id_} may not be committed"))

    def _dependencies(self, changes: Mapping[str, int], findings: _Findings) -> None:
        unmet = sorted(unmet_dependencies(self._levels, changes), key=lambda dependency: dependency.feature)
        findings.other_blockers += [("Dependency", str(dependency)) for dependency in unmet]


def _range(node: Registered, feature: str) -> VersionRange:
    """The range of a feature in a registration; a feature that it does not list is supported at level 0 only."""
    return VersionRange(*node.registration.features.get(feature, (NOT_SUPPORTED.min, NOT_SUPPORTED.max)))


def _whys(findings: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"kind": kind, "text": text} for kind, text in dict.fromkeys(findings)]
