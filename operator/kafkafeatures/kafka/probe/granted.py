"""Judges the rights that a purpose needs: which are granted to our user, which are missing, which are unknown. No I/O.

Called by `kafka/probe/witnesses.py`, with the answers of the nodes, which are called witnesses here, and by
`cli/document/check_rights.py` for the verdict. Each node decides for itself: `super.users` may name the user in the
properties of one node and not of another. So a right is granted only if every node that checks it says so, missing if
one node refuses, and unknown if a node could not be asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from kafkafeatures.core.engine.blockers import shortened
from kafkafeatures.core.facts.early_rights import GRANT as IN_FILES
from kafkafeatures.core.facts.readings import Failure, Role
from kafkafeatures.core.words import counted, first_of, printable
from kafkafeatures.kafka.base.needs import NEEDS, KafkaResource, Need, Purpose
from kafkafeatures.kafka.base.requester import Requester
from kafkafeatures.kafka.base.rights import GRANT, ClusterRight


class RightState(StrEnum):
    """The state of a right."""

    GRANTED = "Granted"
    MISSING = "Missing"
    UNKNOWN = "Unknown"
    NOT_NEEDED = "NotNeeded"


class Witness(Struct, frozen=True):
    """The answers of one node about the rights of this user. `rights`: True granted, False missing, or the Failure to
    get an answer. `authorizer`: the class name of `authorizer.class.name`, empty if there is none, None if the node
    does not say. `through`: the broker that forwarded the requests, if the witness is the active controller and was
    asked that way.
    """

    role: Role
    id: int | None
    address: str
    rights: Mapping[ClusterRight, bool | Failure]
    authorizer: str | Failure | None
    through: str = ""

    @property
    def answers(self) -> bool:
        """True if the node's answer says anything about any right."""
        return any(isinstance(answer, bool) for answer in self.rights.values())


class TopicRights(Struct, frozen=True):
    """The rights of this user on topics.

    visible: number of topics that it can describe.
    hidden: names of topics that it cannot describe.
    without_configs: names of topics whose configs it cannot read.
    unread: the reason why more topics may be hidden; None: the disks of all brokers were read.
    """

    visible: int
    hidden: frozenset[str]
    without_configs: frozenset[str]
    unread: Failure | None


class RightFinding(Struct, frozen=True):
    """The state of one right. `needed_for`: goals. `message`: on which nodes it is missing, or why it is unknown.
    `lacking`: the roles whose nodes refuse it.
    """

    resource: KafkaResource
    right: ClusterRight
    state: RightState
    needed_for: tuple[str, ...]
    message: str = ""
    remedy: str = ""
    lacking: frozenset[Role] = frozenset()


class RightsReading(Struct, frozen=True):
    """The result for all rights. `users`: our principals on brokers and controllers, empty texts where only they know
    them. `authorizer`: a sentence about the authorizer of the nodes. `commands`: shell commands that grant all missing
    rights.
    """

    users: tuple[str, ...]
    authorizer: str
    findings: tuple[RightFinding, ...]
    commands: tuple[str, ...]


class RightsQuestion(Struct, frozen=True):
    """The purposes, and the facts about the cluster that matter for them. `ghosts`: registrations without a process,
    which cannot be asked. `reads_log`: partitions are read from the metadata log, now or once the right for that is
    granted. `before_copy`: a migration has not copied ACLs to the controllers yet. `roles`: the roles of the nodes that
    the cluster has, or will have.
    """

    purposes: frozenset[Purpose]
    ghosts: frozenset[tuple[Role, int]] = frozenset()
    reads_log: bool = False
    before_copy: bool = False
    roles: frozenset[Role] = frozenset(Role)

    @property
    def needs(self) -> tuple[Need, ...]:
        """The rights that any of the purposes needs."""
        return tuple(need for need in NEEDS if need.purposes & self.purposes)

    def counts(self, need: Need) -> bool:
        """True if this cluster needs the right, as it is now."""
        return bool(self.roles.intersection(need.roles)) and not (need.without_log and self.reads_log)

    @property
    def not_needed_because(self) -> str:
        """The reason why a right does not count here."""
        if self.reads_log:
            return "partitions come from the metadata log"
        return "a cluster in ZooKeeper mode has no controllers, and no levels to raise"

    @property
    def is_about_topics(self) -> bool:
        """True if any of the needed rights is on topics."""
        return any(need.resource is KafkaResource.TOPICS and self.counts(need) for need in self.needs)


def judged(
    question: RightsQuestion, witnesses: Sequence[Witness], topics: TopicRights | Failure, requester: Requester
) -> RightsReading:
    """The result for all rights, from the answers of nodes and about topics."""
    findings = []
    for resource, right in dict.fromkeys((need.resource, need.right) for need in question.needs):
        needs = [need for need in question.needs if (need.resource, need.right) == (resource, right)]
        current_needs = [need for need in needs if question.counts(need)]
        finding = RightFinding(
            resource, right, RightState.NOT_NEEDED, tuple(need.goal for need in current_needs or needs)
        )
        if not current_needs:
            findings.append(_with(finding, RightState.NOT_NEEDED, question.not_needed_because))
        elif resource is KafkaResource.TOPICS:
            findings.append(_of_topics(finding, topics, witnesses))
        else:
            roles = [role for role in Role if any(role in n.roles for n in current_needs) and role in question.roles]
            findings.append(_of_cluster(finding, roles, witnesses))
    users = tuple(dict.fromkeys(requester.principal(role) for role in Role))
    commands = tuple(_commands(findings, requester, question.before_copy))
    return RightsReading(users, _authorizer(witnesses), tuple(findings), commands)


def _of_cluster(finding: RightFinding, roles: Sequence[Role], witnesses: Sequence[Witness]) -> RightFinding:
    """The finding about a right on the cluster: a single refusal counts more than nodes that could not be asked."""
    judges = [witness for witness in witnesses if witness.role in roles and finding.right in witness.rights]
    answers = [(witness, witness.rights[finding.right]) for witness in judges]
    lacking = [witness for witness, answer in answers if answer is False]
    if lacking:
        granted = [witness for witness, answer in answers if answer is True]
        message, remedy = f"missing on {_titles(lacking)}", ""
        if granted:
            message += f", granted on {_titles(granted)}"
            remedy = "grant it with an ACL, or make super.users and the authorizer of all nodes the same"
        return _with(finding, RightState.MISSING, message, remedy, frozenset(witness.role for witness in lacking))
    unread = [(witness, answer) for witness, answer in answers if isinstance(answer, Failure)]
    if unread:
        failure = unread[0][1]
        message = f"not known on {_titles([witness for witness, _ in unread])}: {failure.message}"
        return _with(finding, RightState.UNKNOWN, message, failure.action)
    for role in roles:
        if all(witness.role is not role for witness in judges):
            message = f"no {role.value.lower()} could be asked"
            message += f"; granted on {_titles(judges)}" if judges else ""
            return _with(finding, RightState.UNKNOWN, message, _REACH[role])
    return _with(finding, RightState.GRANTED)


_REACH = {
    Role.BROKER: "give the addresses of brokers with --bootstrap-server",
    Role.CONTROLLER: "give the addresses of running controllers with --bootstrap-controller; in KRaft mode, brokers "
    "tell them to a user with DESCRIBE",
}


def _of_topics(finding: RightFinding, topics: TopicRights | Failure, witnesses: Sequence[Witness]) -> RightFinding:
    """The finding about a right on topics. Without any topic it is granted only if no broker has an authorizer."""
    if isinstance(topics, Failure):
        return _with(finding, RightState.UNKNOWN, topics.message, topics.action)
    names = topics.hidden if finding.right is ClusterRight.DESCRIBE else topics.hidden | topics.without_configs
    if names:
        first = first_of([printable(min(names))], 1, total=len(names))
        message = f"missing on {counted(len(names), 'topic')}: {first}"
        return _with(finding, RightState.MISSING, message, lacking=frozenset((Role.BROKER,)))
    if topics.unread is not None:
        message = f"topics may be hidden: {topics.unread.message}"
        return _with(finding, RightState.UNKNOWN, message, topics.unread.action)
    if not topics.visible and any(witness.authorizer != "" for witness in witnesses if witness.role is Role.BROKER):
        message = "there is no topic yet, so nothing shows which topics this user may see"
        return _with(finding, RightState.UNKNOWN, message, "create a topic, and check again")
    return _with(finding, RightState.GRANTED, f"on all topics of today ({topics.visible})")


def _with(
    finding: RightFinding,
    state: RightState,
    message: str = "",
    remedy: str = "",
    lacking: frozenset[Role] = frozenset(),
) -> RightFinding:
    return RightFinding(finding.resource, finding.right, state, finding.needed_for, message, remedy, lacking)


def _titles(witnesses: Sequence[Witness]) -> str:
    """Nodes in a sentence: "brokers 1-3 and controller 3001"."""
    texts = []
    for role in Role:
        noun, of_role = role.value.lower(), [witness for witness in witnesses if witness.role is role]
        ids = [witness.id for witness in of_role if witness.id is not None]
        if ids:
            texts.append(f"{noun}{'s' if len(ids) > 1 else ''} {shortened(ids)}")
        for witness in of_role:
            if witness.through:
                texts.append(f"the active {noun} (through {witness.through})")
            elif witness.id is None:
                texts.append(f"the {noun} at {witness.address}")
    return " and ".join(texts)


def _authorizer(witnesses: Sequence[Witness]) -> str:
    """A sentence about the authorizers of the nodes; without one, Kafka says that everything is permitted."""
    nodes = [witness for witness in witnesses if not witness.through]
    naming = [witness for witness in nodes if isinstance(witness.authorizer, str)]
    without = [witness for witness in naming if not witness.authorizer]
    if without and len(without) == len(nodes):
        return "none: every user may do everything"
    if without:
        return f"none on {_titles(without)}, where every user may do everything"
    if naming:
        return ", ".join(sorted({str(witness.authorizer) for witness in naming}))
    if any(witness.rights.get(ClusterRight.DESCRIBE_CONFIGS) is False for witness in nodes):
        return "not known: reading it needs DESCRIBE_CONFIGS on the cluster"
    return "not known: no node says it"


def _commands(findings: Sequence[RightFinding], requester: Requester, before_copy: bool) -> Iterator[str]:
    """Commands that grant missing rights, one for each user and resource; for controllers without ACLs yet, a setting
    for their properties files. If DESCRIBE is missing, the node cannot show other rights, so unknown rights are granted
    with it.
    """
    blind = next((finding.lacking for finding in findings if finding.right is ClusterRight.DESCRIBE), frozenset[Role]())
    grants: dict[tuple[str, KafkaResource], tuple[Role, dict[ClusterRight, None]]] = {}
    for finding in findings:
        roles = blind if blind and finding.state is RightState.UNKNOWN else finding.lacking
        for role in sorted(roles):
            if not (before_copy and role is Role.CONTROLLER):
                key = requester.principal(role), finding.resource
                grants.setdefault(key, (role, {}))[1][finding.right] = None
    for (_, resource), (role, rights) in grants.items():
        operations = " ".join(f"--operation {right}" for right in rights)
        yield requester.filled_in(f"{GRANT} {operations} {resource.flag}", role)
    if before_copy and any(Role.CONTROLLER in finding.lacking for finding in findings):
        yield IN_FILES.replace("User:NAME", requester.principal(Role.CONTROLLER) or "User:NAME")


def verdict_of(states: Iterable[RightState]) -> RightState:
    """The worst state: missing, else unknown, else granted."""
    worst_first = (RightState.MISSING, RightState.UNKNOWN)
    present = set(states)
    return next((state for state in worst_first if state in present), RightState.GRANTED)
