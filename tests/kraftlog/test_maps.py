"""Mappings with views: a view does not change when the mapping is written to, and a change copies only a part of it."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.maps import FULL, FrozenMap, VersionedMap

KEYS = st.one_of(st.integers(0, 30), st.integers(0, 5).map(lambda n: n * 1024), st.text("ab", max_size=2))
STEPS = st.lists(st.tuples(st.sampled_from(["put", "put", "drop", "view"]), KEYS, st.integers(0, 9)), max_size=80)


@pytest.mark.parametrize("full", [1, 2, FULL], ids=["many buckets", "some buckets", "one bucket"])
def test_a_view_of_a_map_equals_the_dict_of_its_moment_for_ever(full: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftlog.maps.FULL", full)

    @given(STEPS)
    def check(steps: list[tuple[str, object, int]]) -> None:
        versioned: VersionedMap[object, int] = VersionedMap(lambda _, value: 1 + value)
        model: dict[object, int] = {}
        views: list[tuple[FrozenMap[object, int], dict[object, int]]] = []
        for step, key, value in steps:
            if step == "put":
                versioned.put(key, value)
                model[key] = value
            elif step == "drop":
                versioned.drop(key)
                model.pop(key, None)
            else:
                views.append((versioned.view(), dict(model)))
            assert versioned.get(key) == model.get(key)
            assert versioned.weight == sum(1 + value for value in model.values())
        for view, then in [*views, (versioned.view(), model)]:
            assert view == then == dict(view.items())
            assert view == FrozenMap(then)
            assert (len(view), sorted(view.values())) == (len(then), sorted(then.values()))
            assert (set(view), view.keys()) == (set(then), then.keys())
            assert all(view.get(key) == then.get(key) for key in (*then, "not there"))
            assert all((key in view) is (key in then) for key in (*then, *range(-1, 31), "not there"))

    check()


@given(st.integers(0, 2**20), st.sampled_from([1, 3, 256, 1000]), st.integers(FULL - 2, 3 * FULL), st.integers(2, 9))
@settings(max_examples=25)
def test_a_map_of_many_numbers_has_the_keys_of_a_dict(first: int, step: int, count: int, every: int) -> None:
    """FULL keys are the most of one bucket, so the map has one bucket or several."""
    versioned: VersionedMap[int, int] = VersionedMap(lambda _, __: 0)
    model = {first + step * n: n for n in range(count)}
    for key, value in model.items():
        versioned.put(key, value)
    for key in list(model)[::every]:
        versioned.drop(key)
        del model[key]
    for view in (versioned.view(), FrozenMap(model)):
        around = range(first - step, first + step * (count + 1), step)
        assert [key in view for key in around] == [key in model for key in around]
        assert sorted(view) == sorted(model)
        assert view.keys() == model.keys()
        assert model.keys() <= view.keys()
        assert not view.keys() - model.keys()


def test_a_small_map_keeps_the_order_of_writes() -> None:
    versioned: VersionedMap[str, int] = VersionedMap(lambda _, __: 0)
    for key in "zax":
        versioned.put(key, 1)
    assert list(versioned.view()) == ["z", "a", "x"] == list(FrozenMap({"z": 1, "a": 1, "x": 1}))


def test_a_view_cannot_be_written_to() -> None:
    view = FrozenMap({"a": 1})
    with pytest.raises(TypeError):
        view["a"] = 2  # type: ignore[index] # the refusal is what is tested
    assert view == {"a": 1}
    assert view != {"a": 2}
    assert view != FrozenMap({"a": 2})
    assert view != "a"


def test_a_change_after_a_view_takes_the_memory_of_one_bucket() -> None:
    versioned: VersionedMap[int, int] = VersionedMap(lambda _, __: 0)
    for key in range(100_000):
        versioned.put(key * 1000, key)
    whole = sys.getsizeof({key: key for key in range(100_000)})
    versioned.view()
    tracemalloc.start()
    try:
        versioned.put(5000, -1)
        assert tracemalloc.get_traced_memory()[1] < whole / 100
    finally:
        tracemalloc.stop()


def test_a_pickled_map_is_read_by_a_process_with_another_hash_seed() -> None:
    many = {f"key {n}": n for n in range(3 * FULL)}
    code = (
        "import pickle, sys; m = pickle.load(sys.stdin.buffer); print(sum(m[f'key {n}'] == n for n in range(len(m))))"
    )
    for seed in "12":
        environment = {"PYTHONPATH": str(Path(__file__).parents[2] / "operator"), "PYTHONHASHSEED": seed}
        reader = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        output, _ = reader.communicate(pickle.dumps(FrozenMap(many)))
        assert output == b"%d\n" % len(many)
