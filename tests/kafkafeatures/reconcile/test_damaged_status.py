"""A status that a person damaged in any way: no reconciliation raises an exception, and the status is repaired."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, cast

from hypothesis import example, given
from hypothesis import strategies as st

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.api.status import read_status
from kafkafeatures.app import real_evidence
from kafkafeatures.core.engine.steps import OutcomeUnknown
from kafkafeatures.core.report.conditions import MAX_MESSAGE
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.metrics import Metrics
from kafkafeatures.reconcile.claims import Claims
from kafkafeatures.reconcile.controller import Controller
from kafkafeatures.reconcile.operator_context import OperatorContext
from tests.kafkafeatures.reconcile.rig import Kafka
from tests.kafkafeatures.worlds import NOW
from tests.simulated import schema
from tests.simulated.orders import KEY, Orders

Path = tuple[str | int, ...]
BOTH = {"levels": [{"name": "metadata.version", "level": 27}, {"name": "group.version", "level": 0}]}


async def written_by_the_operator() -> dict[str, Any]:
    """Return a status with every kind of content: a plan half done, an intent, history, blockers, a used consent."""
    api, kafka = Orders(), Kafka({"metadata.version": 21, "group.version": 1})
    api.edit(suspend=True)
    controller = controller_of(api, kafka)
    await controller.reconcile(KEY)  # the first contact: a consent that is added later counts
    api.edit(features=BOTH, consents=["group.version:1->0"], suspend=False)
    kafka.outcomes = [None, OutcomeUnknown("EOF")]
    for _ in range(2):
        await controller.reconcile(KEY)
    status = api.status
    assert {"intents", "history", "plan", "spentConsents", "features", "conditions", "clusterId"} <= set(status)
    status["blockers"] = [{"kind": "NodeRange", "nodeId": 1, "message": "m", "remedy": "r"}]
    status["blockersTotal"] = 1
    return status


def controller_of(api: Orders, kafka: Kafka) -> Controller:
    environment = Environment(lambda: NOW, lambda: 0.0, sleep=kafka.sleep)
    context = OperatorContext(
        environment, OperatorIdentity("", "operator", "test"), AddressPolicy(), real_evidence(SYSTEM)
    )
    return Controller(
        api.client(), Claims(monotonic=SYSTEM.monotonic), lambda settings: kafka, context, Metrics(environment=SYSTEM)
    )


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Return the paths of everything in a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from places(item, (*path, key))


STATUS = asyncio.run(written_by_the_operator())
WORDS = st.sampled_from(
    ["", "f 0 -> 1", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "-1", "x" * 9000]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["at", "name", "steps", "x"]), inner),
    max_leaves=5,
)  # fmt: skip
DAMAGE = st.lists(
    st.tuples(st.sampled_from(list(places(STATUS))), st.sampled_from(["replaced", "removed", "twice"]), JSON),
    min_size=1, max_size=3,
)  # fmt: skip


def damaged(damage: list[tuple[Path, str, Any]]) -> dict[str, Any]:
    status = json.loads(json.dumps(STATUS))
    for path, how, value in damage:
        holder = status
        try:
            for key in path[:-1]:
                holder = holder[key]
            if how == "removed":
                del holder[path[-1]]
            elif how == "twice" and isinstance(holder, list):
                holder.append(holder[path[-1]])  # type: ignore[index]
            else:
                holder[path[-1]] = value
        except (TypeError, KeyError, IndexError):
            continue  # an earlier damage has removed this path
    return cast(dict[str, Any], status)


@given(DAMAGE, st.booleans())
@example([(("intents", 0, "target"), "replaced", ["group.version"])], False)
@example([(("intents", 0, "before"), "replaced", 1.5)], False)
@example([(("clusterId",), "replaced", ["cluster-1"])], False)
@example([(("conditions", 0, "message"), "removed", None)], True)
@example([(("conditions", 0, "message"), "replaced", {"a": 1})], True)
@example([(("plan", "stages", 0), "replaced", "f 0 -> 1")], False)
@example([(("history", 0, "result"), "replaced", ["Applied"])], False)
@example([(("intents", 0, "kind"), "replaced", [])], False)
@example([(("intents", 0, "via"), "replaced", [])], False)
def test_no_damaged_status_stops_a_reconciliation(damage: list[tuple[Path, str, Any]], away: bool) -> None:
    async def reconciled() -> dict[str, Any]:
        api, kafka = Orders(), Kafka({"metadata.version": 27, "group.version": 1})
        api.edit(features=BOTH)
        api.server.schema = schema.open_status()
        api.edit_status(lambda status: status.update(damaged(damage)))
        kafka.away = away
        controller = controller_of(api, kafka)
        for _ in range(3):
            pause = await controller.reconcile(KEY)
            assert pause is not None
            api.edit()
        return api.status

    status = asyncio.run(reconciled())
    assert read_status(status)[1] == ()
    assert len(json.dumps(status)) < 32 * 1024
    assert all(len(condition["message"].encode()) <= MAX_MESSAGE for condition in status["conditions"])
