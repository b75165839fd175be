"""Records at which Kafka stops: each of its checks, and no such report where the state before a record is not known."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from kraftlog import checks, known
from kraftlog.batches import Codec, Pieces, view_of
from kraftlog.checks import CHECKS
from kraftlog.errors import TooLargeError
from kraftlog.judge import Judge
from kraftlog.judged import Judged, judged
from kraftlog.records import Decoded, decode, kafka_uuid
from kraftlog.schema import table
from tests.kraftlog.build import (
    abort,
    batch,
    begin,
    broker,
    change,
    checkpoint,
    control_batch,
    end,
    fence,
    log,
    no_op,
    segment,
    snapshot,
    unregister,
)
from tests.kraftlog.golden import FILES, name
from tests.kraftlog.impossible import (
    CASES,
    A,
    B,
    C,
    Case,
    credential_removed,
    elr_cleared,
    entry_removed,
    moved,
    partition,
    removed,
    topic,
    unregister_controller,
)

FIRST = segment(0)
ABSENCES = {
    "a fencing": fence(7, 10), "a change of a registration": change(7, 10, fenced=1),
    "an unregistration": unregister(7, 10), "an unregistration of a controller": unregister_controller(3005),
    "a partition": partition(), "a change of a partition": moved(isr=(1,)), "a removal of a topic": removed(),
    "a removal of an ACL": entry_removed(), "a removal of a credential": credential_removed(),
    "an end of a transaction": end(), "an abort of a transaction": abort(),
}  # fmt: skip
"""Records that refer to something, and are impossible if it is known not to exist."""


def found_in(files: Mapping[str, bytes]) -> list[Judged]:
    """The impossible records in these files of one node, by name."""

    def opened(one: str) -> AbstractContextManager[Pieces]:
        return nullcontext(view_of(files[one]))

    return list(judged(files, opened))


def offsets(files: Mapping[str, bytes]) -> list[int]:
    return [one.impossible.offset for one in found_in(files)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_impossible_record_is_named_with_its_offset_and_the_method_of_kafka_that_refuses(case: Case) -> None:
    (one,) = found_in({FIRST: log(case.values)})
    stops = f"Kafka stops here ({case.check.method})"
    words = f"offset {len(case.values) - 1}: {case.text}: {stops}"
    assert str(one) == words + (f", {case.check.releases}" if case.check.releases else "")
    assert (one.impossible.check, one.file, one.end_offset) == (case.check, FIRST, None)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_impossible_record_is_named_in_any_form_of_its_batch(case: Case) -> None:
    last = [len(case.values) - 1]
    assert offsets({FIRST: log(*[[value] for value in case.values])}) == last
    assert offsets({FIRST: batch(0, *case.values, attributes=Codec.GZIP.value)}) == last
    files = {segment(at): batch(at, value) for at, value in enumerate(case.values)}
    assert offsets(files) == last


def test_each_check_has_a_sample_log() -> None:
    assert {case.check for case in CASES.values()} == set(CHECKS) - {checks.IN_SNAPSHOT}
    for one in CHECKS:
        assert one.method
        assert one.records


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_log_of_a_real_node_has_an_impossible_record(path: Path) -> None:
    assert found_in({path.name: path.read_bytes()}) == []
    assert found_in({one.name: one.read_bytes() for one in FILES if one.parent == path.parent}) == []


@pytest.mark.parametrize("value", ABSENCES.values(), ids=ABSENCES)
def test_a_record_that_refers_to_unknown_state_is_not_impossible(value: bytes) -> None:
    assert offsets({FIRST: log([no_op(), value])}) == [1]  # the log is known from its beginning
    assert offsets({segment(50): log([no_op(), value], start=50)}) == []  # not known from its beginning
    assert offsets({FIRST: log([no_op()]) + batch(9, value)}) == []  # a gap
    assert offsets({FIRST: log([no_op()]) + log([no_op()], start=1)[:-1] + b"\1" + batch(2, value)}) == []  # damage
    assert offsets({FIRST: log([bytes([1, 99, 0, 1]), value])}) == []  # a type of a later release
    assert offsets({FIRST: log([broker(7, 10)[:-4], value])}) == []  # a registration that does not read


@pytest.mark.parametrize("value", ABSENCES.values(), ids=ABSENCES)
def test_contradictions_after_a_snapshot_are_found(value: bytes) -> None:
    state = snapshot(broker(1, 5), topic("other", B), partition(id_=B))
    assert offsets({checkpoint(50): state, segment(50): log([no_op(), value], start=50)}) == [51]
    behind_a_gap = {FIRST: log([topic()]), checkpoint(50): state, segment(50): log([value], start=50)}
    assert offsets(behind_a_gap) == [50]
    in_a_batch = {segment(48): log([value, no_op(), value], start=48), checkpoint(50): state}
    assert offsets(in_a_batch) == [50]
    cut = {checkpoint(50): state[:-20], segment(50): log([value], start=50)}
    assert offsets(cut) == []


def test_records_after_a_snapshot_are_judged_by_the_state_of_the_snapshot() -> None:
    state = snapshot(broker(7, 10), topic(), partition())
    possible = [change(7, 10, fenced=-1), moved(isr=(1,)), partition(1), removed(), unregister(7, 10), topic()]
    assert offsets({checkpoint(50): state, segment(50): log(possible, start=50)}) == []
    # Another epoch of the broker, a partition that does not exist, another topic with the name of the first.
    impossible = [change(7, 11, fenced=-1), moved(1, isr=(1,)), topic("orders", B)]
    assert offsets({checkpoint(50): state, segment(50): log(impossible, start=50)}) == [50, 51, 52]


def test_records_of_a_snapshot_are_checked_against_the_snapshot_itself() -> None:
    files = {checkpoint(50): snapshot(topic(), partition(id_=C), begin())}
    one, other = found_in(files)
    assert str(one).startswith(f"offset 2 of the snapshot: PARTITION of partition 0 has topic id {kafka_uuid(C)}")
    assert (one.begins, other.impossible.check) == (50, checks.IN_SNAPSHOT)
    words = "BEGIN_TRANSACTION in a snapshot: Kafka stops here (MetadataDelta.replay), from 3.6 on"
    assert str(other) == f"offset 3 of the snapshot: {words}"


def test_a_bootstrap_snapshot_is_no_state_before_the_log() -> None:
    """The first leader writes its records into the log: its topic is no contradiction, and its removal is one."""
    files = {checkpoint(0, 0): snapshot(topic()), FIRST: log([topic()])}
    assert offsets(files) == []
    assert offsets({**files, FIRST: log([removed()])}) == [0]


def test_records_after_a_gap_are_judged_by_the_records_since_the_gap() -> None:
    values = [broker(7, 10), change(7, 11, fenced=1), topic(), partition(), moved(1, isr=(1,)), removed(), removed()]
    assert offsets({segment(50): log(values, start=50)}) == [51, 54, 56]


def test_an_aborted_transaction_changes_no_state_of_the_judge() -> None:
    values = [broker(7, 10), topic(), partition(), begin(), removed(), unregister(7, 10), topic("orders", B), abort()]
    behind = [moved(isr=(1,)), change(7, 10, fenced=1), topic("payments", B)]
    assert offsets({FIRST: log(values, behind)}) == []
    assert offsets({FIRST: log(values, [partition(id_=B)])}) == [len(values)]
    committed = [*values[:-1], end()]
    assert offsets({FIRST: log(committed, [moved(isr=(1,))])}) == [len(committed)]


def test_an_abort_without_its_begin_makes_the_state_unknown() -> None:
    assert offsets({segment(50): log([topic(), partition(), topic()], start=50)}) == [52]
    assert offsets({segment(50): log([topic(), abort(), partition(), topic()], start=50)}) == []


def test_a_record_that_only_controllers_refuse_has_its_effect_on_later_checks() -> None:
    """Brokers apply a record that controllers refuse. A record that both refuse has no effect."""
    refused_by_both = [broker(7, 10), fence(7, 9), fence(7, 10)]
    assert offsets({FIRST: log(refused_by_both)}) == [1]
    controllers_only = [topic(), topic("orders", B), partition(id_=B), broker(7, 10), unregister(7, 9), broker(7, 11)]
    assert offsets({FIRST: log(controllers_only)}) == [1, 4]


def test_records_that_kafka_does_not_check_are_no_contradictions() -> None:
    values = [
        topic(), partition(), partition(), partition(replicas=(1, 1), isr=(8, 9)), moved(leader=99), moved(isr=()),
        topic("payments", A), broker(7, 10), broker(7, 3), broker(7, 3), topic("x", C), partition(0, C, 0, isr=()),
        moved(0, C, replicas=(1, 2, 3)), moved(0, C, replicas=(4,), directories=()), elr_cleared("payments"),
    ]  # fmt: skip
    assert offsets({FIRST: log(values)}) == []


def test_control_records_and_no_ops_do_not_hide_a_contradiction() -> None:
    leader = {"leaderId": 1, "voters": (), "grantingVoters": ()}
    content = control_batch(0, (table.LEADER_CHANGE, leader)) + batch(1, no_op()) + batch(2, no_op())
    assert offsets({FIRST: content + batch(3, fence(7, 10)) + batch(4, no_op())}) == [3]


def test_the_memory_of_the_judge_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MAX_KNOWN", 3)
    created_and_removed = [topic(), partition(), removed()] * 3
    assert offsets({FIRST: log(created_and_removed)}) == []
    with pytest.raises(TooLargeError, match="more than 3 topics"):
        found_in({FIRST: log([topic(), partition(), partition(1)])})


@pytest.mark.parametrize("seed", range(40))
def test_the_judge_without_decoding_agrees_with_the_judge(seed: int) -> None:
    """`judged` passes over changes of partitions that are surely possible, without decoding them."""
    chance = random.Random(seed)
    fields: list[dict[str, Any]] = [
        {"isr": (1,)}, {"leader": 2}, {"isr": (), "leader": -1}, {"replicas": (1, 2, 3)}, {"directories": (B,)},
        {"replicas": (3,), "directories": (C,)}, {"leaderRecoveryState": 1}, {"leaderRecoveryState": 3},
        {"directories": ()}, {"isr": tuple(range(40))}, {"addingReplicas": (9,)},
    ]  # fmt: skip
    makers: list[Callable[[], bytes]] = [
        lambda: topic(chance.choice("ab"), chance.choice((A, B))), lambda: removed(chance.choice((A, B))),
        lambda: partition(chance.randrange(3), chance.choice((A, B)), chance.randrange(2)),
        begin, end, abort, lambda: broker(chance.randrange(2), chance.randrange(2)),
        lambda: unregister(chance.randrange(2), chance.randrange(2)), lambda: fence(chance.randrange(2), 1),
        *[lambda: moved(chance.randrange(3), chance.choice((A, B)), **chance.choice(fields))] * 12,
    ]  # fmt: skip
    values = [chance.choice(makers)() for _ in range(300)]
    judge, expected = Judge(is_complete=True), []
    for offset, value in enumerate(values):
        content = decode(value)
        assert isinstance(content, Decoded)
        if impossible := judge.take(content.type.key, content.data, offset):
            expected.append(impossible)
    assert [one.impossible for one in found_in({FIRST: log(values)})] == expected
