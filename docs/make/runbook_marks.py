"""Parses the texts of runbooks: Safe, Confirm and Fix in one text, with marks such as <message> for shared passages.

Called by `runbook_texts.py`, `runbook_alerts.py` and the modules beside them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import dedent

Page = Mapping[str, str]
"""Safe, Confirm and Fix, each as Markdown."""

# mark -> passage. `|` at the begin of a line stands for a blank, so that `dedent` keeps the indentation of code.
_SHARED = {
    "<still>": r"""
        The operator sends nothing, and the cluster keeps its levels. The operator checks again at least every
        30 seconds, and continues automatically once the cause is gone.
        """,
    "<unread>": r"""
        The operator sends nothing. The facts in the status are from the last successful read. The operator retries
        at least once a minute. After you change a Secret or a ConfigMap, no restart is needed.
        """,
    "<blockers>": r"""
        List the blockers with their remedies. Nodes with the same problem share one blocker. At most 20 blockers are
        listed; `.status.blockersTotal` counts all of them:

            kubectl get kff NAME -n NS -o \
              jsonpath='{range .status.blockers[*]}{.message}{"\n  -> "}{.remedy}{"\n"}{end}'
        """,
    "<message>": r"""
        |   kubectl get kff NAME -n NS -o \
        |     jsonpath='{range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}'
        """,
    "<plan>": r"""
        |   kubectl get kff NAME -n NS -o jsonpath='{.status.plan}'
        """,
    "<go back>": "[go back](../how-to/go-back.md)",
    "<connect>": "[connect](../how-to/connect.md)",
}


def filled(text: str) -> str:
    """The text, without common indentation, and with passages in place of marks."""
    text = dedent(text).strip("\n")
    for mark, shared in _SHARED.items():
        text = text.replace(mark, re.sub(r"(?m)^\|", " ", dedent(shared)).strip("\n"))
    return text.rstrip()


def page(text: str) -> Page:
    """The page with its three parts, from a text in which each part begins with its name and a colon."""
    parts = re.split(r"(?m)^(Safe|Confirm|Fix): *", filled(text))
    return {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}
