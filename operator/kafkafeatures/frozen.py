"""`dataclass`, made in a third of the time: a command makes a hundred frozen classes before it does anything.

The standard one compiles six functions for each of them, which took a sixth of `apply`. Here only `__init__` is
compiled; the others are closures. The standard one still finds the fields and makes the slots, and it makes whatever is
not `frozen=True, slots=True` alone. A class behaves the same (`tests/kafkafeatures/test_frozen.py` holds the two
against each other). Every module of this package takes it from here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

_set = object.__setattr__

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - what it is to who checks types
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """As `dataclasses.dataclass`."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        if options.keys() - {"kw_only"} != {"frozen", "slots"} or not all(options.values()):
            return dataclasses.dataclass(**options)(cls)
        own = {name for name, value in vars(cls).items() if value is not None}  # `__hash__`, beside an `__eq__`
        cls.__doc__ = cls.__doc__ or cls.__name__  # else the standard one would take pains to show the signature
        options.pop("frozen")
        made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, **options)
        for name, method in _methods(made).items():
            if name not in own:
                setattr(made, name, method)
        return made


def _methods(cls: Any) -> dict[str, Any]:
    known = dataclasses.fields(cls)
    compared = _values([one.name for one in known if one.compare])

    def equal(self: Any, other: Any) -> Any:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def shown(self: Any) -> str:
        values = (f"{one.name}={getattr(self, one.name)!r}" for one in known if one.repr)
        return f"{type(self).__qualname__}({', '.join(values)})"

    return {
        "__init__": _init(cls, known),
        "__eq__": equal,
        "__hash__": lambda self: hash(compared(self)),
        "__repr__": shown,
        "__setattr__": _refuse,
        "__delattr__": _refuse,
        "__setstate__": _restore,
    }


def _values(names: list[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else lambda _: ()


def _init(cls: Any, known: tuple[Field[Any], ...]) -> Any:
    """The only one that is compiled: a call is checked against its signature, and objects are made all the time."""
    positional, keywords, body = ["self"], list[str](), list[str]()
    scope: dict[str, Any] = {"_set": _set, "_MISSING": MISSING}
    for one in known:
        parameter = value = one.name
        if one.default is not MISSING:
            scope[f"_default_{one.name}"] = one.default
            parameter = f"{one.name}=_default_{one.name}"
        elif one.default_factory is not MISSING:
            scope[f"_make_{one.name}"] = one.default_factory
            parameter = f"{one.name}=_MISSING"
            value = f"_make_{one.name}() if {one.name} is _MISSING else {one.name}"
        (keywords if one.kw_only else positional).append(parameter)
        body.append(f" _set(self, {one.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    signature = ", ".join([*positional, *(["*", *keywords] if keywords else [])])
    exec("\n".join([f"def __init__({signature}):", *body, " return"]), scope)  # noqa: S102 - of names in our sources
    made = scope["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _refuse(_: Any, name: str, *__: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _restore(self: Any, state: Any) -> None:
    """Of a copy, or a pickle."""
    for name, value in state[1].items():
        _set(self, name, value)
