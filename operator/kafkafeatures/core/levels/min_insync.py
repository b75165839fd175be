"""What raising `eligible.leader.replicas.version` does to `min.insync.replicas`: no broker's value may change unseen.

Pure. One of the checks of `core/levels/checks.py`; `core/levels/stage.py` has the values read. With the raise the
active controller writes the value of its own file as the default of the whole cluster, unless a request has set one,
and removes those of single brokers (`ConfigurationControlManager.maybeGenerateElrSafetyRecords`, Kafka 4.0 and later;
seen on 4.1.2, 4.2.0, 4.3.1 and 4.4.0). That default goes before the files of brokers, and stays after a downgrade. Each
controller may be the active one by then, so the value of each counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

from kafkafeatures.api.names import ELIGIBLE_LEADER_REPLICAS
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker, Nodes, about_nodes, these, title_of, verb
from kafkafeatures.core.engine.remedies import ANY_CLUSTER
from kafkafeatures.core.facts.observation import Node, NodeState, Observation
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.settings import MIN_INSYNC_REPLICAS, Setting, SettingSource
from kafkafeatures.core.levels.question import Question
from kafkafeatures.core.levels.update_feature import UpdateFeature

SET_FOR_ALL = SettingSource.ALL_BROKERS
_NO_NODES = (NodeState.GHOST, NodeState.REFUSED)
_ADDRESSES = re.compile(r"--bootstrap-server \S+")


def writes_min_insync(changes: Iterable[UpdateFeature]) -> bool:
    """Tell whether one of the changes makes the controller write `min.insync.replicas`."""
    return any(one.feature == ELIGIBLE_LEADER_REPLICAS and one.before == 0 < one.after for one in changes)


def min_insync_replicas_stay(question: Question) -> Iterator[Blocker]:
    """Every broker keeps the value that it applies to topics without one of their own."""
    if not writes_min_insync(question.changes):
        return
    brokers, controllers = (_of_role(question.observation, role) for role in (Role.BROKER, Role.CONTROLLER))
    default: set[str | None] = {
        one.layers[SET_FOR_ALL] for _, one in brokers if one is not None and SET_FOR_ALL in one.layers
    }
    command = _command(question)
    yield from _not_known(brokers if default else [*brokers, *controllers], command)
    written = default or {_in_file(one) for _, one in controllers if one is not None}
    losing = [(node, one) for node, one in brokers if one is not None and written - {one.value}]
    if losing:
        nodes, today = tuple(node for node, _ in losing), sorted({str(one.value) for _, one in losing})
        own = [node.id for node, one in losing if SettingSource.NODE in one.layers]
        text = (
            f"raising {ELIGIBLE_LEADER_REPLICAS} makes {MIN_INSYNC_REPLICAS} {' or '.join(sorted(map(str, written)))} "
            f"for all brokers{', and removes what requests set for single ones' if own else ''}; {title_of(nodes)} "
            f"{verb(nodes, 'uses', 'use')} {' or '.join(today)} today"
        )
        yield Blocker(
            BlockerKind.SETTING, text, _to_keep(today, own, command, has_default=bool(default)),
            feature=ELIGIBLE_LEADER_REPLICAS, nodes=nodes, reason=Reason.BLOCKED,
        )  # fmt: skip


def _command(question: Question) -> str:
    """The beginning of Kafka's own command."""
    found = _ADDRESSES.search(question.cluster_flags)
    return f"kafka-configs.sh {found[0] if found else ANY_CLUSTER} --entity-type brokers"


def _for_all(command: str, value: str) -> str:
    return f"{command} --entity-default --alter --add-config {MIN_INSYNC_REPLICAS}={value}"


def _to_keep(today: list[str], own: list[int], command: str, *, has_default: bool) -> str:
    if len(today) == 1 and not has_default and not own:
        return f"keep today's value for all brokers before: {_for_all(command, today[0])}"
    chosen = f"choose one value N for all brokers, and set it before: {_for_all(command, 'N')}"
    removed = f"{command} --entity-name {own[0]} --alter --delete-config {MIN_INSYNC_REPLICAS}" if own else ""
    return f"{chosen}; remove that of each single broker: {removed}" if own else chosen


def _in_file(setting: Setting) -> str | None:
    """The value that the file of a node, or Kafka's default, gives; a lone default has no layers."""
    return setting.without_requests or setting.value


def _of_role(seen: Observation, role: Role) -> list[tuple[Node, Setting | None]]:
    """The nodes of a role, each with what it says of itself; None where it did not."""
    nodes = (node for node in seen.nodes if role in node.roles and node.state not in _NO_NODES)
    return [(node, node.settings.get(MIN_INSYNC_REPLICAS) if node.proved_at else None) for node in nodes]


def _not_known(found: Iterable[tuple[Node, Setting | None]], command: str) -> Iterator[Blocker]:
    for node in {node.id: node for node, one in found if one is None}.values():
        wording = partial(_unknown, command)
        blocker = about_nodes(BlockerKind.SETTING, (node,), wording, feature=ELIGIBLE_LEADER_REPLICAS)
        yield replace(blocker, reason=Reason.BLOCKED)


def _unknown(command: str, nodes: Nodes) -> tuple[str, str]:
    text = (
        f"the {MIN_INSYNC_REPLICAS} of {title_of(nodes)} is not known, and raising {ELIGIBLE_LEADER_REPLICAS} may "
        "change it for all brokers"
    )
    reach = f"make {these(nodes)} reachable, and grant DESCRIBE_CONFIGS on the cluster"
    if Role.BROKER in nodes[0].roles:
        return text, reach
    return (
        text,
        f"{reach}; or set a value for all brokers, so that no controller writes its own: {_for_all(command, 'N')}",
    )
