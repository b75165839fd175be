"""Building blocks of HTML pages: the type `Html`, the style, tables, texts and times.

HTML is written as literals of `Html`; any other text that is formatted into it is escaped automatically, so that
escaping cannot be forgotten. The linter forbids `Html` of anything but a literal. Each colour has a light and a dark
value. No drawing relies on colour alone: each kind of piece has its own pattern or height.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from html import escape
from typing import Any, Self

from markupsafe import Markup

from kafkafeatures import __version__
from kafkafeatures.api.shown import time_of
from kafkafeatures.core.words import format_span, printable


class Html(Markup):
    """HTML. `format`, `join`, `replace` and `+` escape all that is not HTML, also for the value of an attribute."""

    __slots__ = ()

    @classmethod
    def escape(cls, value: Any, /) -> Self:
        """Text as HTML: without markup, and without characters that reverse the direction of a line."""
        return cls(value if isinstance(value, Markup) else escape(printable(str(value))))


BREAK = Html("<br>")
_CODE_OR_WHOLE = re.compile(
    r"`([^`]+)`|(\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?(?: UTC)?|(?:\d+-)?\d+ \((?:up to )?\d[\w.]*-IV\d+\))", re.ASCII
)
"""Groups: 1, a command in backticks; 2, a time or a level, which must stay on one line."""
_FORMS = {1: Html("<code>{}</code>"), 2: Html('<span class="whole">{}</span>')}
"""HTML for the matches, by group."""
_COMMAND = re.compile(r"`?((?:kafkafeatures [a-z]+ -|kafka-[a-z-]+\.sh --(?:add|bootstrap))[^;`]*)`?")
_POLICY = Html("default-src 'none'; style-src 'unsafe-inline'; img-src data:{}")

STYLE = Html("""
:root { color-scheme: light dark; --text: #1a1a1a; --muted: #555; --page: #fff; --line: #ccc; --box: #f4f4f4;
  --good: #0a5d24; --bad: #a11212; --wait: #7a4b00; --bar: #2b62a8;
  --good-fill: #d3ecd9; --bad-fill: #f8d5d5; --wait-fill: #f6e6c4; --none-fill: #e6e6e6; }
@media (prefers-color-scheme: dark) { :root { --text: #eee; --muted: #b5b5b5; --page: #161616; --line: #444;
  --box: #222; --good: #7fd89a; --bad: #ff9c9c; --wait: #f2c573; --bar: #7fb0ee;
  --good-fill: #173d23; --bad-fill: #571c1c; --wait-fill: #4d390f; --none-fill: #2e2e2e; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); margin: 2rem auto;
  max-width: 72rem; padding: 0 1rem; }
p, h1, h2, h3 { overflow-wrap: anywhere; }
h2 + .scroll caption { margin-top: 0; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } caption { text-align: left; color: var(--muted); margin-top: .8rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: break-word; }
.good { color: var(--good); } .bad { color: var(--bad); } .wait { color: var(--wait); } .muted { color: var(--muted); }
code { font: .9em ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; }
.at { display: block; color: var(--muted); font-size: .8rem; font-weight: normal; }
td .at { overflow-wrap: anywhere; }
summary { cursor: pointer; margin: .3rem 0; white-space: nowrap; }
.box { background: var(--box); padding: .8rem 1rem; border-radius: .4rem; }
.scroll { overflow-x: auto; }
.whole { white-space: nowrap; }
.command { display: block; margin: .3rem 0; overflow-wrap: anywhere; user-select: all; background: var(--box);
  padding: .3rem .6rem; border-radius: .3rem; }
.command span { display: inline-block; max-width: 100%; }
.good-bar { border-left: 6px solid var(--good); } .bad-bar { border-left: 6px solid var(--bad); }
.wait-bar { border-left: 6px solid var(--wait); }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(24rem, 100%), 1fr)); gap: .8rem; }
.card { border: 1px solid var(--line); border-left: 6px solid var(--bad); border-radius: .4rem; padding: .6rem 1rem; }
.card h3 { font-size: 1.05rem; margin: 0; } .card p { margin: .2rem 0; }
.card ul { margin: .4rem 0; padding-left: 1.2rem; }
.filled { display: block; padding: .15rem .5rem; border-radius: .25rem; color: var(--text); white-space: nowrap;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.filled .at { color: inherit; }
.filled.good { background: var(--good-fill); } .filled.bad { background: var(--bad-fill); font-weight: bold; }
.filled.wait { background: var(--wait-fill); } .filled.none { background: var(--none-fill); }
.matrix { width: auto; } .matrix th, .matrix td { padding: .15rem .3rem .15rem 0; vertical-align: middle; }
.matrix th { min-width: 4rem; } .matrix thead th { padding-right: .8rem; }
.matrix th:first-child { padding-right: 1.5rem; }
footer { color: var(--muted); font-size: .8rem; margin-top: 2rem; }
tbody th { min-width: 8rem; }
@media print {
  @page { size: A4 landscape; margin: 1cm; }
  body { max-width: none; margin: 0; font-size: 9pt; }
  .scroll { overflow: visible; }
  h2, caption { break-after: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; }
  .screen { display: none; }
}
@media screen and (min-width: 44.01rem) and (max-width: 66rem) {
  table { font-size: .875rem; } th, td { padding-right: .5rem; }
  .whole { white-space: normal; display: inline-block; min-width: 5.2rem; }
}
@media (max-width: 44rem) {
  body { margin: 1rem auto; }
  table, caption, thead, tbody, tr, th, td { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  th, td { border: 0; padding: .1rem 0; overflow-wrap: anywhere; }
  tbody tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
  .matrix td, .filled { display: inline-block; white-space: normal; } .matrix td { margin-right: .8rem; }
  .matrix td:empty { display: none; }
  td::before { content: attr(data-head) ": "; color: var(--muted); }
}
""")
"""On a narrow screen each cell is a line of its own, after its heading."""


def whole_page(
    title: str, sections: Iterable[Html], style: Html, script: Html | None = None, *, reload_seconds: float = 0
) -> str:
    """A complete page in one file. `sections`: empty ones are left out. `style`: added to ours. `script`: the only one
    that the page's policy allows. `reload_seconds`: if not 0, the script may read its server, and a browser without
    scripts loads the page anew so often.
    """
    allowed = (
        Html("; script-src 'sha256-{}'").format(b64encode(sha256(script.encode()).digest()).decode()) if script else ""
    )
    reload = Html('<noscript><meta http-equiv="refresh" content="{:.0f}"></noscript>\n').format(reload_seconds)
    document = Html(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n{reload}<style>{style}</style>\n</head>\n<body>\n<main>\n'
        "{main}\n</main>\n<footer>KafkaFeatures {version}</footer>\n{script}</body>\n</html>\n"
    ).format(
        title=title,
        policy=_POLICY.format(Html("; connect-src 'self'") * bool(reload_seconds) + allowed),
        reload=reload * bool(reload_seconds),
        style=STYLE + style,
        version=__version__,
        main=Html("\n").join(filter(None, sections)),
        script=Html("<script>{}</script>").format(script) if script else "",
    )
    return str(document)


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], style: str = "") -> Html:
    """A table. Cells that are not HTML are converted by `text`. `style`: CSS class of the table."""
    heads = Html().join(map(Html('<th scope="col">{}</th>').format, head))
    begins = [Html('<td data-head="{}">').format(heading) for heading in head[1:]]
    body = Html().join(
        Html('<tr><th scope="row">{}</th>{}</tr>\n').format(text(row[0]), _cells(begins, row[1:])) for row in rows
    )
    return Html(
        '<div class="scroll"><table{}><caption>{}</caption>\n<thead><tr>{}</tr></thead>\n'
        "<tbody>\n{}</tbody></table></div>"
    ).format(Html(' class="{}"').format(style) if style else "", caption, heads, body)


def _cells(begins: Sequence[Html], row: Sequence[str]) -> Html:
    """The cells of a row after its first. `begins`: their opening tags, with the heading for narrow screens."""
    end = Html("</td>")
    return Html().join(part for begin, cell in zip(begins, row, strict=True) for part in (begin, text(cell), end))


def folded(summary: str, shown: Html, *, is_open: bool = False, is_printed: bool = True) -> Html:
    """A section that opens by a click on its summary. On paper it is open, or left out if `is_printed` is False."""
    screen = "" if is_printed else Html(' class="screen"')
    html = Html("<details{}{}><summary>{}</summary>\n{}\n</details>")
    return html.format(screen, " open" * is_open, summary, shown)


def text(value: object) -> Html:
    """A value as HTML. Commands in backticks are shown as code; times and levels stay on one line. HTML is
    unchanged.
    """
    if isinstance(value, Html):
        return value
    parts = _CODE_OR_WHOLE.split(printable(str(value)))  # other text, group 1, group 2, other text, and so on
    return Html().join(
        _FORMS[number % 3].format(part) if number % 3 else part for number, part in enumerate(parts) if part
    )


def lines(values: Iterable[str]) -> Html:
    """Texts and HTML, each on a line of its own."""
    return BREAK.join(map(text, values))


def small(value: object) -> Html:
    """A remark in small print."""
    return Html('<span class="at">{}</span>').format(text(value))


def box(style: str, head: str, *details: str) -> Html:
    """A bar with a verdict and lines below it. `style`: CSS class "good", "wait" or "bad"."""
    strong = Html('<strong class="{}">{}</strong>').format(style, text(head))
    return Html('<p class="box {}-bar">{}</p>').format(style, lines((strong, *details)))


def to_copy(purpose: str, command: str) -> Html:
    """A command on a line of its own, below what it is for. A click selects all of it."""
    return Html("<p>{}:{}</p>").format(text(purpose), _command(command))


def _command(value: str) -> Html:
    """A command of which no word breaks, as behind the hyphens of a flag, unless the word is longer than a line."""
    words = Html(" ").join(map(Html("<span>{}</span>").format, value.split(" ")))
    return Html('<code class="command">{}</code>').format(words)


def filled(style: str, value: object, below: str = "") -> Html:
    """The content of a cell of a table of class `matrix`, on a ground that says what it means; its text says it too.
    `style`: "good", "bad", "wait", "none", or empty for no ground. `below`: in small print.
    """
    return Html('<span class="filled {}">{}{}</span>').format(style, text(value), small(below) if below else Html())


def remedy(value: str) -> Html:
    """Remedy as HTML: each command on a line of its own, so that it can be copied."""
    return Html().join(
        _command(part) if number % 2 else text(part.lstrip("; ")) for number, part in enumerate(_COMMAND.split(value))
    )


def time_in_log(at_ms: int) -> datetime:
    """The time stamp of a record; the start of 1970 where it is no valid date."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def day_and_time(moment: datetime | None) -> str:
    """A time as date and time of day, to the second; "?" for None."""
    if moment is None:
        return "?"
    try:
        return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except OverflowError:
        return str(moment)


def as_written(value: object) -> str:
    """A time stamp of a status or an Event in the format of the page; a text that is no time is unchanged."""
    moment = time_of(value)
    return day_and_time(moment) if moment is not None else str(value)


def lasting(seconds: float) -> str:
    """A duration for people: 0.3 s, 12 s, 4 min 12 s, 3 h 5 min, 2 d 18 h."""
    return format_span(timedelta(seconds=round(seconds))) if seconds >= 1 else f"{max(seconds, 0):.1f} s"
