"""Before znodes are deleted, every voter of the quorum has to be proven to have stopped, also those that the document
does not name.
"""

from __future__ import annotations

import pytest

from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import Status, VoterStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Wait
from kafkafeatures.core.engine.kind import ReadContext
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind, ReplicaProgress
from kafkafeatures.core.kinds import demands_of
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import BOOTSTRAP, VOTERS, Shape
from kafkafeatures.core.migration.stopped import STILL_FOR
from kafkafeatures.core.migration.voters import voters_of
from tests.kafkafeatures.core import preflights
from tests.kafkafeatures.core.migrations import (
    CONTROLLERS,
    REFUSES,
    a_node,
    cluster,
    compared,
    looks,
    message_of,
    quorum,
    released,
    status_after,
    wanting,
    without_quorum,
)
from tests.kafkafeatures.core.test_migration_pods import THROUGH_PODS, without_controllers
from tests.kafkafeatures.core.test_migration_stopped import (
    BEGUN,
    MINUTES,
    look_after_stillness,
    silent,
    voters_in_pods,
    without_voters,
)
from tests.kafkafeatures.worlds import NOW, SILENT, known

P, D, K = Position, Desired, FailureKind
AT = {id_: f"h:{id_}" for id_ in CONTROLLERS}


def after_tries(position: str, **parts: Failure | None) -> Observation:
    """Build a cluster without a quorum: connections to all addresses of voters are refused, but those in `parts`, such
    as `_3002`: another failure, or None if it answers.
    """
    attempts: dict[str, Failure | None] = {**dict.fromkeys(AT.values(), REFUSES)}
    attempts |= {AT[int(id_[1:])]: part for id_, part in parts.items()}
    return replace(without_quorum(BEGUN[position]), former_controllers=attempts)


def brokers_name(observation: Observation, name: str, value: str) -> Observation:
    """Give every broker this setting."""
    return replace(
        observation,
        nodes=tuple(
            replace(node, settings={**node.settings, name: preflights.from_file(value)}) for node in observation.nodes
        ),
    )


def remembering(*voters: VoterStatus) -> Status:
    status = compared()
    assert status.migration is not None
    return replace(status, migration=replace(status.migration, voters=voters))


@pytest.mark.parametrize("position", BEGUN)
def test_controllers_that_refuse_the_connection_do_not_prove_that_a_silent_voter_has_stopped(position: str) -> None:
    """Controller 3002, which only the status names, may be cut off from the operator, and still run."""
    assert released(look_after_stillness(after_tries(position), STILL_FOR)).deletes
    look = look_after_stillness(after_tries(position, _3002=silent(K.UNREACHABLE)), MINUTES)
    assert isinstance(look.decision, Wait)
    assert "controllers may still run: c:9093: no connection within 10 s" in message_of(look)
    assert "not proven to have stopped: controller 3002" in message_of(look)


@pytest.mark.parametrize("position", BEGUN)
def test_no_consent_allows_the_deletion_while_a_controller_that_the_document_does_not_name_answers(
    position: str,
) -> None:
    """The connections may be refused because the document has a wrong port. The status has the right address."""
    consents = frozenset({"zk-controllers-stopped"})
    look = look_after_stillness(after_tries(position, _3002=None), MINUTES, wanting(D.ROLLED_BACK, consents=consents))
    assert isinstance(look.decision, Wait)
    assert "a controller answers at h:3002; stop every controller" in message_of(look)


@pytest.mark.parametrize("position", BEGUN)
def test_refused_connections_prove_nothing_where_the_status_remembers_no_voter(position: str) -> None:
    """The status was lost, or is of an older release."""
    look = look_after_stillness(after_tries(position), MINUTES, status=without_voters(compared()))
    assert isinstance(look.decision, Wait)
    assert "which controllers the quorum has is not known" in message_of(look)
    assert "add zk-controllers-stopped to consents" in message_of(look)


@pytest.mark.parametrize("position", BEGUN)
def test_a_voter_without_a_confirmed_address_is_not_proven_to_have_stopped(position: str) -> None:
    voters = [VoterStatus(node_id=id_, address=AT[id_]) for id_ in CONTROLLERS[:2]]
    look = look_after_stillness(after_tries(position), MINUTES, status=remembering(*voters, VoterStatus(node_id=3003)))
    assert "not proven to have stopped: controller 3003" in message_of(look)


def test_an_address_that_two_voters_share_proves_of_neither_that_it_has_stopped() -> None:
    """One address of two voters is perhaps that of a Service, which leads to either of them."""
    voters = [VoterStatus(node_id=id_, address="h:3001") for id_ in (3001, 3002)]
    look = look_after_stillness(after_tries("PreMigration"), MINUTES, status=remembering(*voters))
    assert "not proven to have stopped: controllers 3001, 3002" in message_of(look)


def test_a_voter_that_brokers_name_and_that_was_never_seen_is_not_proven_to_have_stopped() -> None:
    observation = brokers_name(after_tries("Copied"), VOTERS, "3001@h:3001,3002@h:3002,3003@h:3003,3004@h:3004")
    look = look_after_stillness(observation, MINUTES)
    assert isinstance(look.decision, Wait)
    assert "not proven to have stopped: controller 3004" in message_of(look)
    refuses = replace(observation, former_controllers={**observation.former_controllers, "h:3004": REFUSES})
    assert not isinstance(look_after_stillness(refuses, MINUTES).decision, Act)  # it may be a wrong port there


def test_a_bootstrap_address_that_brokers_have_names_no_voter_but_holds_the_deletion_if_a_controller_answers() -> None:
    observation = brokers_name(after_tries("Copied"), BOOTSTRAP, "h:3001,h:3002")
    assert isinstance(look_after_stillness(observation, STILL_FOR).decision, Act)
    answers = replace(observation, former_controllers={**observation.former_controllers, "h:3009": None})
    assert "a controller answers at h:3009" in message_of(look_after_stillness(answers, MINUTES))


def test_a_stateful_set_without_a_pod_proves_only_of_its_own_voters_that_they_have_stopped() -> None:
    """Once all voters are proven to have stopped, `STILL_FOR` is waited for; else no time is long enough."""
    no_pod_of_controllers = without_quorum(without_controllers(), silent(K.UNREACHABLE))
    wanted = wanting(D.ROLLED_BACK, rollout=THROUGH_PODS)
    status = voters_in_pods(compared())
    assert isinstance(look_after_stillness(no_pod_of_controllers, STILL_FOR, wanted, status=status).decision, Act)
    assert status.migration is not None
    first, second, third = status.migration.voters
    assert third.node_id == 3003
    voters = (first, second, replace(third, pod="quorum-0"))  # a pod of another set
    status = replace(status, migration=replace(status.migration, voters=voters))
    look = look_after_stillness(no_pod_of_controllers, MINUTES, wanted, status=status)
    assert "not proven to have stopped: controller 3003" in message_of(look)


def test_the_status_keeps_voters_until_no_znode_of_the_quorum_is_left() -> None:
    status = status_after(looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION)))
    assert status.migration is not None
    assert [(voter.node_id, voter.address) for voter in status.migration.voters] == [
        (id_, AT[id_]) for id_ in CONTROLLERS
    ]
    stopped = without_quorum(cluster(P.PRE_MIGRATION))
    status = status_after(looks(wanting(D.ROLLED_BACK), stopped, status=status), status)
    assert status.migration is not None
    assert len(status.migration.voters) == 3
    over = cluster(P.ZOOKEEPER)
    status = status_after(looks(wanting(D.ROLLED_BACK), over, status=status), status)
    assert status.migration is not None
    assert status.migration.voters == ()


def test_the_voters_to_account_for_are_those_of_the_current_quorum() -> None:
    before = (VoterStatus(node_id=3001, address="old:1"), VoterStatus(node_id=3009, address="gone:1"))
    observation = cluster(P.COPIED)
    grown = replace(quorum(), voters=(*quorum().voters, ReplicaProgress(3004, 100, 1000, 1000)))
    recorded = voters_of(replace(observation, quorum=known(grown)), before)
    assert [(voter.node_id, voter.address) for voter in recorded] == [
        (3001, "h:3001"), (3002, "h:3002"), (3003, "h:3003"), (3004, ""),
    ]  # fmt: skip
    unproved = replace(a_node(3001, Shape.MIGRATING_CONTROLLER), proved_at="")
    observation = replace(observation, nodes=tuple(unproved if node.id == 3001 else node for node in observation.nodes))
    assert voters_of(observation, before)[0] == before[0]
    assert voters_of(replace(observation, quorum=Unknown(SILENT)), before) == before


@pytest.mark.parametrize("position", BEGUN)
def test_all_remembered_voters_are_probed_only_before_znodes_are_deleted(position: str) -> None:
    wanted, status = wanting(D.ROLLED_BACK), compared()
    observation = brokers_name(without_quorum(BEGUN[position]), VOTERS, "3001@h:3001,3004@[::1]:3004")
    context = ReadContext(wanted, status, NOT_ASKED, NOW, observation=observation)
    assert demands_of(context).former_controllers == {*AT.values(), "[::1]:3004"}
    assert demands_of(replace(context, observation=BEGUN[position])).former_controllers == frozenset()


@pytest.mark.parametrize(
    "value",
    ["", "@", "x@h:1", "3001@", ",,", "3001", "\u00b2@h:1", f"{'9' * 5000}@h:1"],
    ids=["empty", "only @", "letter", "no address", "only commas", "no @", "superscript digit", "5000 digits"],
)
def test_an_invalid_quorum_voters_setting_names_no_voter_and_so_holds_no_deletion(value: str) -> None:
    assert isinstance(look_after_stillness(brokers_name(after_tries("Copied"), VOTERS, value), STILL_FOR).decision, Act)
