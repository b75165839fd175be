"""A resource in sync reads only the metadata log until the log, its document or its Secret changes, or its period is
over.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.reconcile.pauses import CHECK_EVERY
from tests.kafkafeatures.reconcile.rig import Kafka, Rig, nothing
from tests.simulated.orders import KEY, Orders
from tests.simulated.requests import Request


def watched(rig: Rig) -> None:
    """Let the watch show the current version of the resource."""
    rig.watched = rig.api.object["metadata"]["resourceVersion"]


async def settled(**cluster: Any) -> tuple[Rig, list[str]]:
    """Return a resource in sync with a watch, whose cluster's log does not change, and the list of its later requests
    to the API server. `looks`, the number of full readings of the cluster, is 1.
    """
    requests: list[str] = []

    def note(request: Request) -> None:
        requests.append(f"{request.method} {request.path.rpartition('/')[2]}")

    rig = Rig(Orders(**cluster), Kafka({"metadata.version": 27}))
    rig.api.server.put(
        KEY.namespace,
        "secrets",
        "login",
        labels={"kafkafeatures.dev/credentials": "true"},
        data={"username": "YQ==", "password": "Yg=="},
    )
    rig.api.faults = note
    assert await rig.work() == CHECK_EVERY
    watched(rig)
    rig.kafka.same = True
    requests.clear()
    return rig, requests


async def test_a_resource_in_sync_reads_only_the_metadata_log() -> None:
    rig, requests = await settled(sasl={"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "login"}})
    for _ in range(8):  # `work` lets the pause of 60 s pass: 540 s since the full reading, with the first one
        assert await rig.work() == CHECK_EVERY
    assert (requests, rig.kafka.looks) == ([], 1)
    rig.seconds += 120.0
    await rig.work()
    assert (requests, rig.kafka.looks) == (["GET orders", "GET login"], 2)  # after the period of a full reading


async def test_a_resource_in_sync_is_read_again_once_a_watch_shows_a_change() -> None:
    rig, requests = await settled()
    rig.api.edit(mode="Observe")
    watched(rig)
    await rig.work()
    assert requests[0] == "GET orders"
    assert rig.kafka.looks == 2


async def test_a_new_annotation_makes_a_resource_in_sync_read_its_rotated_secret_at_once() -> None:
    rig, requests = await settled(sasl={"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "login"}})
    rig.api.server.edit(*KEY, lambda manifest: manifest["metadata"].update(annotations={"example.com/rotated": "1"}))
    watched(rig)
    await rig.work()
    assert (requests, rig.kafka.looks) == (["GET orders", "GET login"], 2)


async def test_without_a_watch_a_resource_in_sync_is_fetched_each_time_and_its_nodes_are_not_read() -> None:
    rig, requests = await settled()
    rig.watched = ""
    await rig.work()
    assert (requests, rig.kafka.looks) == (["GET orders"], 1)


async def test_a_resource_in_sync_is_read_again_once_the_metadata_log_has_changed() -> None:
    rig, requests = await settled()
    rig.kafka.same = False
    await rig.work()
    assert (requests, rig.kafka.looks) == (["GET orders"], 2)


@pytest.mark.parametrize(("mode", "looks"), [("Apply", 2), ("Observe", 1)])
async def test_a_resource_in_sync_notices_an_older_resource_of_its_cluster(mode: str, looks: int) -> None:
    rig, _ = await settled()
    rig.api.edit(mode=mode)
    watched(rig)
    await rig.work()
    watched(rig)
    rig.kafka.looks = 1
    older = {"namespace": "a", "name": "older", "uid": "o", "creationTimestamp": "2020-01-01T00:00:00Z"}
    rig.claims.note({"metadata": older, "status": {"clusterId": rig.kafka.world.cluster_id}})
    await rig.work()
    assert rig.kafka.looks == looks
    assert (rig.api.condition("Ready")["reason"] == "DuplicateOwner") == (mode == "Apply")


async def test_a_resource_in_sync_sends_no_request_when_woken_too_early() -> None:
    rig, requests = await settled()
    rig.seconds -= 10.0  # it is woken 10 s before it is due
    assert await rig.controller.reconcile(KEY) == 10.0
    assert (requests, rig.kafka.looks) == ([], 1)


async def test_a_resource_in_sync_is_read_again_after_a_restore_of_etcd() -> None:
    rig, requests = await settled()
    rig.controller.discard_versions()
    await rig.work()
    assert (requests, rig.kafka.looks) == (["GET orders"], 2)


@pytest.mark.parametrize("is_watched", [True, False], ids=["with a watch", "without a watch"])
async def test_a_resource_in_sync_is_read_again_after_a_restore_of_etcd_during_the_check_of_the_log(
    is_watched: bool,
) -> None:
    rig, _ = await settled()
    rig.watched = rig.watched if is_watched else ""
    rig.kafka.during_question = rig.controller.discard_versions
    await rig.work()
    assert rig.kafka.looks == 2


async def test_a_resource_read_before_a_restore_of_etcd_does_not_count_as_in_sync() -> None:
    rig = Rig(Orders(), Kafka({"metadata.version": 27}))
    await rig.work()
    rig.kafka.during_look = rig.controller.discard_versions
    await rig.work()
    watched(rig)
    rig.kafka.during_look, rig.kafka.same = nothing, True
    await rig.work()
    assert rig.kafka.looks == 3
