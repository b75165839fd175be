"""The frame of a live page: how old its reading is, and the script that brings a newer one.

Pure. The script reads the same address again, and replaces only the parts of the page that differ, so that a reader
keeps his place and his selection, and folded sections stay as they are. Hidden tabs do not read.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from kafkafeatures.cli.serve.live import EVERY, LatestReading
from kafkafeatures.cli.shell.html_parts import Html, day_and_time, lasting, text, whole_page

_STYLE = Html("""
nav a, th a { color: var(--bar); }
""")
_SCRIPT = Html("""
const main = document.querySelector("main"), away = document.createElement("p"), EVERY = 5000;
let parts = [...main.children].map(part => part.outerHTML), failed = "";
Object.assign(away, { className: "box bad", id: "away", hidden: true });
main.before(away);
const folds = part => [part, ...part.querySelectorAll("details")].filter(one => one.matches("details"));
const show = page => {
  const next = [...page.querySelector("main").children], texts = next.map(part => part.outerHTML);
  next.forEach((part, at) => {
    const old = main.children[at];
    if (!old) return main.append(part);
    if (texts[at] === parts[at]) return;
    const were = folds(old);
    folds(part).forEach((one, number) => { if (were[number]) one.open = were[number].open; });
    old.replaceWith(part);
  });
  while (main.children.length > next.length) main.lastElementChild.remove();
  parts = texts;
  document.title = page.title;
};
const reload = async () => {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.pathname, { cache: "no-store", signal: AbortSignal.timeout(20000) });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    failed = "";
  } catch (error) {
    failed = failed || new Date().toISOString().slice(11, 19) + " UTC";
    away.textContent = `Not updated since ${failed}: ${error.message}. This is the last picture.`;
  }
  away.hidden = !failed;
};
const again = () => setTimeout(() => reload().finally(again), EVERY);
document.addEventListener("visibilitychange", reload);
again();
""")


def live_page(
    title: str,
    reading: LatestReading[Any],
    sections: Iterable[Html],
    style: Html,
    *,
    current_time: datetime,
    back: str = "",
) -> str:
    """A page that stays up to date. `reading`: of which it is made. `back`: relative address of the page above it."""
    nav = Html('<nav><a href="{}">All resources</a></nav>').format(back) if back else Html()
    return whole_page(
        f"{title} - KafkaFeatures",
        (nav, age_of(reading, current_time), *sections),
        _STYLE + style,
        _SCRIPT,
        reload_seconds=EVERY,
    )


def age_of(reading: LatestReading[Any], current_time: datetime) -> Html:
    """Line with the time of the reading; if later readings failed, a box that says since when and why."""
    if not reading.failure:
        return Html('<p class="muted">Live, read-only. Read at {}.</p>').format(text(day_and_time(reading.read_at)))
    age = ""
    if reading.read_at is not None:
        seconds = (current_time - reading.read_at).total_seconds()
        age = f"What follows was read at {day_and_time(reading.read_at)}, {lasting(seconds)} ago."
    return Html('<p class="box"><strong class="bad">Not read since {}</strong><br>{}<br>{}</p>').format(
        text(day_and_time(reading.failing_since)), text(reading.failure), text(age)
    )
