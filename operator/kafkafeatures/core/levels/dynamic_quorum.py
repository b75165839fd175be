"""Raise of kraft.version from 0 to 1, by which a static quorum becomes dynamic (KIP-853): the addresses of voters that
it freezes, the settings to change afterwards, and the blockers.

Pure. With the raise the active controller writes every voter into the metadata log, with the addresses with which the
voter registered (`KafkaRaftClient.upgradeKRaftVersion`, `LeaderState`; observed on 4.4.0). From then on nodes look the
voters up there, and an address that no longer resolves can be replaced only while a majority still runs. The raise is
irreversible, so an approval covers the addresses too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from ipaddress import ip_address

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker, shortened, title_of, verb
from kafkafeatures.core.facts.observation import Node, Observation, Unknown
from kafkafeatures.core.facts.quorum import QuorumMode, quorum_mode
from kafkafeatures.core.facts.releases import CONTROLLER_REGISTRATION, format_level
from kafkafeatures.core.facts.settings import QUORUM_SERVERS, QUORUM_VOTERS, SettingSource
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.words import cut

_OF_STRIMZI = frozenset({"CONTROLPLANE-9090", "REPLICATION-9091"})
"""Names of listeners that only Strimzi gives to nodes (its `KafkaBrokerConfigurationBuilder`)."""
_OF_KUBERNETES = (".svc", ".cluster.local")
"""Ends of host names that only the DNS of a Kubernetes cluster resolves."""
SHOWN = 7
"""Most voters that have a line each in a plan."""
LONGEST = 512
"""Most bytes of such a line."""


class _Weakness(StrEnum):
    """Reason why an address may stop working later."""

    LOOPBACK = "a loopback address leads each node to itself"
    IP_ADDRESS = "an IP address is lost with its pod or machine"
    OF_KUBERNETES = "the name does not resolve with another namespace, Service or cluster domain"
    BARE = "a name without a domain resolves only inside of it"


def makes_dynamic(changes: Iterable[UpdateFeature]) -> bool:
    """Tell whether one of the changes makes the quorum dynamic."""
    return any(change.raises(KRAFT_VERSION, 1) for change in changes)


def voters_to_freeze(observation: Observation) -> tuple[str, ...] | None:
    """Each voter with the addresses that the metadata log will hold, such as "3001@controller-1:9093". None if the
    addresses of some voter are not known: only its registration has them, and nodes may use other addresses today.
    """
    voters = _voters(observation)
    if not voters or any(not node.controller_listeners for node in voters):
        return None
    return tuple(f"{node.id}@{_listed(node)}" for node in voters)


def effects_of_freezing(observation: Observation) -> Iterator[str]:
    """Lines for the step in a plan: the addresses and their known weaknesses; few and short, to fit into a status."""
    voters = voters_to_freeze(observation)
    if voters is None:
        yield "the addresses of the voters that the metadata log will hold are not known"
        return
    yield from (cut(f"the metadata log will hold voter {voter}", LONGEST) for voter in voters[:SHOWN])
    if len(voters) > SHOWN:
        yield f"and {len(voters) - SHOWN} more voters"
    for weakness in _Weakness:
        ids = [node.id for node in _voters(observation) if weakness in _weaknesses(node)]
        if ids:
            yield cut(f"warning: voters {shortened(ids)}: {weakness}", LONGEST)


def addresses_of_voters_are_known(inputs: LevelCheckInput) -> Iterator[Blocker]:
    """Require that the addresses with which the voters registered are known: the plan has to show what is frozen."""
    observation = inputs.observation
    if not makes_dynamic(inputs.changes) or voters_to_freeze(observation) is not None:
        return
    unregistered = tuple(node for node in _voters(observation) if not node.controller_listeners)
    whose = title_of(unregistered) if unregistered else "the voters"
    level = observation.level_of(METADATA_VERSION)
    if level is not None and level < CONTROLLER_REGISTRATION:
        needed = format_level(METADATA_VERSION, CONTROLLER_REGISTRATION)
        remedy = f"raise {METADATA_VERSION} to {needed} or higher first: below it controllers do not register"
    else:
        remedy = f"make the metadata log and {whose} readable: add bootstrapControllers, and grant CLUSTER_ACTION"
    text = f"the addresses of {whose}, which {KRAFT_VERSION} 1 freezes, are not known"
    registered = observation.registered_controllers
    kind = registered.failure.kind if isinstance(registered, Unknown) else None
    yield Blocker(BlockerKind.NODE_UNKNOWN, text, remedy, feature=KRAFT_VERSION, nodes=unregistered, failure_kind=kind)


def files_do_not_keep_voters(inputs: LevelCheckInput) -> Iterator[Blocker]:
    """Prevent the raise under Strimzi, which writes `controller.quorum.voters` into the file of each node whenever it
    restarts nodes.
    """
    if not makes_dynamic(inputs.changes):
        return
    nodes = tuple(node for node in inputs.observation.nodes if node.listener_names & _OF_STRIMZI)
    if nodes:
        text = (
            f"{title_of(nodes)} {verb(nodes, 'has', 'have')} the listeners of Strimzi, which writes {QUORUM_VOTERS} "
            "into the file of every node and does not support a dynamic quorum"
        )
        remedy = f"remove {KRAFT_VERSION} and the consent from the document"
        yield Blocker(BlockerKind.SETTING, text, remedy, feature=KRAFT_VERSION, nodes=nodes, reason=Reason.BLOCKED)


def left_in_files(observation: Observation) -> str:
    """Changes, in words, that the files of nodes still need in a dynamic quorum; empty if they need none, or no node
    reported its settings.
    """
    if quorum_mode(observation) is not QuorumMode.DYNAMIC:
        return ""
    nodes = tuple(node for node in observation.nodes if node.proved_at)
    stale = tuple(node for node in nodes if _in_file(node, QUORUM_VOTERS))
    lacking = tuple(node for node in nodes if _in_file(node, QUORUM_SERVERS) is False)
    parts = (
        f"remove {QUORUM_VOTERS} from the files of nodes {shortened(node.id for node in stale)}" if stale else "",
        f"set {QUORUM_SERVERS} in the files of nodes {shortened(node.id for node in lacking)}" if lacking else "",
    )
    return " and ".join(filter(None, parts))


def _in_file(node: Node, name: str) -> bool | None:
    """Tell whether the file of a node sets the setting; None if the node did not report it."""
    setting = node.settings.get(name)
    return None if setting is None else bool(setting.layers.get(SettingSource.FILE))


def _voters(observation: Observation) -> tuple[Node, ...]:
    return tuple(node for node in sorted(observation.nodes, key=lambda node: node.id) if node.is_voter)


def _listed(node: Node) -> str:
    """The addresses of a voter, separated by commas."""
    return ",".join(f"{host}:{port}" for host, port in node.controller_listeners)


def _weaknesses(node: Node) -> set[_Weakness | None]:
    return {_weakness(host) for host, _ in node.controller_listeners}


def _weakness(host: str) -> _Weakness | None:
    """The first known weakness of an address; None for none. `host`: a name or an IP address, maybe in brackets."""
    name = host.strip("[]").lower().rstrip(".")
    try:
        address = ip_address(name)
    except ValueError:
        if name.split(".")[0] == "localhost":
            return _Weakness.LOOPBACK
        if name.endswith(_OF_KUBERNETES) or ".svc." in name:
            return _Weakness.OF_KUBERNETES
        return None if "." in name else _Weakness.BARE
    return _Weakness.LOOPBACK if address.is_loopback else _Weakness.IP_ADDRESS
