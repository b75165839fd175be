"""Kopf as the host of the process, for a user without a name: in a container it often is only a number."""

from __future__ import annotations

import os

import pytest

from tests.kafkafeatures.test_handlers import Operator, Server, event, hosted
from tests.kafkafeatures.threads import until


async def test_the_operator_runs_as_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_294_967_294)  # no /etc/passwd has it
    served, operator = Server(all=[[event("ADDED")]]), Operator()
    async with hosted(served, operator, monkeypatch):
        await until(lambda: operator.shown == ["orders"])
