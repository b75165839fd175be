"""The query API of a Prometheus: instant and range queries, their answers decoded and checked.

The transport is injected, and holds the limits of bytes and time (`http.py`). What it decides: an answer with a warning
is refused, for it may be a part of the answer, and a part proves nothing. https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from kafkafeatures.core.words import printable

MAX_TEXT = 200
"""Characters of a message of the server that are shown."""


class PrometheusFailed(Exception):
    """No usable answer: one line with the cause, and what to do where that is known."""


class HttpAnswer(Struct, frozen=True):
    """An answer as a transport returns it, whole."""

    status: int
    content_type: str
    body: bytes
    location: str = ""


Transport = Callable[[str, bytes], HttpAnswer]
"""Posts a form to a path below the address of the server. Raises PrometheusFailed."""
Labels = Mapping[str, str]


class Series(Struct, frozen=True):
    """A series, and its samples: the time in ms and the value."""

    labels: Labels
    samples: Sequence[tuple[int, float]]


class _Series(Struct, frozen=True):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []
    value: tuple[float, str] | None = None


class _Data(Struct, frozen=True, rename="camel"):
    result_type: str
    result: list[_Series]


class _Answer(Struct, frozen=True, rename="camel"):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] = []


_DECODER = msgspec.json.Decoder(_Answer)
_HINTS = {401: "check the credentials", 403: "check the rights of the user", 404: "check the path of the URL"}


class PrometheusApi:
    """Queries to one server. Each raises PrometheusFailed."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def query(self, expression: str, time: int) -> list[Series]:
        """The series of an expression at a time in ms: each with one sample, or with all of a range selector."""
        return self._ask("query", {"query": expression, "time": _seconds(time)}, ("vector", "matrix"))

    def query_range(self, expression: str, begin: int, end: int, step: int) -> list[Series]:
        """The series of an expression at each step from one time to another, all in ms."""
        times = {"start": _seconds(begin), "end": _seconds(end), "step": _seconds(step)}
        return self._ask("query_range", {"query": expression, **times}, ("matrix",))

    def _ask(self, action: str, form: Mapping[str, str], types: Sequence[str]) -> list[Series]:
        answer = self._transport(f"/api/v1/{action}", urlencode(form).encode())
        if 300 <= answer.status < 400:
            raise PrometheusFailed(f"redirects to {_shown(answer.location)!r}: use the URL of the server itself")
        if answer.content_type.partition(";")[0].strip().lower() != "application/json":
            problem = f"answers {answer.status}" if answer.status != 200 else "answers with something else than JSON"
            raise PrometheusFailed(f"{problem}: {_HINTS.get(answer.status, 'is it the URL of a Prometheus?')}")
        try:
            decoded = _DECODER.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problem = "answers with JSON of another shape than the query API has"
            raise PrometheusFailed(f"{problem}: {_shown(str(error))}") from None
        if answer.status != 200 or decoded.status != "success":
            raise PrometheusFailed(f"answers {answer.status}: {_shown(decoded.error) or 'without a reason'}")
        if decoded.warnings:
            text = _shown(decoded.warnings[0])
            raise PrometheusFailed(f"warns that its answer may be a part: {text}; a part proves nothing")
        if decoded.data is None or decoded.data.result_type not in types:
            raise PrometheusFailed(f"answers with something else than a {types[0]}")
        return [_series(series) for series in decoded.data.result]


def _series(series: _Series) -> Series:
    samples = series.values if series.value is None else [series.value]
    try:
        return Series(series.metric, [(round(time * 1000), float(value)) for time, value in samples])
    except (ValueError, OverflowError):
        raise PrometheusFailed("answers with something else than numbers in a sample") from None


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03}"


def _shown(text: str) -> str:
    return printable(text)[:MAX_TEXT]
