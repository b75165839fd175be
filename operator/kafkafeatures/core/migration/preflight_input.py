"""Input of the preflight of a migration, and helpers of its checks.

Pure. The checks are in `preflight_nodes.py`, `preflight_controllers.py` and `preflight_znodes.py`, their order in
`preflight.py`. A setting that a node did not report never counts as correct: `preflight_nodes.py` has one blocker for
it, and the other checks judge only reported settings.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import timedelta
from functools import partial

from msgspec import Struct, field

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker, Nodes, about_nodes
from kafkafeatures.core.facts.observation import Node, Observation
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.settings import Setting, SettingSource
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.positions import Position


class PreflightInput(Struct, frozen=True):
    """Facts on which the preflight judges.

    end: end of the way: PreMigration or Copied.
    observation: each node with the settings in `preflight.NAMES`.
    znodes: reading of ZooKeeper; a Failure if it could not be read.
    survey: dry run of the copy over all znodes; a Failure if it could not be made.
    controllers_for: time for which controllers have answered without a break.
    flying: ids of nodes that are being restarted, of which nothing is expected.
    """

    end: Position
    observation: Observation
    znodes: ZooKeeperReading | Failure
    survey: Survey | Failure
    controllers_for: timedelta = field(default_factory=timedelta)
    flying: frozenset[int] = frozenset()

    @property
    def nodes(self) -> Nodes:
        """Nodes that the way concerns. On the way to PreMigration only brokers: controllers need not exist yet."""
        return tuple(
            node
            for node in self.observation.nodes
            if node.id not in self.flying and (self.end is not Position.PRE_MIGRATION or Role.BROKER in node.roles)
        )

    @property
    def brokers(self) -> Nodes:
        """Brokers in any state."""
        return tuple(node for node in self.nodes if Role.BROKER in node.roles)

    @property
    def controllers(self) -> Nodes:
        """Controllers in any state."""
        return tuple(node for node in self.nodes if Role.CONTROLLER in node.roles)


def reported(nodes: Iterable[Node], name: str) -> tuple[tuple[Node, Setting], ...]:
    """Nodes that proved their id and reported this setting, each with the setting."""
    return tuple((node, node.settings[name]) for node in nodes if node.proved_at and name in node.settings)


def is_set(setting: Setting) -> bool:
    """Tell whether the setting has more than its default. A secret counts as set, as its value is never known."""
    return setting.source is not SettingSource.DEFAULT and (setting.is_secret or bool(setting.value))


def sets(node: Node, *names: str) -> bool:
    """Tell whether a node sets one of these settings; False also if it reported none of them."""
    return any(is_set(setting) for name in names for _, setting in reported((node,), name))


def file_value(setting: Setting) -> str:
    """Value in the file of a node, or the default; empty for no value. Values set by requests are left out, as the
    migration copies them with all metadata.
    """
    if setting.source in (SettingSource.FILE, SettingSource.DEFAULT) or not setting.layers:
        return (setting.value or "").strip()
    return (setting.without_requests or "").strip()


def names_in(listed: str) -> tuple[str, ...]:
    """Parts of a comma-separated list, without empty ones."""
    return tuple(part for raw_part in listed.split(",") if (part := raw_part.strip()))


def of_each(
    nodes: Iterable[Node],
    kind: BlockerKind,
    wording: Callable[..., tuple[str, str]],
    *words: Hashable,
    failure_kind: FailureKind | None = None,
) -> Iterator[Blocker]:
    """One blocker for each node; alike blockers are later shown as one. `wording`: makes message and remedy from
    `words` and the nodes.
    """
    for node in nodes:
        blocker = about_nodes(
            kind, (node,), partial(wording, *words), failure_kind=failure_kind, alike=(wording, *words)
        )
        yield blocker if kind is BlockerKind.NODE_UNKNOWN else replace(blocker, reason=Reason.MIGRATION_BLOCKED)


def unread(failure: Failure, kind: BlockerKind, remedy: str = "") -> Blocker:
    """Blocker for a reading that failed; `remedy` is used if the failure has none."""
    return Blocker(kind, str(replace(failure, remedy="")), failure.remedy or remedy, failure_kind=failure.kind)
