"""Effect of raising `eligible.leader.replicas.version` (KIP-966) on `min.insync.replicas`: no broker's value may change
unnoticed.

Pure. One of the checks of `core/levels/checks.py`; `core/levels/stage.py` requires that the values are read. The
pipeline (`featurelog`) applies the same rule to a metadata log, which has only the values that requests have set, and
nothing from files.

With the raise the active controller writes the value of its own file as the default of the whole cluster, unless a
request has set one, and removes the values of single brokers
(`ConfigurationControlManager.maybeGenerateElrSafetyRecords`, Kafka 4.0 and later; observed on 4.1.2, 4.2.0, 4.3.1 and
4.4.0). That default overrides the files of brokers, and stays after a downgrade. Any controller may be the active one
by then, so the values of all controllers count.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Generic, TypeVar

from msgspec import Struct

from kafkafeatures.api.names import ELIGIBLE_LEADER_REPLICAS
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker, Nodes, about_nodes, these, title_of, verb
from kafkafeatures.core.facts.observation import Node, NodeState, Observation
from kafkafeatures.core.facts.readings import ANY_CLUSTER, FailureKind, Role
from kafkafeatures.core.facts.settings import MIN_INSYNC_REPLICAS, Setting, SettingSource
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.update_feature import UpdateFeature

SET_FOR_ALL = SettingSource.ALL_BROKERS
T = TypeVar("T")
_NO_NODES = (NodeState.GHOST, NodeState.REFUSED)
"""States of nodes that do not belong to the cluster, or do not run."""
_FLAGS_OF_KAFKA = {"--bootstrap-server": "--bootstrap-server", "--config": "--command-config"}
"""Flags of Kafka's commands, by those of ours that mean the same."""


def writes_min_insync(changes: Iterable[UpdateFeature]) -> bool:
    """Tell whether one of the changes makes the controller write `min.insync.replicas`."""
    return any(change.raises(ELIGIBLE_LEADER_REPLICAS, 1) for change in changes)


class MinInsyncEffect(Struct, Generic[T], frozen=True):
    """Effect of the raise on the values of brokers. `T`: the type of a node, as the caller has it.

    has_default: a request has set a value for all brokers.
    unread: nodes whose values are needed and not known.
    new_values: possible values of all brokers after the raise: the value of the controller that is active then, or the
        one that a request has set for all.
    losing: brokers that may have another value after the raise, each with its present setting.
    """

    has_default: bool
    unread: tuple[T, ...]
    new_values: frozenset[str | None]
    losing: tuple[tuple[T, Setting], ...]

    @property
    def today(self) -> list[str]:
        """The values of the brokers that lose them."""
        return sorted({str(setting.value) for _, setting in self.losing})

    @property
    def individual(self) -> list[T]:
        """Brokers that lose a value which a request set for them alone."""
        return [node for node, setting in self.losing if SettingSource.NODE in setting.layers]

    def text(self, title: str, use: str) -> str:
        """Message about the effect. `title`: the brokers that lose their value. `use`: "use" or "uses"."""
        return (
            f"raising {ELIGIBLE_LEADER_REPLICAS} makes {MIN_INSYNC_REPLICAS} "
            f"{' or '.join(sorted(map(str, self.new_values)))} for all brokers"
            f"{', and removes what requests set for single ones' if self.individual else ''}; {title} {use} "
            f"{' or '.join(self.today)} today"
        )


def effect_of_raise(
    brokers: Collection[tuple[T, Setting | None]], controllers: Collection[tuple[T, Setting | None]]
) -> MinInsyncEffect[T]:
    """Effect of the raise of `eligible.leader.replicas.version`. The setting of a node is None if it is not known."""
    default: set[str | None] = {
        setting.layers[SET_FOR_ALL] for _, setting in brokers if setting is not None and SET_FOR_ALL in setting.layers
    }
    new_values = default or {_in_file(setting) for _, setting in controllers if setting is not None}
    return MinInsyncEffect(
        has_default=bool(default),
        unread=tuple(node for node, setting in (brokers if default else (*brokers, *controllers)) if setting is None),
        new_values=frozenset(new_values),
        losing=tuple(
            (node, setting)
            for node, setting in brokers
            if setting is not None and new_values - {setting.value}  # a possible new value differs from the present one
        ),
    )


def set_by_requests(for_all: str | None, for_itself: str | None) -> Setting | None:
    """The setting of a broker by requests alone. `for_all`, `for_itself`: values that requests have set for all
    brokers, and for this broker, which wins. None if they have set none, so that its file decides.
    """
    layers = {
        source: value
        for source, value in ((SettingSource.NODE, for_itself), (SET_FOR_ALL, for_all))
        if value is not None
    }
    source = next(iter(layers), None)
    return None if source is None else Setting(source, layers[source], layers=layers)


def min_insync_replicas_stay(inputs: LevelCheckInput) -> Iterator[Blocker]:
    """Require that every broker keeps its min.insync.replicas, which applies to topics without a value of their own."""
    if not writes_min_insync(inputs.changes):
        return
    effect = effect_of_raise(*(_of_role(inputs.observation, role) for role in (Role.BROKER, Role.CONTROLLER)))
    command = _command(inputs)
    yield from _not_known(effect.unread, command)
    if effect.losing:
        nodes = tuple(node for node, _ in effect.losing)
        yield Blocker(
            BlockerKind.SETTING, effect.text(title_of(nodes), verb(nodes, "uses", "use")), _to_keep(effect, command),
            feature=ELIGIBLE_LEADER_REPLICAS, nodes=nodes, reason=Reason.BLOCKED,
        )  # fmt: skip


def _command(inputs: LevelCheckInput) -> str:
    """The beginning of a kafka-configs.sh command for this cluster."""
    words = shlex.split(inputs.cluster_flags)  # each flag has a value
    values = dict(zip(words[::2], words[1::2], strict=False))
    pairs = [(of_kafka, values[flag]) for flag, of_kafka in _FLAGS_OF_KAFKA.items() if flag in values]
    flags = shlex.join(chain.from_iterable(pairs)) if "--bootstrap-server" in values else ANY_CLUSTER
    return f"kafka-configs.sh {flags} --entity-type brokers"


def to_set_for_all(value: str = "N", command: str = f"kafka-configs.sh {ANY_CLUSTER} --entity-type brokers") -> str:
    """The command that sets a value for all brokers."""
    return f"{command} --entity-default --alter --add-config {MIN_INSYNC_REPLICAS}={value}"


def _to_keep(effect: MinInsyncEffect[Node], command: str) -> str:
    """Remedy: the commands by which brokers keep their value, or get one that a person chose, before the raise."""
    today, own_nodes = effect.today, effect.individual
    if len(today) == 1 and not effect.has_default and not own_nodes:
        return f"keep today's value for all brokers before: {to_set_for_all(today[0], command)}"
    chosen = f"choose one value N for all brokers, and set it before: {to_set_for_all(command=command)}"
    removed = (
        f"{command} --entity-name {own_nodes[0].id} --alter --delete-config {MIN_INSYNC_REPLICAS}" if own_nodes else ""
    )
    return f"{chosen}; remove that of each single broker: {removed}" if own_nodes else chosen


def _in_file(setting: Setting) -> str | None:
    """Value from the file of a node, or Kafka's default; a setting that only has a default has no layers."""
    return setting.without_requests or setting.value


def _of_role(observation: Observation, role: Role) -> list[tuple[Node, Setting | None]]:
    """Nodes of a role, each with its own setting; None if it was not read."""
    nodes = (node for node in observation.nodes if role in node.roles and node.state not in _NO_NODES)
    return [(node, node.settings.get(MIN_INSYNC_REPLICAS) if node.proved_at else None) for node in nodes]


def _not_known(unread: Iterable[Node], command: str) -> Iterator[Blocker]:
    """Blockers for nodes whose value is needed and not known."""
    for node in {node.id: node for node in unread}.values():  # a combined node is in both lists
        failure = node.identity_failure
        kind = failure.kind if failure is not None else None
        wording = partial(_unknown, command)
        blocker = about_nodes(
            BlockerKind.SETTING, (node,), wording, feature=ELIGIBLE_LEADER_REPLICAS, failure_kind=kind, alike=kind
        )
        yield replace(blocker, reason=Reason.BLOCKED)


def _unknown(command: str, nodes: Nodes) -> tuple[str, str]:
    text = (
        f"the {MIN_INSYNC_REPLICAS} of {title_of(nodes)} is not known, and raising {ELIGIBLE_LEADER_REPLICAS} may "
        "change it for all brokers"
    )
    denied = nodes[0].unproved
    reach = f"make {these(nodes)} reachable, and grant DESCRIBE_CONFIGS on the cluster"
    if denied is not None and denied.kind is FailureKind.AUTHORIZATION:
        reach = denied.action
    if Role.BROKER in nodes[0].roles:
        return text, reach
    or_set = f"or set a value for all brokers, so that no controller writes its own: {to_set_for_all(command=command)}"
    return text, f"{reach}; {or_set}"
