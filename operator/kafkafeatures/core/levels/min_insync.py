"""What raising `eligible.leader.replicas.version` does to `min.insync.replicas`: no broker's value may change unseen.

Pure. One of the checks of `core/levels/checks.py`; `core/levels/stage.py` has the values read. With the raise the
active controller writes the value of its own file as the default of the whole cluster, unless a request has set one,
and removes those of single brokers (`ConfigurationControlManager.maybeGenerateElrSafetyRecords`, Kafka 4.0 and later;
seen on 4.1.2, 4.2.0, 4.3.1 and 4.4.0). That default goes before the files of brokers, and stays after a downgrade. Each
controller may be the active one by then, so the value of each counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkafeatures.api.names import ELIGIBLE_LEADER_REPLICAS
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker, Nodes, about_nodes, these, title_of, verb
from kafkafeatures.core.facts.observation import Node, NodeState, Observation
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.settings import MIN_INSYNC_REPLICAS, Setting, SettingSource
from kafkafeatures.core.levels.question import Question
from kafkafeatures.core.levels.update_feature import UpdateFeature

SET_DEFAULT = (
    "kafka-configs.sh --bootstrap-server HOST:PORT --entity-type brokers --entity-default --alter --add-config "
    f"{MIN_INSYNC_REPLICAS}="
)
SET_FOR_ALL = SettingSource.ALL_BROKERS
_NO_NODES = (NodeState.GHOST, NodeState.REFUSED)


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
    yield from _not_known(brokers if default else [*brokers, *controllers])
    written = default or {_in_file(one) for _, one in controllers if one is not None}
    losing = [(node, one.value) for node, one in brokers if one is not None and written - {one.value}]
    if losing:
        nodes, today = tuple(node for node, _ in losing), sorted({str(value) for _, value in losing})
        then = " or ".join(sorted(map(str, written)))
        text = (
            f"raising {ELIGIBLE_LEADER_REPLICAS} removes the {MIN_INSYNC_REPLICAS} of single brokers, and for all "
            f"brokers it is {then} from then on; {title_of(nodes)} {verb(nodes, 'uses', 'use')} "
            f"{' or '.join(today)} today"
        )
        yield Blocker(
            BlockerKind.SETTING, text, _to_keep(today, default),
            feature=ELIGIBLE_LEADER_REPLICAS, nodes=nodes, reason=Reason.BLOCKED,
        )  # fmt: skip


def _to_keep(today: list[str], default: set[str | None]) -> str:
    if default or len(today) > 1:
        return (
            f"set one value for all brokers before: {SET_DEFAULT}N; and remove those that requests set for one broker"
        )
    return f"keep today's value for all brokers before: {SET_DEFAULT}{today[0]}"


def _in_file(setting: Setting) -> str | None:
    """The value that the file of a node, or Kafka's default, gives; a lone default has no layers."""
    return setting.without_requests or setting.value


def _of_role(seen: Observation, role: Role) -> list[tuple[Node, Setting | None]]:
    """The nodes of a role, each with what it says of itself; None where it did not."""
    nodes = (node for node in seen.nodes if role in node.roles and node.state not in _NO_NODES)
    return [(node, node.settings.get(MIN_INSYNC_REPLICAS) if node.proved_at else None) for node in nodes]


def _not_known(found: Iterable[tuple[Node, Setting | None]]) -> Iterator[Blocker]:
    for node in {node.id: node for node, one in found if one is None}.values():
        blocker = about_nodes(BlockerKind.SETTING, (node,), _unknown, feature=ELIGIBLE_LEADER_REPLICAS)
        yield replace(blocker, reason=Reason.BLOCKED)


def _unknown(nodes: Nodes) -> tuple[str, str]:
    text = (
        f"the {MIN_INSYNC_REPLICAS} of {title_of(nodes)} is not known, and raising {ELIGIBLE_LEADER_REPLICAS} may "
        "change it for all brokers"
    )
    reach = f"make {these(nodes)} reachable, and grant DESCRIBE_CONFIGS on the cluster"
    if Role.BROKER in nodes[0].roles:
        return text, reach
    return text, f"{reach}; or set a value for all brokers, so that no controller writes its own: {SET_DEFAULT}N"
