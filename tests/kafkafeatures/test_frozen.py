"""Our `dataclass` and the standard one make classes that behave the same."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from kafkafeatures import frozen

T = TypeVar("T")
Decorator = Callable[..., Callable[[type], Any]]
OURS: Decorator = frozen.dataclass
STANDARD: Decorator = dataclasses.dataclass


def made_by(dataclass: Decorator) -> dict[str, Any]:
    @dataclass(frozen=True, slots=True)
    class Plain:
        name: str
        level: int = 0
        notes: Mapping[str, int] = field(default_factory=dict)
        KIND: ClassVar[str] = "plain"

        def __post_init__(self) -> None:
            if self.level < 0:
                raise ValueError("below zero")

        @property
        def shown(self) -> str:
            return f"{self.name} {self.level}"

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Keywords:
        name: str
        at: int = field(default=0, compare=False)
        secret: str = field(default="", repr=False)

    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    @dataclass(frozen=True, slots=True)
    class Child(Plain):
        more: tuple[int, ...] = ()

        def __repr__(self) -> str:
            return "Child(...)"

    @dataclass(frozen=True, slots=True)
    class Equal:  # noqa: PLW1641 - its hash is made
        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Equal) and self.name.lower() == other.name.lower()

    @dataclass(frozen=True, slots=True)
    class Of(Generic[T]):
        value: T

    @dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        level: int

    return {one.__name__: one for one in (Plain, Keywords, Empty, Child, Equal, Of, Ordered)}


def seen(attempt: Callable[[dict[str, Any]], Any], classes: dict[str, Any]) -> object:
    try:
        found = attempt(classes)
    except (TypeError, ValueError, AttributeError) as error:
        return type(error)
    return repr(found) if dataclasses.is_dataclass(found) else found


ATTEMPTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "by position": lambda c: c["Plain"]("a", 1),
    "by name": lambda c: c["Plain"](name="a", notes={"b": 1}),
    "a default of its own": lambda c: c["Plain"]("a").notes is c["Plain"]("a").notes,
    "a field too few": lambda c: c["Plain"](),
    "a field too many": lambda c: c["Plain"]("a", 1, {}, 2),
    "an unknown field": lambda c: c["Plain"]("a", x=1),
    "what a check refuses": lambda c: c["Plain"]("a", -1),
    "keywords by position": lambda c: c["Keywords"]("a"),
    "keywords": lambda c: c["Keywords"](name="a", secret="s"),
    "nothing": lambda c: c["Empty"](),
    "equal": lambda c: c["Plain"]("a", 1) == c["Plain"]("a", 1),
    "not equal": lambda c: c["Plain"]("a", 1) == c["Plain"]("a", 2),
    "of another class": lambda c: c["Plain"]("a", 1) == c["Child"]("a", 1),
    "empty ones are equal": lambda c: c["Empty"]() == c["Empty"](),
    "not compared": lambda c: c["Keywords"](name="a", at=1) == c["Keywords"](name="a", at=2),
    "an equality of its own": lambda c: c["Equal"]("A") == c["Equal"]("a"),
    "equal ones have one hash": lambda c: len({c["Keywords"](name="a", at=1), c["Keywords"](name="a", at=2)}),
    "a hash beside an equality of its own": lambda c: len({c["Equal"]("a"), c["Equal"]("a")}),
    "no hash": lambda c: hash(c["Plain"]("a")),
    "an heir": lambda c: c["Child"]("a", 1, {}, (1,)).more,
    "a repr of its own": lambda c: c["Child"]("a"),
    "replaced": lambda c: dataclasses.replace(c["Plain"]("a", 1), level=2),
    "replaced by what a check refuses": lambda c: dataclasses.replace(c["Plain"]("a", 1), level=-2),
    "its fields": lambda c: [(one.name, one.default, one.kw_only) for one in dataclasses.fields(c["Keywords"])],
    "as a mapping": lambda c: dataclasses.asdict(c["Plain"]("a", 1)),
    "what it matches": lambda c: c["Plain"].__match_args__,
    "its slots": lambda c: c["Child"].__slots__,
    "no other attribute": lambda c: object.__setattr__(c["Plain"]("a"), "x", 1),
    "a property": lambda c: c["Plain"]("a", 1).shown,
    "generic": lambda c: c["Of"](1),
    "ordered": lambda c: c["Ordered"](1) < c["Ordered"](2),
    "copied": lambda c: copy.deepcopy(c["Plain"]("a", 1, {"b": 1})) == c["Plain"]("a", 1, {"b": 1}),
    "changed": lambda c: setattr(c["Plain"]("a"), "name", "b"),
    "deleted": lambda c: delattr(c["Plain"]("a"), "name"),
}


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
def test_a_class_behaves_as_if_the_standard_library_had_made_it(attempt: Callable[[dict[str, Any]], Any]) -> None:
    assert seen(attempt, made_by(OURS)) == seen(attempt, made_by(STANDARD))


def test_what_is_frozen_says_so_and_stays_as_it_was() -> None:
    one = made_by(OURS)["Plain"]("a", 1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'level'"):
        one.level = 2
    assert one.level == 1


@frozen.dataclass(frozen=True, slots=True)
class Pickled:
    name: str
    levels: tuple[int, ...] = ()


def test_what_is_frozen_can_be_pickled() -> None:
    one = Pickled("a", (1, 2))
    assert pickle.loads(pickle.dumps(one)) == one


def test_no_frozen_class_of_a_command_is_made_the_slow_way() -> None:
    """Each costs a third of a millisecond, and there are a hundred."""
    code = """
import dataclasses, kafkafeatures.cli.apply, kafkafeatures.cli.describe, sys
modules = [module for name, module in sys.modules.items() if name.startswith("kafkafeatures.")]
classes = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
ours = [one for one in classes if dataclasses.is_dataclass(one) and one.__module__.startswith("kafkafeatures.")]
flags = [(one, one.__dataclass_params__) for one in ours]
print(len(ours) > 50, *(one for one, made in flags if made.frozen and not made.order))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
