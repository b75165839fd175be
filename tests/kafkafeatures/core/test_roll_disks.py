"""A node that comes back on a disk that was not there before halts the roll until a person says that it is meant."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.status import EMPTY, Result
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.memory import remembering
from kafkafeatures.core.engine.settling import Open
from kafkafeatures.core.engine.steps import InFlight
from kafkafeatures.core.facts.observation import Node, NodeState, Observation
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.kinds import in_flight
from kafkafeatures.core.roll.coming_back import Phase
from kafkafeatures.core.roll.disks import MOST_DIRS, consent_to_disk, disks_of, is_on_new_disk
from kafkafeatures.core.roll.restart_node import RestartInFlight
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    ROLLED_CONTROLLERS,
    a_node,
    cluster,
    current,
    fresh,
    looks,
    refused,
    replaced,
    replication_of,
    restart_in,
    rolled,
    sent,
    who,
)


def with_dirs(id_: int, *log_dirs: str, metadata: str = "", node: Node | None = None) -> Node:
    return replace(node or a_node(id_), log_dirs=frozenset(log_dirs), metadata_dir=metadata)


def back(id_: int, *log_dirs: str, metadata: str = "") -> Mapping[int, Node]:
    """A new process, with these directories."""
    return {id_: with_dirs(id_, *log_dirs, metadata=metadata, node=fresh(id_)[id_])}


def restarted(id_: int, *log_dirs: str, metadata: str = "") -> RestartInFlight:
    """A node that had these directories before."""
    return sent(id_, disks=disks_of(with_dirs(id_, *log_dirs, metadata=metadata)))


def followed(one: RestartInFlight, seen: Observation, *consents: str) -> RestartInFlight:
    given = looks(seen, replication=replication_of(seen), consents=frozenset(consents))
    return one.followed(given)


LOST = cluster({**ROLLED_CONTROLLERS, **replaced(1)}, back(1, "new"))


def test_a_broker_none_of_whose_directories_was_there_before_halts_the_roll_by_name_and_stays_in_flight() -> None:
    one = restarted(1, "old", "older")
    message = refused(rolled(LOST, one), Reason.ROLLOUT_HALTED)
    assert "no other node is restarted: broker 1 came back on a new disk" in message
    assert "see the volumes of pod broker-1" in message
    assert "add new-disk:broker-1:" in message
    now = followed(one, LOST)
    assert now.stable_since is None
    assert isinstance(now.settle(looks(LOST)), Open)


def test_it_is_said_at_once_even_while_the_broker_is_fenced_and_for_as_long_as_it_lasts() -> None:
    fenced = {1: replace(back(1, "new")[1], state=NodeState.FENCED)}
    seen = cluster({**ROLLED_CONTROLLERS, **replaced(1)}, fenced)
    late = replace(restarted(1, "old"), at=sent(1, minutes=900).at, stopping_since=sent(1, minutes=900).at)
    for one in (restarted(1, "old"), late):
        assert "came back on a new disk" in refused(rolled(seen, one), Reason.ROLLOUT_HALTED)


def test_a_broker_that_has_one_of_its_directories_still_is_back() -> None:
    seen = cluster({**ROLLED_CONTROLLERS, **replaced(1)}, back(1, "old", "new"))
    assert who(rolled(seen, restarted(1, "old", "older"))) == 4


@pytest.mark.parametrize("before", [(), tuple(map(str, range(MOST_DIRS + 1)))])
def test_nothing_is_concluded_of_directories_that_were_not_known_or_are_too_many_to_remember(
    before: tuple[str, ...],
) -> None:
    assert who(rolled(LOST, restarted(1, *before))) == 4
    assert not is_on_new_disk(disks_of(with_dirs(1, "old")), with_dirs(1))


def test_of_a_broker_that_registers_no_directories_the_one_of_its_metadata_log_tells() -> None:
    """The registrations may have been readable at one of both moments only."""
    old = disks_of(with_dirs(1, metadata="old"))
    assert is_on_new_disk(old, with_dirs(1, metadata="new"))
    assert is_on_new_disk(old, with_dirs(1, "d", metadata="new"))
    assert not is_on_new_disk(old, with_dirs(1, "d", metadata="old"))
    both = disks_of(with_dirs(1, "d", metadata="old"))
    assert not is_on_new_disk(both, with_dirs(1, "d", metadata="new"))  # which a broker copies from the leader


def test_a_controller_that_lost_its_metadata_log_halts_the_roll_also_a_combined_one_that_kept_its_other_disks() -> None:
    seen = cluster({**current(3002), **replaced(3001)}, back(3001, metadata="new"))
    message = refused(rolled(seen, restarted(3001, metadata="old")), Reason.ROLLOUT_HALTED)
    assert "controller 3001 came back on a new disk" in message
    combined = replace(with_dirs(3001, "d", metadata="new"), roles=(Role.CONTROLLER, Role.BROKER))
    assert is_on_new_disk(disks_of(replace(combined, metadata_dir="old")), combined)


def test_a_consent_accepts_this_disk_of_this_node_and_is_spent_before_anything_else_happens() -> None:
    one = restarted(1, "old")
    consent = consent_to_disk(one.step.disks, LOST.node(1) or a_node(1))
    now = followed(one, LOST, consent)
    assert now.step.disks == disks_of(with_dirs(1, "new"))
    assert now.stable_since is not None
    kept = remembering(replace(EMPTY, intents=(one.to_intent(),)), one, now)
    assert kept.spent_consents == (consent,)
    (intent,) = kept.intents
    again = in_flight(intent)
    assert isinstance(again, RestartInFlight)
    assert again.step.state_in(LOST, replication_of(LOST)).phase is Phase.BACK
    assert who(rolled(LOST, again)) == 4
    assert followed(again, LOST).settle(replace(looks(LOST), replication=replication_of(LOST))) is Result.APPLIED


def test_a_consent_to_another_disk_or_to_another_node_accepts_nothing() -> None:
    one, node = restarted(1, "old"), LOST.node(1) or a_node(1)
    others = (
        consent_to_disk(one.step.disks, with_dirs(1, "third")),
        consent_to_disk(disks_of(with_dirs(2, "old")), with_dirs(2, "new")),
        "quorum-of-one",
    )
    assert consent_to_disk(one.step.disks, node) not in others
    assert followed(one, LOST, *others).step.disks == one.step.disks


def test_a_consent_that_was_used_already_is_asked_for_anew() -> None:
    one, node = restarted(1, "old"), LOST.node(1) or a_node(1)
    consent = consent_to_disk(one.step.disks, node)
    spent = replace(EMPTY, spent_consents=(consent,))
    message = refused(rolled(LOST, one, status=spent, consents=frozenset({consent})), Reason.ROLLOUT_HALTED)
    assert f"remove the consent {consent}, apply the document, then add it again" in message


def test_what_a_node_had_is_remembered_from_before_it_is_stopped_and_survives_a_lost_process() -> None:
    nodes = {id_: with_dirs(id_, f"dir-{id_}", metadata=f"meta-{id_}") for id_ in (*BROKERS, *CONTROLLERS)}
    step = restart_in(rolled(cluster(ROLLED_CONTROLLERS, nodes)))
    assert step.disks == disks_of(nodes[step.node_id])
    begun = replace(sent(step.node_id), step=step)
    read = in_flight(begun.to_intent())
    assert isinstance(read, InFlight)
    assert read.step == step


def test_a_stuck_node_that_is_restarted_once_more_is_compared_with_what_it_had_before_the_first_time() -> None:
    """The next pod may be the one that is not empty, and the first one was."""
    pods = {**ROLLED_CONTROLLERS, **replaced(1, revision="broken", waiting="ImagePullBackOff")}
    seen = cluster(pods, {1: with_dirs(1, "new", node=replace(fresh(1)[1], state=NodeState.FENCED))})
    one = restarted(1, "old")
    assert restart_in(rolled(seen, one)).disks == one.step.disks
    assert isinstance(followed(one, seen).settle(looks(seen)), Open)
