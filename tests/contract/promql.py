"""Enough of Prometheus' query language to ask what an alert of the chart would do: see `test_alerts.py`.

Numbers, `time()`, metrics with selectors (`=`, `=~`), `* - == > <`, and `and`, `unless`, `or`, with `on (...)`; both
sides of a set operator or of arithmetic match by the labels of `on`, else by all. Names of metrics are no labels here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Value = float | Vector

_TOKEN = re.compile(r"\s*(time\(\)|[a-z_]+(?:\{[^}]*\})?|[0-9.]+|==|[-*<>(),])")
_LEVELS = (("or",), ("and", "unless"), ("==", ">", "<"), ("-",), ("*",))
_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {"-": lambda a, b: a - b, "*": lambda a, b: a * b}
_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "==": lambda a, b: a == b, ">": lambda a, b: a > b, "<": lambda a, b: a < b,
}  # fmt: skip


def evaluated(expression: str, samples: Mapping[str, Vector], now: float) -> Vector:
    """The series for which it holds."""
    tokens = _TOKEN.findall(expression)
    assert "".join(tokens) == re.sub(r"\s", "", expression), "something else than is understood here"

    def level(number: int) -> Value:
        if number == len(_LEVELS):
            return atom()
        left = level(number + 1)
        while tokens and tokens[0] in _LEVELS[number]:
            operator, on = tokens.pop(0), _on(tokens)
            left = _joined(operator, left, level(number + 1), on)
        return left

    def atom() -> Value:
        token = tokens.pop(0)
        if token == "(":
            inner = level(0)
            assert tokens.pop(0) == ")"
            return inner
        if token == "time()":
            return now
        return float(token) if token[0].isdigit() else _selected(token, samples)

    found = level(0)
    assert not tokens
    assert isinstance(found, dict)
    return found


def _selected(token: str, samples: Mapping[str, Vector]) -> Vector:
    name, _, selector = token.partition("{")
    wanted = re.findall(r'(\w+)=~?"([^"]*)"', selector)
    return {
        labels: value
        for labels, value in samples.get(name, {}).items()
        if all(re.fullmatch(pattern, dict(labels).get(label, "")) for label, pattern in wanted)
    }


def _on(tokens: list[str]) -> frozenset[str] | None:
    if tokens[:2] != ["on", "("]:
        return None
    end = tokens.index(")")
    names = frozenset(tokens[2:end]) - {","}
    del tokens[: end + 1]
    return names


def _joined(operator: str, left: Value, right: Value, on: frozenset[str] | None) -> Value:
    if operator in ("or", "and", "unless"):
        assert isinstance(left, dict)
        assert isinstance(right, dict)
        if operator == "or":
            return {**right, **left}
        matched = {_key(labels, on) for labels in right}
        return {labels: value for labels, value in left.items() if (_key(labels, on) in matched) is (operator == "and")}
    pairs = _pairs(left, right, on)
    if operator in _COMPARED:
        return {labels: one for labels, (one, other) in pairs.items() if _COMPARED[operator](one, other)}
    if isinstance(left, float) and isinstance(right, float):
        return _ARITHMETIC[operator](left, right)
    return {labels: _ARITHMETIC[operator](one, other) for labels, (one, other) in pairs.items()}


def _pairs(left: Value, right: Value, on: frozenset[str] | None) -> dict[Labels, tuple[float, float]]:
    if isinstance(left, float):
        return {labels: (left, other) for labels, other in right.items()} if isinstance(right, dict) else {}
    if isinstance(right, float):
        return {labels: (one, right) for labels, one in left.items()}
    others = {_key(labels, on): other for labels, other in right.items()}
    return {
        _key(labels, on): (one, others[_key(labels, on)]) for labels, one in left.items() if _key(labels, on) in others
    }


def _key(labels: Labels, on: frozenset[str] | None) -> Labels:
    return labels if on is None else frozenset(one for one in labels if one[0] in on)
