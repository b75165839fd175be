"""Output forms for people: a command's drawing on the terminal, the same as an SVG picture, or an HTML page.

Called by `describe`, `plan` and other commands with `-o svg` and `-o html`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkafeatures.cli.shell.output import HTML, SVG, console

if TYPE_CHECKING:
    from rich.console import Console


def show(form: str, draw: Callable[[Console], None], title: str, page: Callable[[], str] | None = None) -> None:
    """Call `draw` for the terminal (`table`), or write what it draws to stdout as a picture (`svg`) or a page (`html`).
    `title`: of the picture or page. `page`: makes the page instead, if the command has its own.
    """
    if form == "table":
        draw(console())
        return
    if form == HTML and page is not None:
        sys.stdout.write(page())
        return
    from kafkafeatures.cli.cluster.picture import as_html, as_svg

    sys.stdout.write((as_svg if form == SVG else as_html)(draw, title))
