"""Input of the preflight of a migration, and helpers of its checks.

Pure. The checks are in `preflight_nodes.py`, `preflight_controllers.py` and `preflight_znodes.py`, their order in
`preflight.py`. A setting that a node did not report never counts as correct: `preflight_nodes.py` names it once, and
the other checks judge only what is known.
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
    """Facts that are known before a way is taken.

    end: end of the way: PreMigration or Copied.
    observation: each node with the settings in `preflight.NAMES`.
    znodes: reading of ZooKeeper; a Failure if it could not be read.
    survey: dry run of the copy over all znodes; a Failure if it could not be made.
    controllers_for: for how long controllers have answered.
    flying: nodes that are being restarted, of which nothing is expected.
    """

    end: Position
    observation: Observation
    znodes: ZooKeeperReading | Failure
    survey: Survey | Failure
    controllers_for: timedelta = field(default_factory=timedelta)
    flying: frozenset[int] = frozenset()

    @property
    def nodes(self) -> Nodes:
        """Nodes that the way concerns: without controllers before PreMigration, as they do not exist yet."""
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
    """Nodes that reported this setting, each with it."""
    return tuple((node, node.settings[name]) for node in nodes if node.proved_at and name in node.settings)


def is_set(setting: Setting) -> bool:
    """Tell whether the setting has more than its default. Of a secret nothing else is known."""
    return setting.source is not SettingSource.DEFAULT and (setting.is_secret or bool(setting.value))


def sets(node: Node, *names: str) -> bool:
    """Tell whether a node sets one of these settings; False also if it reported none of them."""
    return any(is_set(setting) for name in names for _, setting in reported((node,), name))


def file_value(setting: Setting) -> str:
    """Value in the file of a node, or the default; empty for no value. Values set by requests are left out: they are
    copied with everything else, and soon the same for all nodes.
    """
    if setting.source in (SettingSource.FILE, SettingSource.DEFAULT) or not setting.layers:
        return (setting.value or "").strip()
    return (setting.without_requests or "").strip()


def names_in(listed: str) -> tuple[str, ...]:
    """The parts of a list with commas."""
    return tuple(part for raw_part in listed.split(",") if (part := raw_part.strip()))


def of_each(
    nodes: Iterable[Node],
    kind: BlockerKind,
    say: Callable[..., tuple[str, str]],
    *words: Hashable,
    failure_kind: FailureKind | None = None,
) -> Iterator[Blocker]:
    """One blocker for each node; blockers that are alike are shown as one. `say`: makes message and remedy of `words`
    and the nodes.
    """
    for node in nodes:
        blocker = about_nodes(kind, (node,), partial(say, *words), failure_kind=failure_kind, alike=(say, *words))
        yield blocker if kind is BlockerKind.NODE_UNKNOWN else replace(blocker, reason=Reason.MIGRATION_BLOCKED)


def unread(failure: Failure, kind: BlockerKind, remedy: str = "") -> Blocker:
    """Blocker for what could not be read, which prevents a step as well."""
    return Blocker(kind, str(replace(failure, remedy="")), failure.remedy or remedy, failure_kind=failure.kind)
