"""The operator is killed at every write of the status and every eviction of a roll. Only with SOAK=1."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from tests.e2e.kubernetes.rolls.rolling import ALL, Rolling
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.kubernetes.webhook import webhook
from tests.e2e.rig.process import wait_until

STATUS, EVICTION = "status", "eviction"
RESOURCES = ("kafkafeatures/status", "pods/eviction")
SECONDS = 450
"""Time limit of the roll, in which the operator is killed and started about fifty times."""


def test_an_operator_killed_at_every_status_write_and_eviction_restarts_no_node_twice(
    rolling: Rolling, operator: Operator
) -> None:
    """The API server stores the status, or evicts the pod, but the operator is killed before it gets the answer."""
    steps = Steps(rolling, operator)
    with rolling.judged(ALL):
        until = monotonic() + SECONDS
        with webhook(rolling.plane, steps.look, user=USER, resources=RESOURCES):
            rolling.rolls("killed-at-every-step")
            while not rolling.rolled() or rolling.progress()["intents"]:
                assert monotonic() < until, rolling.progress()
                steps.die_at_the_next()
        operator.heal()
        rolling.until_rolled()
    print(f"the operator was killed at {dict(Counter(steps.killed))}")
    assert steps.pods[EVICTION] == steps.pods[STATUS] == {*ALL}


class Steps:
    """Freezes the operator before the API server processes its request, and kills it once that is processed.

    It does so once for each state of the roll: a restarted operator writes its intent again before it evicts, so if it
    was killed at that write each time, it would never evict a pod. `pods`: those that the requests were about.
    `killed`: the kind of each request at which it was killed.
    """

    def __init__(self, rolling: Rolling, operator: Operator) -> None:
        self._audit, self._operator = rolling.plane.audit, operator
        self._known: set[str] = set()
        self._frozen: SimpleQueue[tuple[str, int, datetime]] = SimpleQueue()
        self.pods: dict[str, set[str]] = {STATUS: set(), EVICTION: set()}
        self.killed: list[str] = []

    def look(self, request: dict[str, Any]) -> None:
        """Called for each request, in a thread of the webhook: freeze the operator if its state is a new one."""
        kind = request["subResource"]
        state, pods = _evicted(request) if kind == EVICTION else _written(request["object"]["status"])
        if request.get("dryRun") or state in self._known:
            return
        mark = self._audit.mark()
        self._operator.freeze()
        self._known.add(state)
        self.pods[kind] |= pods
        self._frozen.put((kind, mark, datetime.now(UTC)))

    def die_at_the_next(self) -> None:
        """Kill and start the operator at its next new state; do nothing if there is none within a second."""
        try:
            kind, mark, frozen = self._frozen.get(timeout=1)
        except Empty:
            return
        request = {"user": USER, "subresource": kind}
        wait_until("it is answered", lambda: any(row.answered >= frozen for row in self._audit.rows(mark, **request)))
        self._operator.kill()
        self.killed.append(kind)
        self._operator.start(wait=False)  # it may freeze before it is ready


def _evicted(request: dict[str, Any]) -> tuple[str, set[str]]:
    return request["object"]["deleteOptions"]["preconditions"]["uid"], {request["name"]}


def _written(status: dict[str, Any]) -> tuple[str, set[str]]:
    """The state of the roll in a status, without times, which change by themselves; and the pods of its intents."""
    intents = status.get("intents") or []
    conditions = [(one["type"], one["status"], one["reason"]) for one in status.get("conditions", ())]
    done = (status.get("rollout") or {}).get("done")
    return json.dumps([intents, conditions, done], sort_keys=True), {one["target"] for one in intents}
