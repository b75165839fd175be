"""Texts of a simulated cluster on standard output: JSON lines for programs, sentences for people.

Called by `__main__` when the cluster runs, and for each control request.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Protocol

from kafkasim.control import FORMS, ROLES

HELP = "".join(
    f"{form:<26}{explanation}\n"
    for form, explanation in (FORMS | {"help": f"these lines; {ROLES}; Ctrl-C ends the cluster"}).items()
)


class Dialogue(Protocol):
    """What a simulated cluster prints."""

    def greet(self, greeting: dict[str, Any]) -> None:
        """Print that all ports are open. greeting: `bootstrapServers`, `bootstrapControllers`, `nodes`, `clusterId`."""

    def explains(self, request: str) -> bool:
        """Print an explanation if the request asks for it; False for any other request."""

    def answer(self, request: str, error: str) -> None:
        """Print that a request is done, or, if `error` is not empty, why it is refused."""


class JsonLines:
    """A JSON object in each line, with `simulated`."""

    def greet(self, greeting: dict[str, Any]) -> None:
        _write(json.dumps(greeting) + "\n")

    def explains(self, request: str) -> bool:
        return False

    def answer(self, request: str, error: str) -> None:
        outcome: dict[str, Any] = {"error": error} if error else {"done": True}
        _write(json.dumps({"simulated": True, "request": request, **outcome}) + "\n")


class Sentences:
    """Sentences, and a prompt if a person can type."""

    def __init__(self, *, has_prompt: bool) -> None:
        self._prompt = "> " if has_prompt else ""

    def greet(self, greeting: dict[str, Any]) -> None:
        _write(
            f"A SIMULATED cluster of {greeting['nodes']} nodes runs on 127.0.0.1; no Kafka. In another terminal:\n\n"
            f"    kafkafeatures describe --bootstrap-server {greeting['bootstrapServers'].partition(',')[0]}\n\n"
            f"Here, change the cluster; `help` lists how. Ctrl-C ends it.\n{self._prompt}"
        )

    def explains(self, request: str) -> bool:
        if request not in ("help", "?", ""):
            return False
        _write((HELP if request else "") + self._prompt)
        return True

    def answer(self, request: str, error: str) -> None:
        _write(f"{error or 'done'}\n{self._prompt}")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
