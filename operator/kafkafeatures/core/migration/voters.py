"""Voters of a quorum, the addresses at which they answered, and which voters have certainly stopped.

Pure. Called by the other modules of `core/migration/`. The addresses of controllers in a document prove nothing alone:
one may be missing, lead to another process, or to none. So the status keeps the voters, each with the address at which
a process proved to be this controller. Once no controller answers, each of these addresses is tried again, and so are
the addresses of controllers in the settings of brokers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kafkafeatures.api.status import VoterStatus
from kafkafeatures.core.facts.observation import Known, Node, Observation, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.migration.settings import BOOTSTRAP, VOTERS

MOST_DIGITS = 10
"""Most digits of a node id, which is an int32."""


def voters_of(observation: Observation, previous: tuple[VoterStatus, ...]) -> tuple[VoterStatus, ...]:
    """Present voters of the quorum; the previous ones while the quorum is not known. A voter that does not answer keeps
    its last address.
    """
    if isinstance(observation.quorum, Unknown):
        return previous
    by_id = {voter.node_id: voter for voter in previous}
    ids = sorted(voter.id for voter in observation.quorum.value.voters)
    return tuple(_as_it_answers(observation, id_) or by_id.get(id_) or VoterStatus(node_id=id_) for id_ in ids)


def _as_it_answers(observation: Observation, id_: int) -> VoterStatus | None:
    """The voter with the address at which it proved its id in this reconciliation; None if it did not."""
    node = next((node for node in observation.nodes if node.id == id_ and Role.CONTROLLER in node.roles), None)
    if node is None or not node.proved_at or not isinstance(node.answer, Known):
        return None
    return VoterStatus(node_id=id_, address=_address(node.host, node.port), pod=_pod_at(observation, node.proved_at))


def _pod_at(observation: Observation, ip: str) -> str:
    sets = observation.workloads.value.stateful_sets if isinstance(observation.workloads, Known) else ()
    return next((pod.name for stateful_set in sets for pod in stateful_set.pods if ip in pod.ips), "")


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def named_by_brokers(observation: Observation) -> tuple[VoterStatus, ...]:
    """Voters in the settings of brokers; id -1 for an address of controller.quorum.bootstrap.servers, which has
    none.
    """
    brokers = [node for node in observation.nodes if Role.BROKER in node.roles]
    values = {_value(node, name) for node in brokers for name in (VOTERS, BOOTSTRAP)}
    return tuple(voter for value in sorted(values) for voter in _parts(value))


def _value(node: Node, name: str) -> str:
    setting = node.settings.get(name) if node.proved_at else None
    return (setting.value or "") if setting is not None else ""


def _parts(value: str) -> Iterator[VoterStatus]:
    """Voters in a list of `<id>@<host>:<port>`, or of `<host>:<port>`. Entries with an impossible id are left out."""
    for part in filter(None, map(str.strip, value.split(","))):
        id_, at, address = part.rpartition("@")
        if not at or (id_.isascii() and id_.isdigit() and len(id_) <= MOST_DIGITS):
            yield VoterStatus(node_id=int(id_) if at else -1, address=address)


def addresses_of(voters: Iterable[VoterStatus]) -> frozenset[str]:
    """Addresses (host:port) of these voters, to be tried once no controller answers."""
    return frozenset(voter.address for voter in voters if voter.address)


def answering(observation: Observation) -> tuple[str, ...]:
    """Former addresses at which a controller still answers, sorted; the document need not name them."""
    return tuple(sorted(address for address, failure in observation.former_controllers.items() if failure is None))


def not_proven(
    observation: Observation, previous: tuple[VoterStatus, ...]
) -> tuple[tuple[VoterStatus, Failure | None], ...]:
    """Voters that are not proven to have stopped, each with the Failure of its address if that was tried.

    `previous`: voters from the status. A voter is proven to have stopped if its StatefulSet is readable (which then has
    no pods: `core/migration/stopped.py`), or if the address at which it, and no other voter, answered before now
    refuses the connection. An address that only a broker names proves nothing.
    """
    expected = {voter.node_id: voter for voter in (*named_by_brokers(observation), *previous) if voter.node_id >= 0}
    proven, shared = {voter.node_id for voter in previous}, Counter(voter.address for voter in previous)
    return tuple(
        (voter, observation.former_controllers.get(voter.address))
        for id_, voter in sorted(expected.items())
        if not _is_of_a_stateful_set(observation, voter)
        and not (id_ in proven and shared[voter.address] == 1 and _refuses(observation, voter.address))
    )


def _refuses(observation: Observation, address: str) -> bool:
    """Tell whether the connection to this address was refused: silence proves nothing."""
    failure = observation.former_controllers.get(address) if address else None
    return failure is not None and failure.kind is FailureKind.NOT_LISTENING


def _is_of_a_stateful_set(observation: Observation, voter: VoterStatus) -> bool:
    """Tell whether Kubernetes shows the StatefulSet of the voter. The voter's pod, or its host name, is
    `<name of the StatefulSet>-<ordinal>`.
    """
    if isinstance(observation.workloads, Unknown):
        return False
    owner, dash, ordinal = (voter.pod or voter.address.partition(":")[0].partition(".")[0]).rpartition("-")
    names = {
        stateful_set.name
        for stateful_set in observation.workloads.value.stateful_sets
        if stateful_set.role == "controllers"
    }
    return bool(dash) and ordinal.isdigit() and owner in names
