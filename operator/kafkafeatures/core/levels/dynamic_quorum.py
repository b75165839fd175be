"""A static quorum that becomes dynamic (kraft.version 0 -> 1): what is frozen, what must change, and who refuses.

Pure. With the raise the active controller writes every voter with the addresses that it advertises into the metadata
log (`KafkaRaftClient.upgradeKRaftVersion`, `LeaderState`; seen on 4.1.2, 4.3.1 and 4.4.0): from then on nodes find the
voters there, and a name that no longer resolves can only be replaced while a majority still runs. There is no way back,
so the addresses are part of what is approved (`core/levels/part.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address

from kafkafeatures.api.names import KRAFT_VERSION
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker, shortened, title_of, verb
from kafkafeatures.core.facts.observation import Node, Observation
from kafkafeatures.core.facts.quorum import QuorumMode, quorum_mode
from kafkafeatures.core.facts.settings import QUORUM_SERVERS, QUORUM_VOTERS, SettingSource
from kafkafeatures.core.levels.question import Question
from kafkafeatures.core.levels.update_feature import UpdateFeature

_OF_STRIMZI = frozenset({"CONTROLPLANE-9090", "REPLICATION-9091"})
"""Listeners that Strimzi gives its nodes under fixed names (its `KafkaBrokerConfigurationBuilder`)."""
_OF_KUBERNETES = (".svc", ".cluster.local")


def makes_dynamic(changes: Iterable[UpdateFeature]) -> bool:
    """Tell whether one of the changes makes the quorum dynamic."""
    return any(change.feature == KRAFT_VERSION and change.before == 0 < change.after for change in changes)


def voters_to_freeze(seen: Observation) -> tuple[str, ...]:
    """Each voter with the addresses that the metadata log will hold: "3001@controller-1:9093"; "?" where not known."""
    return tuple(
        f"{node.id}@{','.join(f'{host}:{port}' for host, port in _addresses(node)) or '?'}" for node in _voters(seen)
    )


def effects_of_freezing(seen: Observation) -> Iterator[str]:
    """The lines of the step: the addresses, and what is known to break with them."""
    yield f"voters that the metadata log will hold: {', '.join(voters_to_freeze(seen)) or 'not known'}"
    weak: dict[str, list[int]] = {}
    for node in _voters(seen):
        for reason in dict.fromkeys(_weakness(host) for host, _ in _addresses(node)):
            weak.setdefault(reason, []).append(node.id)
    yield from (f"warning: voters {shortened(ids)}: {reason}" for reason, ids in weak.items() if reason)


def files_do_not_keep_voters(question: Question) -> Iterator[Blocker]:
    """Strimzi writes `controller.quorum.voters` into the file of each node anew with every roll."""
    if not makes_dynamic(question.changes):
        return
    nodes = tuple(node for node in question.observation.nodes if node.listener_names & _OF_STRIMZI)
    if nodes:
        text = (
            f"{title_of(nodes)} {verb(nodes, 'has', 'have')} the listeners of Strimzi, which writes {QUORUM_VOTERS} "
            "into the file of every node and does not support a dynamic quorum"
        )
        remedy = f"remove {KRAFT_VERSION} and the consent from the document"
        yield Blocker(BlockerKind.SETTING, text, remedy, feature=KRAFT_VERSION, nodes=nodes, reason=Reason.BLOCKED)


def left_in_files(seen: Observation) -> str:
    """Changes that files of nodes still need although the quorum is dynamic; empty where none, or nothing was read."""
    if quorum_mode(seen) is not QuorumMode.DYNAMIC:
        return ""
    nodes = tuple(node for node in seen.nodes if node.proved_at)
    stale = tuple(node for node in nodes if _in_file(node, QUORUM_VOTERS))
    lacking = tuple(node for node in nodes if _in_file(node, QUORUM_SERVERS) is False)
    parts = (
        f"remove {QUORUM_VOTERS} from the files of nodes {shortened(node.id for node in stale)}" if stale else "",
        f"set {QUORUM_SERVERS} in the files of nodes {shortened(node.id for node in lacking)}" if lacking else "",
    )
    return " and ".join(filter(None, parts))


def _in_file(node: Node, name: str) -> bool | None:
    """Tell whether the file of a node gives a value; None where the node does not know the setting."""
    setting = node.settings.get(name)
    return None if setting is None else bool(setting.layers.get(SettingSource.FILE))


def _voters(seen: Observation) -> Iterator[Node]:
    return (node for node in sorted(seen.nodes, key=lambda node: node.id) if node.is_voter)


def _addresses(node: Node) -> tuple[tuple[str, int], ...]:
    """Addresses at which a voter registered; where that was not read, the one at which it is listed."""
    return node.controller_listeners or (((node.host, node.port),) if node.port >= 0 else ())


def _weakness(host: str) -> str:
    """Weakness that breaks an address later; empty where none is known."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        if host == "localhost":
            return f"{host} leads each node to itself"
        if host.endswith(_OF_KUBERNETES) or ".svc." in host:
            return f"{host} does not resolve with another namespace, Service or cluster domain"
        return ""
    return f"{host} leads each node to itself" if address.is_loopback else f"{host} is lost with its pod or machine"
