"""A node that comes back on a new disk halts the roll until a person accepts the disk.

It does not matter what stopped the node: a restart by the operator, a drain, or a person. Where nothing halts the roll
after the restart of broker 1, broker 4 is next, as it shares no partition with broker 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.status import EMPTY, RolloutStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Wait
from kafkafeatures.core.facts.observation import MetadataMode, Node, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.roll.disks import (
    MOST_BYTES,
    MOST_DIRS,
    Disks,
    NodeDisks,
    consent_to_disk,
    disks_now,
    disks_of,
    is_on_new_disk,
    read_disks,
    written_disks,
)
from kafkafeatures.core.roll.permit import Permit
from kafkafeatures.core.roll.proposal import ROLL
from kafkafeatures.core.roll.remembered import RollMemory
from kafkafeatures.core.roll.report import completed, rollout_status, without_restarts
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from kafkafeatures.core.roll.stage import RollState
from tests.kafkafeatures.core.fleets import OLD as BEFORE
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    ROLLED_CONTROLLERS,
    UNREAD,
    WAITING,
    a_node,
    ago,
    cluster,
    current,
    fresh,
    refused,
    replaced,
    restarted_id,
    rolled,
    sent,
)
from tests.kafkafeatures.worlds import known


def with_dirs(id_: int, *log_dirs: str, metadata: str = "", node: Node | None = None) -> Node:
    return replace(node or a_node(id_), log_dirs=frozenset(log_dirs), metadata_dir=metadata)


def returned_with(id_: int, *log_dirs: str, metadata: str = "") -> Mapping[int, Node]:
    """Build the new process of a node, with these directories."""
    return {id_: with_dirs(id_, *log_dirs, metadata=metadata, node=fresh(id_)[id_])}


def disks_before(*nodes: Node) -> Disks:
    """Return the disks of these nodes at the beginning of the roll."""
    return {node.id: disks_of(node) for node in nodes}


OLD = disks_before(with_dirs(1, "old", "older"))
"""At the beginning of the roll broker 1 had these two directories."""
LOST = cluster({**ROLLED_CONTROLLERS, **replaced(1)}, returned_with(1, "new"))
"""Broker 1 was restarted, and has neither of them."""
DRAINED = cluster({**ROLLED_CONTROLLERS, **replaced(1, revision=BEFORE)}, returned_with(1, "new"))
"""`LOST`, but its new pod is of the former template: somebody else restarted it."""
LAST = cluster({**ROLLED_CONTROLLERS, **current(*BROKERS), **replaced(1)}, returned_with(1, "new"))
"""`LOST`, and no other node is left to be restarted."""
WITH_AND_WITHOUT_RESTART = pytest.mark.parametrize(
    "flying", [(), (sent(1, stopped=0),)], ids=["no restart in flight", "its restart in flight"]
)


@pytest.mark.parametrize("observation", [LOST, DRAINED, LAST], ids=["restarted", "drained", "last of the roll"])
@WITH_AND_WITHOUT_RESTART
def test_a_broker_that_comes_back_without_any_former_directory_halts_the_roll(
    observation: Observation, flying: tuple[RestartInFlight, ...]
) -> None:
    roll = rolled(observation, *flying, disks=OLD)
    message = refused(roll, Reason.ROLLOUT_HALTED)
    assert "no other node is restarted: broker 1 came back on a new disk" in message
    assert "see the volumes of pod broker-1" in message
    assert "add new-disk:broker-1:" in message
    assert roll.done < roll.total


def test_the_directories_of_each_node_are_recorded_when_a_roll_begins_and_not_replaced_later() -> None:
    nodes = {id_: with_dirs(id_, f"dir-{id_}", metadata=f"meta-{id_}") for id_ in (*BROKERS, *CONTROLLERS)}
    first = rolled(cluster(ROLLED_CONTROLLERS, nodes)).disks
    assert first.earlier.keys() == nodes.keys()
    assert first.lost_ids == set()
    later = rolled(cluster(ROLLED_CONTROLLERS, {**nodes, **returned_with(4, "new")}), disks=first.earlier).disks
    assert (later.earlier, later.lost_ids) == (first.earlier, frozenset({4}))


def test_a_new_disk_is_ignored_without_a_roll() -> None:
    roll = rolled(LAST)
    assert (roll.decision, roll.disks.earlier) == (None, {})


def test_the_disks_of_a_node_in_flight_are_not_recorded_before_its_return() -> None:
    assert 1 not in rolled(LOST, sent(1)).disks.earlier
    assert restarted_id(rolled(LOST, sent(1))) == 4


def test_a_lost_disk_is_reported_at_once_even_while_the_broker_is_fenced_and_as_long_as_it_lasts() -> None:
    fenced = {1: replace(returned_with(1, "new")[1], state=NodeState.FENCED)}
    observation = cluster({**ROLLED_CONTROLLERS, **replaced(1)}, fenced)
    late = replace(sent(1), at=ago(900), stopping_since=ago(900))
    for restart in (sent(1), late):
        assert "came back on a new disk" in refused(rolled(observation, restart, disks=OLD), Reason.ROLLOUT_HALTED)


def test_a_broker_with_one_former_directory_is_back_and_its_new_directories_are_recorded() -> None:
    observation = cluster({**ROLLED_CONTROLLERS, **replaced(1)}, returned_with(1, "old", "new"))
    roll = rolled(observation, sent(1), disks=OLD)
    assert restarted_id(roll) == 4
    moved = cluster({**ROLLED_CONTROLLERS, **replaced(1)}, returned_with(1, "new"))
    assert rolled(moved, disks=roll.disks.earlier).disks.lost_ids == set()


@pytest.mark.parametrize("before", [(), tuple(map(str, range(MOST_DIRS + 1)))], ids=["unknown", "too many"])
def test_directories_that_were_unknown_or_too_many_to_record_do_not_make_a_disk_new(
    before: tuple[str, ...],
) -> None:
    assert restarted_id(rolled(LOST, sent(1), disks=disks_before(with_dirs(1, *before)))) == 4
    assert not is_on_new_disk(disks_of(with_dirs(1, "old")), with_dirs(1))


def test_the_directory_of_the_metadata_log_identifies_the_disk_of_a_broker_without_registered_directories() -> None:
    """The registrations may have been readable at one of both moments only."""
    old = disks_of(with_dirs(1, metadata="old"))
    assert is_on_new_disk(old, with_dirs(1, metadata="new"))
    assert is_on_new_disk(old, with_dirs(1, "d", metadata="new"))
    assert not is_on_new_disk(old, with_dirs(1, "d", metadata="old"))
    both = disks_of(with_dirs(1, "d", metadata="old"))
    assert not is_on_new_disk(both, with_dirs(1, "d", metadata="new"))  # which a broker copies from the leader


def test_a_controller_or_combined_node_that_lost_its_metadata_log_is_on_a_new_disk() -> None:
    observation = cluster({**current(3002), **replaced(3001)}, returned_with(3001, metadata="new"))
    message = refused(
        rolled(observation, sent(3001), disks=disks_before(with_dirs(3001, metadata="old"))), Reason.ROLLOUT_HALTED
    )
    assert "controller 3001 came back on a new disk" in message
    combined = replace(with_dirs(3001, "d", metadata="new"), roles=(Role.CONTROLLER, Role.BROKER))
    assert is_on_new_disk(disks_of(replace(combined, metadata_dir="old")), combined)


def test_a_consent_accepts_one_new_disk_of_one_node_and_is_spent_by_it() -> None:
    consent = consent_to_disk(OLD[1], LOST.node(1) or a_node(1))
    roll = rolled(LOST, sent(1), disks=OLD, consents=frozenset({consent}))
    assert (roll.disks.used, roll.disks.lost) == (frozenset({consent}), ())
    assert restarted_id(roll) == 4
    after = rolled(LOST, sent(1), disks=roll.disks.earlier, status=replace(EMPTY, spent_consents=(consent,)))
    assert (after.disks.used, restarted_id(after)) == (frozenset(), 4)


def test_a_consent_to_another_disk_or_another_node_accepts_no_new_disk() -> None:
    other_consents = (
        consent_to_disk(OLD[1], with_dirs(1, "third")),
        consent_to_disk(disks_of(with_dirs(2, "old")), with_dirs(2, "new")),
        "quorum-of-one",
    )
    assert consent_to_disk(OLD[1], LOST.node(1) or a_node(1)) not in other_consents
    assert rolled(LOST, disks=OLD, consents=frozenset(other_consents)).disks.lost_ids == {1}


def test_a_consent_to_a_new_disk_that_was_spent_has_to_be_given_again() -> None:
    consent = consent_to_disk(OLD[1], LOST.node(1) or a_node(1))
    spent = replace(EMPTY, spent_consents=(consent,))
    message = refused(rolled(LOST, disks=OLD, status=spent, consents=frozenset({consent})), Reason.ROLLOUT_HALTED)
    assert f"remove the consent {consent}, apply the document, then add it again" in message


def test_the_status_has_the_directories_of_nodes_only_while_the_roll_is_in_progress() -> None:
    begun = rolled(cluster(ROLLED_CONTROLLERS, {1: with_dirs(1, "old", "older")}))
    status = rollout_status(begun, WAITING, None, ago(0))
    assert status is not None
    assert read_disks(status.disks) == OLD
    halted = rolled(LAST, disks=OLD)
    still = rollout_status(halted, WAITING, status, ago(0))
    assert still is not None
    assert (still.disks, still.is_in_progress) == (status.disks, True)
    assert rollout_status(halted, WAITING, None, ago(0)) == RolloutStatus(
        id=halted.id, total=9, done=8, disks=status.disks, revisions=still.revisions
    )
    assert completed(status).disks == ()
    slip = without_restarts(status, is_known=False)
    assert slip is not None
    assert slip.disks == status.disks


def test_the_status_has_the_directories_of_the_node_in_flight_however_many_nodes_there_are() -> None:
    """The next reconciliation, which follows its restart, may be that of another process."""
    many = {id_: frozenset({f"d:{id_:05}"}) for id_ in range(2000)}
    roll = rolled(replace(cluster(ROLLED_CONTROLLERS), registered_brokers=Unknown(UNREAD)), disks=many)
    assert isinstance(roll.decision, Act)
    assert isinstance(roll.decision.step, RestartNode)
    restart = replace(roll.decision, step=replace(roll.decision.step, node_id=1999))
    status = rollout_status(roll, restart, None, ago(0))
    assert status is not None
    assert 1999 in read_disks(status.disks)


def test_the_directories_of_a_broker_are_forgotten_once_it_was_unregistered_within_a_roll() -> None:
    without = cluster({**ROLLED_CONTROLLERS, **replaced(1)})
    without = replace(without, nodes=tuple(node for node in without.nodes if node.id != 1))
    stopped = cluster(ROLLED_CONTROLLERS, {1: with_dirs(1, node=replace(a_node(1), state=NodeState.GHOST))})
    unread = replace(without, registered_brokers=Unknown(UNREAD))
    in_zookeeper = replace(without, mode=known(MetadataMode.ZOOKEEPER))
    for observation, is_forgotten in ((without, True), (stopped, False), (unread, False), (in_zookeeper, False)):
        before = rolled(observation, disks=OLD).disks.earlier
        assert (before.get(1) is None) is is_forgotten
        assert (rolled(LOST, disks=before).disks.lost_ids == {1}) is not is_forgotten


def both_of_one_id(controller: str, broker: str, state: NodeState = NodeState.LIVE) -> tuple[Node, Node]:
    """A controller and a broker with the id 1, each with its own process."""
    voter = replace(with_dirs(1, metadata=controller), roles=(Role.CONTROLLER,))
    return voter, replace(with_dirs(1, broker, metadata=controller), state=state)


@pytest.mark.parametrize("state", [NodeState.LIVE, NodeState.GHOST])
def test_a_new_disk_is_reported_for_the_right_node_of_a_broker_and_a_controller_with_one_id(
    state: NodeState,
) -> None:
    """For one id the leader names one directory of the metadata log. If both nodes run, it is not known whose it is; if
    the broker is down (`GHOST`), it is the controller's.
    """

    def disks_of_nodes(nodes: tuple[Node, Node], earlier: Disks | None = None) -> NodeDisks:
        nodes = (nodes[0], replace(nodes[1], metadata_dir="")) if state is NodeState.GHOST else nodes
        return disks_now(nodes, earlier or {}, frozenset())

    before = disks_of_nodes(both_of_one_id("meta", "log", state))
    in_other_order: Any = tuple(reversed(both_of_one_id("meta", "log", state)))
    unchanged = disks_of_nodes(in_other_order, before.earlier)
    assert (unchanged.earlier, unchanged.lost) == (before.earlier, ())
    lost = disks_of_nodes(both_of_one_id("meta", "new", state), before.earlier).lost
    assert [node.title for node in lost] == ["broker 1"]
    lost = disks_of_nodes(both_of_one_id("new", "log", state), before.earlier).lost
    assert [node.title for node in lost] == (["controller 1"] if state is NodeState.GHOST else [])


def test_a_consent_to_a_new_disk_keeps_the_directories_of_the_other_node_with_the_same_id() -> None:
    nodes = both_of_one_id("meta", "log", NodeState.GHOST)
    before = {1: disks_of(with_dirs(1, "old", metadata="meta"))}
    consent = consent_to_disk(before[1], nodes[1])
    disks_of_nodes = disks_now(nodes, before, frozenset(), {consent})
    assert (disks_of_nodes.used, disks_of_nodes.lost) == (frozenset({consent}), ())
    assert disks_of_nodes.earlier == {1: disks_of(with_dirs(1, "log", metadata="meta"))}


@WITH_AND_WITHOUT_RESTART
def test_a_lost_disk_does_not_halt_a_migration_path_without_restarts_and_stays_recorded(
    flying: tuple[RestartInFlight, ...],
) -> None:
    way = Permit("", {}, restarts=False)
    roll = rolled(LAST, *flying, disks=OLD, permit=way)
    assert "came back on a new disk" not in str(roll.decision)
    assert isinstance(roll.decision, Wait) is bool(flying)
    assert (roll.is_active, roll.disks.earlier, roll.disks.lost_ids) == (True, OLD, frozenset({1}))
    before = RolloutStatus(id="1", total=9, done=9)
    status = rollout_status(roll, WAITING, before, ago(0))
    assert status is not None
    assert read_disks(status.disks) == OLD
    assert "came back on a new disk" in refused(rolled(LAST, disks=OLD, permit=Permit("", {})), Reason.ROLLOUT_HALTED)


def test_a_reconciliation_without_readable_pods_keeps_the_recorded_directories() -> None:
    observation = replace(cluster(), workloads=Unknown(UNREAD))
    roll = rolled(observation, disks=OLD)
    assert not roll.needing
    facts = SimpleNamespace(observation=observation, stage_memory={}, monotonic=0.0)
    memory = RollState(facts, None, roll, ()).stage_memory[ROLL]  # type: ignore[arg-type]
    assert isinstance(memory, RollMemory)
    assert memory.disks[1] == OLD[1]


NODES = st.dictionaries(
    st.integers(0, 9999), st.sets(st.sampled_from([f"d:{letter}" for letter in "abcdefgh"]), min_size=1), max_size=600
)


@given(NODES, st.sets(st.integers(0, 9999), max_size=20))
def test_a_status_keeps_the_disks_it_has_room_for_and_always_those_of_the_nodes_that_come_first(
    nodes: dict[int, set[str]], first: set[int]
) -> None:
    before = {id_: frozenset(marks) for id_, marks in nodes.items()}
    lines = written_disks(before, first)
    read = read_disks(RolloutStatus.read(RolloutStatus(disks=lines).as_json()).disks)
    assert read.items() <= before.items()
    assert read.keys() >= first & before.keys()
    # Lines are left out only if the next one, of at most 100 bytes, does not fit; each of up to 400 lines has a comma.
    assert read == before or sum(map(len, lines)) > MOST_BYTES - 400 * len('"", ') - 100
    assert sum(map(len, lines)) <= MOST_BYTES


@given(st.lists(st.text("0123456789 d:m\n\u0663x", max_size=12)))
@example(["9" * 5000 + " d:abcde"])
def test_the_valid_lines_of_directories_in_an_edited_status_are_read(lines: list[str]) -> None:
    assert all(marks for marks in read_disks([*lines, "7 d:abcde", "7"]).values())
    assert 7 in read_disks([*lines, "7 d:abcde"])


@given(st.lists(st.dictionaries(st.integers(1, 3), st.sets(st.sampled_from("abcdef"), min_size=1)), max_size=6))
def test_exactly_the_nodes_without_any_former_directory_are_on_a_new_disk(
    readings: list[dict[int, set[str]]],
) -> None:
    """`readings`: directories of the nodes that run, by node. `model`: the directories that each node had, up to now,
    without being on a new disk; there is no consent.
    """
    before: Disks = {}
    model: dict[int, set[str]] = {}
    for dirs_by_id in readings:
        disks_of_nodes = disks_now([with_dirs(id_, *dirs) for id_, dirs in dirs_by_id.items()], before, frozenset())
        lost = {id_ for id_, dirs in dirs_by_id.items() if id_ in model and model[id_].isdisjoint(dirs)}
        for id_ in dirs_by_id.keys() - lost:
            model.setdefault(id_, set()).update(dirs_by_id[id_])
        assert disks_of_nodes.lost_ids == lost
        before = disks_of_nodes.earlier
