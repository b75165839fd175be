"""The table of topics by number: it equals a dict, whether topics come singly or in runs, and views do not change."""

from __future__ import annotations

import gc
import pickle
import tracemalloc
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog import Replay, Section
from kraftlog.partitions import Topic
from kraftlog.topics import Topics, TopicTable
from tests.kraftlog.build import batch
from tests.kraftlog.partitions import ALL, clear_elr, partition, read, rows, topic

# `put` adds or renames one topic, `run` adds several new ones at once, `named` looks up a name.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 9), st.sampled_from("abc")),
        st.tuples(st.just("run"), st.lists(st.integers(0, 9), min_size=1, max_size=4), st.sampled_from(["", "a", "x"])),
        st.tuples(st.just("drop"), st.integers(0, 9), st.just("")),
        st.tuples(st.just("view"), st.just(0), st.just("")),
        st.tuples(st.just("named"), st.just(0), st.sampled_from("abx")),
    ),
    max_size=40,
)


def id_of(number: int) -> bytes:
    return number.to_bytes(16)


def put_run(table: TopicTable, ids: list[bytes], names: list[str]) -> bool:
    return table.put_run(ids, "".join(names), [0, *accumulate(map(len, names))])


@given(STEPS)
def test_a_topic_table_equals_a_dict_and_a_view_the_dict_at_the_time_it_was_taken(
    steps: list[tuple[str, object, str]],
) -> None:
    table, views = TopicTable(), list[tuple[Topics, dict[int, Topic]]]()
    numbers, model, named = dict[bytes, int](), dict[int, Topic](), dict[str, int]()
    next_number = 0
    for step, which, name in steps:
        if step == "put":
            assert isinstance(which, int)
            number = numbers.setdefault(id_of(which), next_number)
            next_number = max(next_number, number + 1)
            model[number], named[name] = Topic(id_of(which), name), number
            assert table.put(id_of(which), name) == number
        elif step == "run":
            assert isinstance(which, list)
            ids, names = [id_of(each) for each in which], [name * (1 + place % 2) for place in range(len(which))]
            new = len(set(ids)) == len(ids) and numbers.keys().isdisjoint(ids)
            assert put_run(table, ids, names) is new
            for id_, each in zip(ids, names, strict=True) if new else ():
                numbers[id_], model[next_number], named[each] = next_number, Topic(id_, each), next_number
                next_number += 1
        elif step == "drop" and id_of(int(str(which))) in numbers:
            number = numbers.pop(id_of(int(str(which))))
            gone = model.pop(number)
            assert table.drop(number) == gone
            if named.get(gone.name) == number:
                del named[gone.name]
        elif step == "view":
            views.append((table.view(), dict(model)))
        elif step == "named":
            assert table.number_named(name) == named.get(name, -1)
        assert table.next_number == next_number
        assert table.numbers_of(map(id_of, range(10))).tolist() == [numbers.get(id_of(each), -1) for each in range(10)]
    for view, then in [*views, (table.view(), model)]:
        assert view == then == dict(view.items())
        assert (len(view), list(view), list(view.items())) == (len(then), sorted(then), sorted(then.items()))
        assert pickle.loads(pickle.dumps(view)) == view
        assert [view.get(number) for number in range(next_number)] == [then.get(each) for each in range(next_number)]
        assert (view == table.view()) is (then == model)
    assert {name: table.number_named(name) for name in named} == named
    for number in model:
        table.drop(number)
    assert table.weight == 0


def test_a_topic_that_does_not_exist_cannot_be_dropped() -> None:
    with pytest.raises(KeyError):
        TopicTable().drop(0)


@pytest.mark.parametrize("count", [7, 1000], ids=["few, decoded one by one", "many, read as one run"])
@pytest.mark.parametrize("names_are_asked_for", [False, True], ids=["names not looked up", "a name looked up"])
def test_the_weight_of_topics_is_at_least_their_memory(count: int, names_are_asked_for: bool) -> None:
    values = [topic(number, f"{number:03}" + "x" * 60) for number in range(count)]
    data = batch(0, *values, *([clear_elr(f"{5:03}" + "x" * 60)] if names_are_asked_for else []), *[clear_elr("")] * 40)
    Replay(sections=[Section.PARTITIONS]).append(data, below=ALL)  # fills caches of the process, which do not count
    replay = Replay(sections=[Section.PARTITIONS])
    gc.collect()
    tracemalloc.start()
    try:
        replay.append(data, below=ALL)
        gc.collect()
        took = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert took <= replay.weight + 4000 <= 5 * took + 4000
    assert replay.image().unreadable == 0


def test_topics_of_one_batch_take_little_memory() -> None:
    """Less than 200 bytes each: a topic that is stored as an object takes 300."""
    data = batch(0, *(topic(number) for number in range(2000)))
    replay = Replay(sections=[Section.PARTITIONS])
    tracemalloc.start()
    try:
        replay.append(data, below=ALL)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 200 * 2000
    finally:
        tracemalloc.stop()
    assert len(replay.image().partitions.topics) == 2000


@pytest.mark.parametrize("name", ["é", "\N{GRINNING FACE}" * 9, ""])
def test_a_topic_name_that_kafka_would_not_allow_is_read(name: str) -> None:
    values = [
        each
        for number in range(20)
        for each in (topic(number, f"{name}-{number}" if number == 7 else None), partition(number, 0, 1, 2))
    ]
    together = read(*values, at_once=True)
    assert rows(together) == rows(read(*values))
    assert (f"{name}-7", 0) in rows(together)


def test_a_topic_name_that_is_not_utf_8_is_unreadable_and_its_neighbours_are_read() -> None:
    values = [topic(number) for number in range(20)]
    values[7] = values[7].replace(b"topic", b"top\xc3c")
    values[8] = values[8].replace(b"topic", b"\xa9opic")  # joined with the name before it, it would be valid UTF-8
    image = read(*values, at_once=True)
    assert image.unreadable == 2
    assert len(image.partitions.topics) == 18
