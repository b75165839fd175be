"""Restarts in a log: those of real nodes, compared with the dump tool, and rare cases in small written logs.

The offsets of an absence are those of its records: stop, fenced, registered, unfenced, in sync.
"""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftlog.batches import Record
from kraftlog.encoding import encode_batch
from kraftlog.errors import GapError
from kraftlog.rolls import Absence, RollHistory, RollReader
from kraftlog.strips import Moment
from tests.kraftlog.build import NOW, abort, batch, begin, broker, change, controller, end, log, no_op, snapshot
from tests.kraftlog.golden import CHANGES, GOLDEN, MIGRATION, SNAPSHOTS, dump_of, name, snapshot_id
from tests.kraftlog.partitions import ALL, partition, topic
from tests.kraftlog.partitions import change as partition_change

Json = dict[str, Any]


def history_of(data: bytes, since_ms: int = 0, most: int = 50) -> RollHistory:
    reader = RollReader(since_ms=since_ms)
    reader.append(data, below=ALL)
    return reader.finish(most)


def offsets(absence: Absence) -> list[int | None]:
    return [moment and moment.offset for moment in absence.moments]


# --- real nodes ---


def dumped() -> dict[int, Json]:
    """Data by offset, as Kafka's dump tool prints a migration in which three brokers are restarted."""
    lines = (line.partition(" payload: ") for line in dump_of(MIGRATION).splitlines() if "payload: {" in line)
    return {int(head.split("offset: ")[1].split()[0]): json.loads(payload) for head, _, payload in lines}


def in_effect() -> Iterator[tuple[Json, int]]:
    """The dumped records, each with the time in ms at which it took effect; in a transaction this is its end."""
    lines = [one for one in dump_of(MIGRATION).splitlines() if "payload: {" in one]
    stamps = [int(line.split("CreateTime: ")[1].split()[0]) for line in lines]
    waiting: list[Json] | None = None
    for record, at_ms in zip(dumped().values(), stamps, strict=True):
        if record["type"] == "BEGIN_TRANSACTION_RECORD":
            waiting = []
        elif record["type"] == "END_TRANSACTION_RECORD":
            yield from ((one, at_ms) for one in waiting or ())
            waiting = None
        elif waiting is not None:
            waiting.append(record)
        else:
            yield record, at_ms


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_phase_of_a_real_brokers_restart_is_the_record_that_the_dump_tool_shows(number: int) -> None:
    records = dumped()
    (absence,) = (
        one for one in history_of(MIGRATION.read_bytes()).absences if (one.role, one.node_id) == ("broker", number)
    )
    stop, fenced, registered, unfenced, in_sync = (records[one.offset] for one in absence.moments if one is not None)
    assert (stop["data"]["inControlledShutdown"], fenced["data"]["fenced"], unfenced["data"]["fenced"]) == (1, 1, -1)
    assert registered["type"] == "REGISTER_BROKER_RECORD"
    assert {one["data"]["brokerId"] for one in (stop, fenced, registered, unfenced)} == {number}
    assert number in in_sync["data"]["isr"]
    begin, last = (moment.offset for moment in (absence.moments[0], absence.moments[-1]) if moment is not None)
    isrs: dict[int, list[int]] = {}
    for offset, record in records.items():
        if begin < offset <= last and record["data"].get("isr") is not None:
            isrs[record["data"]["partitionId"]] = record["data"]["isr"]
            assert (offset == last) == all(number in isr for isr in isrs.values())  # not one record earlier


def test_partitions_of_real_nodes_lack_a_replica_for_the_time_that_the_dump_tool_shows() -> None:
    history = history_of(MIGRATION.read_bytes())
    assert (history.partitions, history.affected, history.without_leader, history.unreadable) == (14, 12, 0, 0)
    lacked: dict[int, int] = {}
    since: dict[int, int] = {}
    for record, at_ms in in_effect():
        if record["data"].get("isr") is None:
            continue
        number, is_whole = record["data"]["partitionId"], len(record["data"]["isr"]) == 3
        if is_whole and number in since:
            lacked[number] = lacked.get(number, 0) + at_ms - since.pop(number)
        elif not is_whole:
            since.setdefault(number, at_ms)
    assert {strip.partition: strip.under_replicated_ms for strip in history.strips} == lacked


@pytest.mark.parametrize("path", SNAPSHOTS, ids=name)
def test_the_history_from_a_snapshot_equals_that_from_the_beginning_of_the_log(path: Path) -> None:
    offset, epoch = snapshot_id(path)
    data = path.with_name("00000000000000000000.log").read_bytes()
    whole, late = history_of(data), RollReader(since_ms=0)
    late.load_snapshot(path.read_bytes(), end_offset=offset, epoch=epoch)
    late.append(data, below=ALL)
    history = late.finish(50)
    assert history.known_from is not None
    assert (history.known_from.offset, history.end, history.partitions) == (offset, whole.end, whole.partitions)
    assert history.absences == tuple(absence for absence in whole.absences if absence.first.offset >= offset)
    assert history.unreadable == 0


def test_a_real_broker_that_was_unregistered_has_an_absence_without_a_return() -> None:
    (gone,) = (absence for absence in history_of(CHANGES.read_bytes()).absences if absence.node_id == 4)
    assert gone.unregistered
    assert gone.registered is None


def bytes_of(cluster: Json, timeline: Iterable[Json]) -> bytes:
    """A log with recorded records of real nodes, and before them registrations and partitions that they refer to."""
    names = {one["topic"] for one in timeline if "topic" in one}
    ids = {name: uuid.uuid5(uuid.NAMESPACE_DNS, name).int % 1000 for name in names}
    nodes = {one["brokerId"] for one in timeline if "brokerId" in one}
    replicas = {("orders", int(at)): tuple(ids_) for at, ids_ in cluster["partitions"].items()}
    for one in timeline:
        if "isr" in one:
            key = one["topic"], one["partitionId"]
            replicas[key] = tuple(dict.fromkeys((*replicas.get(key, ()), *one["isr"])))
    values = [broker(node, 1, fenced=False) for node in sorted(nodes)]
    values += [controller(int(node)) for node, pod in cluster["nodes"].items() if "controllers" in pod]
    values += [topic(number, name) for name, number in ids.items()]
    values += [partition(ids[name], at, *of) for (name, at), of in replicas.items() if name in ids]
    made, offset, epochs = log(values), len(values), dict.fromkeys(nodes, 1)
    for one in timeline:
        if one["type"] == "REGISTER_BROKER_RECORD":
            epochs[one["brokerId"]] = one["brokerEpoch"]
            value = broker(one["brokerId"], one["brokerEpoch"])
        elif one["type"] == "REGISTER_CONTROLLER_RECORD":
            value = controller(one["controllerId"], 2)
        elif one["type"] == "PARTITION_CHANGE_RECORD":
            value = partition_change(ids[one["topic"]], one["partitionId"], **_given(one, "isr", "leader"))
        else:
            given = _given(one, "fenced", "inControlledShutdown")
            value = change(one["brokerId"], epochs[one["brokerId"]], **given)
        at_ms = NOW + round(one["at"] * 1000)
        made += encode_batch([Record(offset, at_ms, value)], leader_epoch=1)
        offset += 1
    return made


def _given(record: Json, *names: str) -> Json:
    return {name: record[name] for name in names if name in record}


@pytest.mark.parametrize("release", ["4.1.2", "4.4.0"])
def test_the_phases_of_recorded_restarts_on_kubernetes_are_as_recorded(release: str) -> None:
    lines = gzip.decompress((GOLDEN / "restarts" / f"{release}.jsonl.gz").read_bytes()).splitlines()
    cluster, *restarts = map(json.loads, lines)
    for restart in restarts:
        records = [one for one in restart["timeline"] if "type" in one]
        history = history_of(bytes_of(cluster, records))
        assert history.unreadable == 0
        assert {absence.node_id for absence in history.absences} == set(restart["restarted"])
        for one in history.absences:
            if one.role == "controller":
                continue
            of_node = [record for record in records if record.get("brokerId") == one.node_id]
            expected = [
                next(record["at"] for record in of_node if record.get("inControlledShutdown")),
                next(record["at"] for record in of_node if record.get("fenced") == 1),
                next(record["at"] for record in of_node if record["type"] == "REGISTER_BROKER_RECORD"),
                next(record["at"] for record in of_node if record.get("fenced") == -1),
                [record["at"] for record in records if one.node_id in record.get("isr", ())][-1],
            ]
            assert [moment and (moment.at_ms - NOW) / 1000 for moment in one.moments] == expected
        assert len(restart["restarted"]) == len(history.absences)


# --- small written logs ---

START = (broker(1, 1, fenced=False), broker(2, 2, fenced=False), topic(1), partition(1, 0, 1, 2), partition(1, 1, 1, 2))
"""Two brokers with two partitions, in five records: the next record has offset 5."""


def test_an_absence_ends_after_partitions_that_lost_the_broker_in_the_batch_of_its_fencing_are_in_sync() -> None:
    """A controller writes the changes of partitions before the fencing, in one batch."""
    crash = (partition_change(1, 0, isr=(2,), leader=2), partition_change(1, 1, isr=(2,)), change(1, 1, fenced=1))
    back = (broker(1, 9), change(1, 9, fenced=-1))
    (absence,) = history_of(log(START, crash, back, [partition_change(1, 0, isr=(2, 1))])).absences
    assert offsets(absence) == [None, 7, 8, 9, None]
    (absence,) = history_of(
        log(START, crash, back, [partition_change(1, 0, isr=(2, 1))], [partition_change(1, 1, isr=(1, 2))])
    ).absences
    assert offsets(absence) == [None, 7, 8, 9, 11]


def test_an_absence_does_not_wait_for_a_partition_that_was_out_of_sync_before() -> None:
    stop = (change(1, 1, inControlledShutdown=1), partition_change(1, 0, isr=(2,), leader=2))
    back = (change(1, 1, fenced=1), broker(1, 9), change(1, 9, fenced=-1), partition_change(1, 0, isr=(2, 1)))
    (absence,) = history_of(log(START, [partition_change(1, 1, isr=(2,), leader=2)], stop, back)).absences
    assert offsets(absence) == [6, 8, 9, 10, 11]


def test_a_broker_without_partitions_is_in_sync_when_it_is_unfenced() -> None:
    (absence,) = history_of(log([broker(7, 1, fenced=False)], [broker(7, 2), change(7, 2, fenced=-1)])).absences
    assert offsets(absence) == [None, None, 1, 2, 2]


def test_a_broker_that_was_only_fenced_has_no_registration_in_its_absence() -> None:
    (absence,) = history_of(log(START, [change(1, 1, fenced=1)], [change(1, 1, fenced=-1)])).absences
    assert offsets(absence) == [None, 5, None, 6, 6]


def test_a_broker_that_stops_again_before_it_is_in_sync_has_two_absences() -> None:
    crash = (partition_change(1, 0, isr=(2,), leader=2), change(1, 1, fenced=1))
    history = history_of(
        log(START, crash, [broker(1, 9), change(1, 9, fenced=-1)], [change(1, 9, fenced=1)], [broker(1, 12)])
    )
    assert [offsets(absence) for absence in history.absences] == [[None, 6, 7, 8, None], [None, 9, 10, None, None]]


def test_the_first_start_of_a_broker_is_no_absence() -> None:
    assert history_of(log(START, [broker(3, 5), change(3, 5, fenced=-1)])).absences == ()


def test_a_combined_node_is_reported_once() -> None:
    both = (broker(1, 1, fenced=False), controller(1))
    restart = (controller(1, 2), change(1, 1, fenced=1), broker(1, 4), change(1, 4, fenced=-1))
    (absence,) = history_of(log(both, restart)).absences
    assert (absence.role, offsets(absence)) == ("node", [None, 3, 4, 5, 5])


def test_an_absence_that_begins_before_a_snapshot_begins_with_the_snapshot() -> None:
    reader = RollReader(since_ms=0)
    reader.load_snapshot(
        snapshot(broker(1, 1, fenced=True), broker(2, 2, version=3, fenced=False, inControlledShutdown=True)),
        end_offset=100, epoch=1,
    )  # fmt: skip
    reader.append(batch(100, broker(1, 101), change(1, 101, fenced=-1)), below=ALL)
    history = reader.finish(50)
    assert history.known_from == Moment(NOW - 5, 100)
    assert [offsets(one) for one in history.absences] == [[None, 100, 100, 101, 101], [100, None, None, None, None]]


def test_an_aborted_transaction_has_no_absence() -> None:
    complete = history_of(log(START, [begin(), change(1, 1, fenced=1), end()]))
    assert [offsets(absence) for absence in complete.absences] == [[None, 7, None, None, None]]  # at the end of it
    assert history_of(log(START, [begin(), change(1, 1, fenced=1), abort()])).absences == ()


def test_an_absence_that_ended_before_the_window_is_not_reported() -> None:
    crash, back = [change(1, 1, fenced=1)], [broker(1, 6), change(1, 6, fenced=-1)]
    data = log(START, crash, back, [change(2, 2, fenced=1)])
    assert [absence.node_id for absence in history_of(data, since_ms=NOW + 7).absences] == [1, 2]
    assert [absence.node_id for absence in history_of(data, since_ms=NOW + 8).absences] == [2]


def test_only_committed_records_are_read_and_each_only_once() -> None:
    data = log(START, [change(1, 1, fenced=1)], [no_op()])
    reader = RollReader(since_ms=0)
    assert reader.append(data, below=5) == 5
    assert reader.append(data, below=7) == reader.offset == 7
    assert reader.append(data, below=7) == 7
    assert [offsets(absence) for absence in reader.finish(50).absences] == [[None, 5, None, None, None]]


def test_a_log_with_a_gap_is_refused() -> None:
    with pytest.raises(GapError):
        history_of(log(START) + batch(9, no_op()))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"\x02\x00\x00", id="another frame version"),
        pytest.param(change(1, 1, version=3)[:2] + b"\x09" + change(1, 1, version=3)[3:], id="a later record version"),
        pytest.param(change(1, 77, fenced=1), id="another epoch of the broker"),
        pytest.param(change(9, 1, fenced=1), id="an unknown broker"),
        pytest.param(partition(8, 0, 1, 2), id="an unknown topic"),
        pytest.param(partition_change(1, 7, isr=(1,)), id="an unknown partition"),
        pytest.param(partition_change(1, 0, isr=(1, 3)), id="an ISR with a broker that is no replica"),
        pytest.param(partition(1, 2, 1, 1), id="one broker twice"),
    ],
)
def test_a_record_that_is_damaged_or_contradicts_the_state_counts_as_unreadable(value: bytes) -> None:
    history = history_of(log(START, [value]))
    assert (history.unreadable, history.absences, history.affected) == (1, (), 0)


def test_the_end_of_the_history_is_that_of_an_idle_log() -> None:
    history = history_of(log(START, [no_op()], [no_op()]))
    assert history.end == Moment(NOW + 6, 6)
