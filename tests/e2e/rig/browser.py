"""A page in a real browser: its document as the browser made it, what its console says, and how it can be read.

No window of Chromium is narrower than 500 pixels, so a page of any width is shown in a frame.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any

from tests.e2e.rig.kubernetes.binaries import install_packages

PACKAGES = {"chromium": "chromium"}
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr",
)  # fmt: skip


@dataclass(frozen=True)
class Opened:
    """`document`: as HTML. `console`: a line for each message."""

    document: str
    console: tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """A page as people see it. texts: each that is visible, with its contrast to what is behind it. cut: what is wider
    than the place it has, and begins with these words.
    """

    is_dark: bool
    texts: tuple[tuple[str, float], ...]
    cut: tuple[str, ...]


COLOURS = """
const parts = colour => colour.match(/[\\d.]+/g).map(Number);
const luminance = colour => parts(colour).slice(0, 3).map(one => one / 255)
  .map(one => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
  .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
const over = (colour, below) => {
  const [alpha, under] = [parts(colour)[3] ?? 1, parts(below)];
  return `rgb(${parts(colour).slice(0, 3).map((one, at) => one * alpha + under[at] * (1 - alpha))})`;
};
const behind = element =>
  element ? over(getComputedStyle(element).backgroundColor, behind(element.parentElement)) : "rgb(255, 255, 255)";
const contrast = (colour, below) => {
  const [dark, light] = [luminance(over(colour, below)), luminance(below)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
};
"""
"""Functions for the contrast of a colour to what is behind an element (WCAG 2.2, "contrast ratio")."""
MEASURE = (
    COLOURS
    + """
const texts = [], cut = [];
for (const element of document.body.querySelectorAll("*")) {
  if (!element.checkVisibility({ checkOpacity: true, visibilityProperty: true })) continue;
  const own = [...element.childNodes].filter(one => one.nodeType === 3).map(one => one.data.trim()).join(" ").trim();
  if (own) texts.push([own, contrast(getComputedStyle(element).color, behind(element))]);
  const before = getComputedStyle(element, "::before");
  if (before.content !== "none") texts.push([before.content, contrast(before.color, behind(element))]);
  if (element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).overflowX === "auto")
    cut.push(element.innerText.slice(0, 80));
}
if (document.documentElement.scrollWidth > innerWidth) cut.push("the page");
return { is_dark: matchMedia("(prefers-color-scheme: dark)").matches, texts, cut };
"""
)
_ANSWER = """
const found = (() => { %s })();
document.body.replaceChildren(Object.assign(document.createElement("pre"), { textContent: JSON.stringify(found) }));
"""
_FRAME = """<!doctype html>
<meta name="color-scheme" content="light dark">
<iframe srcdoc="{}" style="width: {}px; height: 900px; border: 0"></iframe>
<script>onload = () => document.body.replaceChildren(frames[0].document.querySelector("pre"))</script>
"""
AS_PRINTED = """
for (const sheet of document.styleSheets) for (const rule of [...sheet.cssRules])
  if (rule.media?.mediaText === "print") for (const one of rule.cssRules)
    sheet.insertRule(one.cssText, sheet.cssRules.length);
"""
"""A script with which a page is as on paper: what its style says of print holds on the screen."""
A4 = 1047
"""Pixels from the left margin to the right one, of 1 cm each, of an A4 page in landscape."""
_POLICY = re.compile('(<meta http-equiv="Content-Security-Policy" content=")([^"]*)"')


def opened(page: Path | str, profile: Path, *, seconds: int = 0) -> Opened:
    """Open a file or an address with Chromium, in a new and empty profile. `seconds`: after so many by the page's own
    clock, which does not wait.
    """
    done = _chromium(page, profile, *([f"--virtual-time-budget={1000 * seconds}"] if seconds else []))
    return Opened(done.stdout, tuple(line for line in done.stderr.splitlines() if "CONSOLE" in line))


def shown(page: Path, profile: Path, *, width: int, is_dark: bool = False, is_printed: bool = False) -> Shown:
    """What a browser of this width, in pixels, shows; or a sheet of paper."""
    script = AS_PRINTED * is_printed + MEASURE
    found: dict[str, Any] = evaluated(page, profile, script, width=width, is_dark=is_dark)
    return Shown(found["is_dark"], tuple(map(tuple, found["texts"])), tuple(found["cut"]))


def evaluated(page: Path, profile: Path, script: str, *, width: int = 1280, is_dark: bool = False) -> Any:
    """What this script returns in the page. It opens a copy that allows this one script beside what the page allows."""
    text, count = _POLICY.subn(_with_ours, page.read_text())
    assert count == 1
    text = text.replace("</html>", f'<script nonce="ours">{_ANSWER % script}</script></html>')
    copy = profile.with_name("evaluated.html")
    copy.write_text(_FRAME.format(escape(text), width))
    scheme = f"--blink-settings=preferredColorScheme={0 if is_dark else 1}"
    done = _chromium(copy, profile, f"--window-size={width + 100},1000", "--hide-scrollbars", scheme)
    assert "CONSOLE" not in done.stderr, done.stderr
    (found,) = re.findall("<pre>(.*)</pre>", done.stdout, re.DOTALL)
    return json.loads(unescape(found))


def _with_ours(policy: re.Match[str]) -> str:
    rules = policy[2] if "script-src" in policy[2] else f"{policy[2]}; script-src"
    return f"{policy[1]}{rules} 'nonce-ours'\""


def _chromium(page: Path | str, profile: Path, *more: str) -> subprocess.CompletedProcess[str]:
    install_packages(PACKAGES)
    address = page if isinstance(page, str) else page.as_uri()
    return subprocess.run(
        ["chromium", *QUIET, *more, f"--user-data-dir={profile}", "--dump-dom", address],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
