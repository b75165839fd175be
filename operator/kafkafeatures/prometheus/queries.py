"""PromQL expressions that fetch evidence, and the check of a user's selector, which becomes a part of them.

Pure. A range selector has the samples of scrapes as
they are, with their times, whatever the lookback of the server is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kafkafeatures.core.clients.exporters import (
    CANARY,
    EXPORTER,
    FAMILIES,
    PURGATORY,
    REQUESTS,
    SCRAPE_ERROR,
    START_UNITS,
    TOTAL,
    WITHOUT_RULES,
    ZOOKEEPER,
)
from kafkafeatures.prometheus.api import Labels

EXPOSED = "scrape_samples_scraped"
"""Number of samples in the answer of a target, which Prometheus writes down at each scrape."""
_MATCHER = r'\s*(?!(?:__name__|request|version|name)\b)[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*"\s*'
"""A matcher, of any label but those of metrics."""
_SELECTOR = re.compile(f"(?:{_MATCHER}(?:,{_MATCHER})*)?")
_ID = "id"
"""Label that Kafka itself gives `app-info`."""


def is_selector(text: str) -> bool:
    """True if a text is a list of matchers of a target's labels, such as `namespace="kafka",job="brokers"`. Matchers of
    a metric's name or labels are refused, since they would hide counters.
    """
    return _SELECTOR.fullmatch(text) is not None


def starts(selector: str) -> str:
    """Start times of processes, of targets that have request counters at the same time."""
    counters = _of_names(FAMILIES, f'request=~"{CANARY}.*"', selector)
    return (
        f"{_of_names(START_UNITS, selector)} and ignoring ({_ID}) count without (request, version, name) ({counters})"
    )


def counters(selector: str, apis: Iterable[str], span: str) -> str:
    """The latest counters of these APIs within a span before each time, and maybe of others whose names
    begin with these.
    """
    requests = f'request=~"({"|".join(sorted(apis))}).*"'  # some rules leave the version in this label, too
    with_rules = _of_names(FAMILIES - {WITHOUT_RULES}, requests, selector)
    without_rules = _of_names((WITHOUT_RULES,), f'name="{REQUESTS}"', requests, selector)
    return f"last_over_time({with_rules}[{span}]) or last_over_time({without_rules}[{span}])"


def named(name: str, target: Labels, span: str) -> str:
    """The samples of a metric of a target within a span."""
    return f'{{__name__="{_quoted(name)}"{_exactly(target)}}}[{span}]'


def scrapes(target: Labels, span: str) -> str:
    """The samples of a target within a span that evidence is made of."""
    names = (*FAMILIES, *START_UNITS, EXPORTER, SCRAPE_ERROR, TOTAL, f"{PURGATORY}.*", f"{ZOOKEEPER}.*", EXPOSED)
    return f"{_of_names(names, _exactly(target)[1:])}[{span}]"  # [1:]: without the first comma


def stored(target: Labels) -> str:
    """The number of the target's own samples within a second, without those that Prometheus adds to each scrape."""
    return f'count(last_over_time({{__name__!~"up|scrape_.*"{_exactly(target)}}}[1s]))'


def _of_names(names: Iterable[str], *matchers: str) -> str:
    """A selector of metrics by their names, in any case: exporters write them in small letters or as Kafka does."""
    alternatives = "|".join(sorted(names))
    return "{" + ",".join([f'__name__=~"(?i:{alternatives})"', *filter(str.strip, matchers)]) + "}"


def _exactly(target: Labels) -> str:
    """Matchers of all labels of a target, each after a comma."""
    return "".join(f',{name}="{_quoted(value)}"' for name, value in sorted(target.items()))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
