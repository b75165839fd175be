"""Identity of nodes: which registration an answer belongs to, and whether two answers are of one quorum.

Pure. Applied before nodes are judged (`core/facts/observe.py`); `kafka/` asks processes in doubt for their identity.

An answer comes from an address, and several registrations may name the same address, as after a node was replaced. The
address belongs to the newest of them, an unfenced one first; the answer says nothing about the others. Better evidence
is the id that a process confirms in DescribeConfigs. A process that rejects an id, there or in ApiVersions (KIP-1242),
is not that node. A broker and a controller with the same id have separate registrations: if the process has only one of
the two roles, the other registration is a ghost, whatever the process answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import (
    METADATA,
    BrokerList,
    ClusterProbe,
    ControllerList,
    Failure,
    FailureKind,
    LogReading,
    NodeAnswer,
    ProbedNode,
    QuorumAnswer,
    Role,
)
from kafkafeatures.core.facts.settings import PROCESS_ROLES

if TYPE_CHECKING:  # the types alone: core runs without the library that reads logs
    from kraftlog.image import BrokerRegistration, ControllerRegistration, Image

RegistrationKey = tuple[Role, int]
"""Role and id of a registration."""
Address = tuple[str, int]
"""Host and port."""
Rank = tuple[bool, int]
"""Rank of a registration among those that name the same address; the highest one owns the address. First, True if the
cluster counts on the node (it is unfenced, or a voter); then the offset of the registration in the log, -1 if unknown.
"""
_UNKNOWN: Rank = (False, -1)
"""Rank of a registration of which nothing is known."""


def in_doubt(probe: ClusterProbe, log: LogReading | Failure) -> frozenset[RegistrationKey]:
    """Registrations whose answering process has to prove its identity: those of fenced brokers, of controllers that are
    no voters, and of ids whose broker and controller may be two processes. Empty if the log shows that a migration is
    open, or does not show whether one is.
    """
    image = None if isinstance(log, Failure) else log.image
    if image is not None and image.is_migrating is not False:
        return frozenset()
    fenced, voters = _fenced_brokers(probe, image), voters_of(probe, image)
    brokers = image.brokers.keys() if image is not None else fenced
    controllers = image.controllers.keys() if image is not None else frozenset[int]()
    keys = set()
    for node in probe.nodes:
        if node.id is None or not isinstance(node.answer, NodeAnswer) or not node.answer.runs_in_kraft_mode:
            continue
        is_twofold = node.id in brokers and (node.id in controllers or node.role is Role.CONTROLLER)
        is_observer = bool(voters) and node.id not in voters and (node.role is Role.CONTROLLER or is_twofold)
        if is_observer or node.id in fenced:
            keys.add((node.role, node.id))
    return frozenset(keys)


def with_own_answers(probe: ClusterProbe, image: Image | None) -> ClusterProbe:
    """The probe in which an answer from an address counts only for the registration that owns the address."""
    ids_of_address: dict[Address, set[int]] = {}  # by id alone: both roles of a combined node may share an address
    for key, address in _addresses(probe, image):
        ids_of_address.setdefault(address, set()).add(key[1])
    shared = {address for address, ids in ids_of_address.items() if len(ids) > 1}
    if not shared and not any(_is_denied(node) for node in probe.nodes):
        return probe
    # A node whose id was rejected at an address does not own this address, even if its registration names it.
    denied = {((node.role, node.id), (node.host, node.port)) for node in probe.nodes if _is_denied(node)}
    claims: dict[Address, set[RegistrationKey]] = {}
    for key, address in _addresses(probe, image):
        if address in shared and (key, address) not in denied:
            claims.setdefault(address, set()).add(key)
    ranks = _ranks(probe, image)
    nodes = tuple(_own_answer(node, claims.get((node.host, node.port), set()), ranks) for node in probe.nodes)
    return replace(probe, nodes=nodes)


def voters_of(probe: ClusterProbe, image: Image | None) -> set[int]:
    """Ids of all voters that the leader's answer or the metadata log names; empty if neither was read."""
    voter_ids = {voter.id for voter in probe.quorum.voters} if isinstance(probe.quorum, QuorumAnswer) else set()
    return voter_ids | {voter.id for voter in (image.voters or () if image is not None else ())}


class QuorumView(Struct, frozen=True):
    """An answer to DescribeQuorum, with its source, to be compared with another one.

    at: bootstrap addresses through which it was read, for people.
    voters: addresses of the voters by id, as far as the answer has them.
    """

    at: str
    quorum: QuorumAnswer
    voters: Mapping[int, Address] = field(default_factory=dict)

    def __str__(self) -> str:
        leader, ids = self.quorum.leader_id, _ids(voter.id for voter in self.quorum.voters)
        host, port = self.voters.get(leader, ("", -1))
        address = f" at {host}:{port}" if host else ""
        return f"{self.at} to controller {leader}{address} (voters {ids}, epoch {self.quorum.leader_epoch})"


def two_quorums(first: QuorumView, second: QuorumView) -> Failure | None:
    """Failure where two answers cannot be of one quorum, even if there was an election between them; else None."""
    moved = any(first.voters[id_] != second.voters[id_] for id_ in first.voters.keys() & second.voters.keys())
    is_possible = not moved and _may_follow(_reign_of(first.quorum), _reign_of(second.quorum))
    return None if is_possible else _of_two(f"{first}; {second}")


def log_of_another_quorum(probe: ClusterProbe, log: LogReading) -> Failure | None:
    """Failure where the leader whose log was read cannot be of the quorum that the nodes describe; else None."""
    quorum = probe.quorum
    if not isinstance(quorum, QuorumAnswer) or quorum.leader_id == log.leader_id:
        return None
    reign = _reign_of(quorum)
    voters = log.image.voters  # they may lack the leader, while it is being removed; None: a static quorum
    of_log = frozenset((log.leader_id, *(voter.id for voter in voters))) if voters is not None else reign.voters
    if _may_follow(reign, Reign(log.leader_epoch, log.leader_id, of_log)):
        return None
    return _of_two(
        f"DescribeQuorum to {_controller_at(probe, quorum.leader_id)} (voters "
        f"{_ids(voter.id for voter in quorum.voters)}, epoch {quorum.leader_epoch}); the metadata log to "
        f"{_controller_at(probe, log.leader_id)} (epoch {log.leader_epoch})"
    )


class Reign(NamedTuple):
    """A leader in one epoch, with the voters that it knows; these include itself, even while it is being removed."""

    epoch: int
    leader: int
    voters: frozenset[int]


def _reign_of(quorum: QuorumAnswer) -> Reign:
    voters = frozenset((quorum.leader_id, *(voter.id for voter in quorum.voters)))
    return Reign(quorum.leader_epoch, quorum.leader_id, voters)


def _may_follow(first: Reign, second: Reign) -> bool:
    """Tell whether both may be of one quorum, in either order: an epoch has one leader, the next leader was a voter
    before, and voters are added and removed one at a time.
    """
    older, newer = sorted((first, second), key=lambda reign: reign.epoch)
    if len(older.voters ^ newer.voters) > 1 or (older.epoch == newer.epoch and older.leader != newer.leader):
        return False
    return older.voters.issuperset({older.leader, newer.leader})


def _of_two(ways: str) -> Failure:
    return Failure(
        FailureKind.WRONG_CLUSTER,
        "the bootstrap addresses",
        f"they lead to two quorums, of two clusters or of a cluster and its copy: {ways}; nothing is sent to either",
        "use addresses of one cluster, and shut down the copy if there is one",
    )


def unsettled(failure: Failure) -> Failure:
    """Failure in place of one of `two_quorums` that could not be confirmed, as the nodes did not answer a second time:
    there may have been an election between the answers.
    """
    remedy = "an election may be under way; if this lasts for more than 2 minutes, see the logs of the controllers"
    return Failure(FailureKind.STALE, failure.subject, f"if there was no election just now, {failure.message}", remedy)


def _ids(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))


def _controller_at(probe: ClusterProbe, id_: int) -> str:
    controllers = (node for node in probe.nodes if node.id == id_ and node.role is Role.CONTROLLER)
    return f"controller {id_}" + next((f" at {node.host}:{node.port}" for node in controllers), "")


def role_given_up(probed: Iterable[ProbedNode], *, is_fenced: bool, is_voter: bool) -> Role | None:
    """The role in which an id is still registered although its process no longer has it (`process.roles`).

    None if the process did not report its roles, if the cluster still counts on the node in that role (`is_fenced`,
    `is_voter`), or if something answers in that role: a dynamic quorum allows a broker and a controller with the same
    id. `probed`: answers to this id in both roles.
    """
    process_roles: set[str] = set()
    answering: set[Role] = set()
    for node in probed:
        if node.proved_at and PROCESS_ROLES in node.settings:
            process_roles.update(role.strip() for role in (node.settings[PROCESS_ROLES].value or "").split(","))
        elif isinstance(node.answer, NodeAnswer):
            answering.add(Role.BROKER if METADATA in node.answer.apis else Role.CONTROLLER)  # only brokers offer it
    if process_roles == {"controller"} and is_fenced and Role.BROKER not in answering:
        return Role.BROKER
    if process_roles == {"broker"} and not is_voter and Role.CONTROLLER not in answering:
        return Role.CONTROLLER
    return None


def only_in_the_other_role(id_: int, given_up: Role, address: str) -> Failure:
    """Failure in place of the answer of a registration in a role that its process no longer has."""
    role = Role.CONTROLLER if given_up is Role.BROKER else Role.BROKER
    return Failure(FailureKind.OTHER_ROLE, address, f"the process with id {id_} is only a {role.value.lower()} now")


def _own_answer(node: ProbedNode, claims: set[RegistrationKey], ranks: Mapping[RegistrationKey, Rank]) -> ProbedNode:
    """The node, with a Failure in place of its answer if the address belongs, or may belong, to another registration.

    claims: the registrations that name this address, if there are several, without those whose id was rejected there.
    """
    other_keys = sorted((role, id_) for role, id_ in claims if id_ != node.id)
    if node.id is None or node.proved_at or not other_keys:
        return node
    if not isinstance(node.answer, NodeAnswer) and not _is_denied(node):
        return node  # nothing answers there, which says the same about every registration
    owner = _owner_of(node, claims, ranks)
    address = f"{node.host}:{node.port}"
    if owner is not None and owner[1] == node.id:
        return node
    if owner is not None:
        text = f"its address {address} is that of {_title(owner)} now"
        return replace(node, answer=Failure(FailureKind.ANOTHER_NODE, address, text))
    if _is_denied(node):
        return node  # its Failure says already that another node answers; only which one is unknown
    text = f"its address {address} is also that of {', '.join(map(_title, other_keys))}: it is not known which answers"
    remedy = "grant access to the metadata log, and DESCRIBE_CONFIGS; give each node an address of its own"
    return replace(node, answer=Failure(FailureKind.STALE, address, text, remedy))


def _owner_of(
    node: ProbedNode, claims: set[RegistrationKey], ranks: Mapping[RegistrationKey, Rank]
) -> RegistrationKey | None:
    """The registration with the highest rank among those of the role that answers at the address; None if several have
    it.
    """
    candidates = [key for key in claims if key[1] != node.id] if _is_denied(node) else [*claims]
    if isinstance(node.answer, NodeAnswer) and len({role for role, _ in claims}) > 1:
        role = Role.BROKER if METADATA in node.answer.apis else Role.CONTROLLER  # no controller offers METADATA
        candidates = [key for key in claims if key[0] is role]
    newest = max((ranks.get(key, _UNKNOWN) for key in candidates), default=_UNKNOWN)
    owners = [key for key in candidates if ranks.get(key, _UNKNOWN) == newest]
    return owners[0] if len(owners) == 1 else None


def _title(key: RegistrationKey) -> str:
    return f"{key[0].value.lower()} {key[1]}"


def _addresses(probe: ClusterProbe, image: Image | None) -> Iterable[tuple[RegistrationKey, Address]]:
    """Role and id with every address that their registration names, or at which they were asked."""
    for node in probe.nodes:
        if node.id is not None:
            yield (node.role, node.id), (node.host, node.port)
    if image is not None:
        for role, registered in ((Role.BROKER, image.brokers), (Role.CONTROLLER, image.controllers)):
            nodes: Mapping[int, BrokerRegistration | ControllerRegistration] = registered
            for id_, registration in nodes.items():
                for endpoint in registration.endpoints:
                    yield (role, id_), (endpoint.host, endpoint.port)


def _ranks(probe: ClusterProbe, image: Image | None) -> Mapping[RegistrationKey, Rank]:
    """Ranks of all registrations: by the log if it was read, as it has the offsets; else by the lists of the nodes."""
    ranks: dict[RegistrationKey, Rank] = {}
    if isinstance(probe.brokers, BrokerList):
        ranks = {(Role.BROKER, host.id): (not host.is_fenced, -1) for host in probe.brokers.brokers}
    voters = voters_of(probe, image)
    if isinstance(probe.controllers, ControllerList):
        ranks.update({(Role.CONTROLLER, host.id): (host.id in voters, -1) for host in probe.controllers.controllers})
    if image is not None:
        ranks.update({(Role.BROKER, id_): (not broker.fenced, broker.epoch) for id_, broker in image.brokers.items()})
        ranks.update({(Role.CONTROLLER, id_): (id_ in voters, -1) for id_ in image.controllers})
    return ranks


def _fenced_brokers(probe: ClusterProbe, image: Image | None) -> set[int]:
    if image is not None:
        return {id_ for id_, broker in image.brokers.items() if broker.fenced}
    listed = probe.brokers.brokers if isinstance(probe.brokers, BrokerList) else ()
    return {host.id for host in listed if host.is_fenced}


def _is_denied(node: ProbedNode) -> bool:
    """Tell whether the process at its address rejected this id."""
    return isinstance(node.answer, Failure) and node.answer.kind is FailureKind.ANOTHER_NODE
