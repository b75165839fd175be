"""The operator's controller between a simulated API server and a simulated cluster: connections, Events, metrics,
retries.
"""

from __future__ import annotations

import threading
from base64 import b64encode
from functools import partial
from typing import Any

import pytest
from prometheus_client import generate_latest

from kafkafeatures.core.engine.steps import Applied, NotSent, Outcome, OutcomeUnknown, Rejected
from kafkafeatures.kafka.wire import tls
from kafkafeatures.kafka.wire.pem import Tls
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.reconcile.claims import SENT_DIRECTLY_FOR
from kafkafeatures.reconcile.connections import LONGEST_REQUEST
from kafkafeatures.reconcile.pace import BURST, REFILL_SECONDS
from kafkafeatures.reconcile.pauses import CHECK_EVERY, SLOWEST_WAIT
from tests.e2e.rig.certificates import Certificates
from tests.kafkafeatures.reconcile.rig import Rig
from tests.simulated.orders import KEY, Orders

CERTIFICATES = Certificates()


async def test_an_unreadable_secret_is_reported_in_the_status() -> None:
    api = Orders(tls={"caSecretRef": {"name": "ca"}})
    api.server.forbidden.add("secrets")
    assert await Rig(api).controller.reconcile(KEY)
    assert api.condition("Reachable")["reason"] == "CredentialsInvalid"
    assert "allow its ServiceAccount to get secrets in the namespace kafka" in api.condition("Ready")["message"]


async def test_a_rotated_secret_is_picked_up_at_the_next_reconciliation() -> None:
    """A cluster is connected to anew only if the password is another one."""
    api = Orders(sasl={"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "login"}})
    rig = Rig(api)
    rig.kafka.away = True  # no answer is needed, only the settings of the connection
    connections = []  # (clusters opened so far, password of the last, clusters closed so far)
    for password in ("first", "first", "second"):
        login = {"username": "orders", "password": password}
        data = {name: b64encode(text.encode()).decode() for name, text in login.items()}
        labels = {"kafkafeatures.dev/credentials": "true"}
        api.server.put(KEY.namespace, "secrets", "login", labels=labels, data=data)
        await rig.work()
        sasl = rig.opened[-1].brokers.sasl
        assert sasl is not None
        connections.append((len(rig.opened), sasl.password, rig.kafka.closed))
    assert connections == [(1, "first", 0), (1, "first", 0), (2, "second", 1)]


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (
            {"bootstrapServers": "kafka"},
            "spec.cluster.bootstrapServers: invalid address 'kafka': expected host:port",
        ),
        (
            {"bootstrapControllers": "quorum:0"},
            "spec.cluster.bootstrapControllers: invalid address 'quorum:0': expected a port from 1 to 65535",
        ),
        (
            {"bootstrapServers": "kafka", "bootstrapControllers": "u:canary@quorum:9093"},
            "spec.cluster.bootstrapServers: invalid address 'kafka': expected host:port; "
            "spec.cluster.bootstrapControllers: invalid address: it contains a user; expected host:port",
        ),
        (
            {"bootstrapServers": "kafka:9092", "zookeeper": {"connect": "zk-1:2181,zk-2/kafka"}},
            "spec.cluster.zookeeper.connect: invalid address 'zk-2': expected host:port",
        ),
        (
            {"bootstrapServers": ",,,"},
            "spec.cluster: bootstrapServers and bootstrapControllers are empty; expected host:port",
        ),
    ],
    ids=["no port", "port 0", "no port, and a user", "ZooKeeper without a port", "empty"],
)
async def test_an_invalid_bootstrap_address_is_rejected_before_any_secret_is_read(
    cluster: dict[str, Any], words: str
) -> None:
    rig = Rig(Orders(tls={"caSecretRef": {"name": "ca"}}, **cluster))
    assert await rig.controller.reconcile(KEY) == CHECK_EVERY
    stalled = rig.api.condition("Stalled")
    assert (stalled["status"], stalled["reason"], stalled["message"]) == ("True", "InvalidSpec", words)
    assert rig.api.condition("Ready")["reason"] == "InvalidSpec"
    assert not rig.opened


async def test_the_log_recorder_is_notified_of_each_reconciliation_and_of_the_deletion() -> None:
    api = Orders()
    rig = Rig(api)
    for _ in range(4):
        await rig.work()
    assert api.condition("Ready")["reason"] == "InSync"
    looks, cluster_id = len(rig.recorder.looks), api.status["clusterId"]
    assert set(rig.recorder.looks[1:]) == {(KEY, cluster_id)}
    rig.kafka.same, rig.watched = True, api.object["metadata"]["resourceVersion"]
    await rig.work()  # in sync and unchanged: only the log is read
    assert len(rig.recorder.looks) == looks + 1
    api.server.delete(*KEY)
    rig.watched = ""
    await rig.controller.reconcile(KEY)
    assert rig.recorder.forgotten == [KEY]


async def test_a_suspended_resource_in_sync_is_counted_as_suspended_in_the_metrics() -> None:
    api = Orders()
    rig = Rig(api)

    async def shown() -> float | None:
        await rig.work()
        labels = {"namespace": KEY.namespace, "name": KEY.name}
        return rig.metrics.registry.get_sample_value("kafkafeatures_suspended", labels)

    assert await shown() == 0.0
    api.edit(suspend=True)
    assert [await shown() for _ in range(4)] == [1.0] * 4
    assert api.condition("Ready")["reason"] == "InSync"
    api.edit(suspend=False)
    assert await shown() == 0.0
    api.server.edit(*KEY, lambda manifest: manifest["metadata"].update(annotations={"kafkafeatures.dev/pause": "true"}))
    assert await shown() == 1.0
    api.server.delete(*KEY)
    await rig.controller.reconcile(KEY)
    assert "kafkafeatures_suspended{" not in generate_latest(rig.metrics.registry).decode()


async def test_an_address_that_was_corrected_in_the_document_is_connected_to() -> None:
    rig = Rig(Orders(bootstrapServers="kafka"))
    await rig.controller.reconcile(KEY)
    rig.api.edit(cluster={"bootstrapServers": "kafka:9092"})
    await rig.controller.reconcile(KEY)
    assert [str(address) for address in rig.opened[0].bootstrap_servers] == ["kafka:9092"]
    assert "Stalled" not in [condition["type"] for condition in rig.api.status["conditions"]]


async def test_request_timeout_is_capped_so_that_a_reconciliation_meets_its_deadline() -> None:
    patient, quick = Rig(Orders(requestTimeout="5m")), Rig(Orders(requestTimeout="5s"))
    for rig in (patient, quick):
        await rig.controller.reconcile(KEY)
    assert [rig.opened[0].request_timeout for rig in (patient, quick)] == [LONGEST_REQUEST, 5.0]


async def test_a_change_that_cannot_be_sent_is_retried_with_backoff() -> None:
    rig = Rig(Orders())
    rig.kafka.outcomes = [NotSent("no connection")] * 8
    pauses = [await rig.work() for _ in range(8)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, SLOWEST_WAIT, SLOWEST_WAIT, SLOWEST_WAIT]
    assert await rig.work() == 0.0  # it was sent: the next reconciliation follows at once


async def test_a_watch_event_of_the_operators_own_write_starts_no_reconciliation() -> None:
    """A watch may show the operator's own write before its answer has arrived, and a new list shows all resources."""
    rig = Rig(Orders())
    rig.api.edit(mode="Observe")
    pause = await rig.controller.reconcile(KEY)
    assert (pause, rig.kafka.looks) == (CHECK_EVERY, 1)
    rig.seconds = 50.0
    assert await rig.controller.reconcile(KEY) == CHECK_EVERY - 50.0
    assert rig.kafka.looks == 1
    rig.api.edit()
    assert await rig.controller.reconcile(KEY) == CHECK_EVERY
    assert rig.kafka.looks == 2
    rig.seconds += CHECK_EVERY
    await rig.controller.reconcile(KEY)
    assert rig.kafka.looks == 3


async def test_endless_immediate_reconciliations_are_slowed_down() -> None:
    """Each reconciliation asks for the next one at once, as the document changes each time."""
    rig = Rig(Orders())
    rig.kafka.outcomes = [Rejected(42, "no") for _ in range(1000)]
    for _ in range(BURST):
        rig.api.edit()
        assert await rig.controller.reconcile(KEY) is not None
    rig.api.edit(features={})
    assert await rig.controller.reconcile(KEY) == CHECK_EVERY  # a longer pause is not changed
    rig.api.edit(features={"levels": [{"name": "metadata.version", "level": 26}]})
    assert await rig.controller.reconcile(KEY) == REFILL_SECONDS
    rig.seconds += BURST * REFILL_SECONDS
    rig.api.edit()
    pause = await rig.controller.reconcile(KEY)
    assert pause is not None
    assert pause < REFILL_SECONDS


async def test_a_resource_version_is_not_trusted_after_a_restore_of_etcd() -> None:
    rig = Rig(Orders())
    before = rig.api.server.revision
    rig.api.edit(mode="Observe")
    await rig.work()
    written = int(rig.api.object["metadata"]["resourceVersion"])
    rig.api.server.restore(before)
    while rig.api.server.revision < written - 1:
        rig.api.edit()
    rig.api.edit(mode="Apply")
    assert rig.api.object["metadata"]["resourceVersion"] == str(written)  # the same version for another document
    rig.seconds = 0.0  # so the next reconciliation is not due yet
    assert not rig.controller.is_external_change(rig.api.object)
    rig.controller.discard_versions()
    assert rig.controller.is_external_change(rig.api.object)
    await rig.work()
    assert len(rig.kafka.sent) == 1


async def test_an_older_resource_that_changes_all_the_time_does_not_keep_a_younger_one_from_acting() -> None:
    """Reconciliations of the document end in conflicts, so the cluster that it would own is never known."""
    rig = Rig(Orders())
    rig.kafka.during_look = rig.api.edit
    rig.kafka.away = True
    younger = {"metadata": {"namespace": "a", "name": "b", "uid": "c", "creationTimestamp": "2026-06-01T00:00:00Z"}}
    rig.claims.note(rig.api.object)
    rig.claims.note(younger)
    assert [await rig.controller.reconcile(KEY) for _ in range(7)] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert rig.claims.competing_owner(ResourceKey("a", "b"), "cluster") is None


@pytest.mark.parametrize(
    ("deleted", "outcome", "blocked"),
    [
        ("before the intent is written", None, False),
        ("while it is sent", Applied(), False),
        ("while it is sent", Rejected(42, "no"), False),
        ("while it is sent", OutcomeUnknown("no answer"), True),
    ],
    ids=["not sent", "accepted", "rejected", "no answer"],
)
async def test_after_a_deletion_the_next_owner_waits_only_for_open_steps(
    deleted: str, outcome: Outcome | None, *, blocked: bool
) -> None:
    rig = Rig(Orders())
    delete = partial(rig.api.server.delete, *KEY)
    if outcome is None:
        rig.kafka.during_look = delete
    else:
        rig.kafka.during_update, rig.kafka.outcomes = delete, [outcome]
    younger = {"metadata": {"namespace": "a", "name": "b", "uid": "c", "creationTimestamp": "2026-06-01T00:00:00Z"}}
    rig.claims.note(younger)
    while await rig.controller.reconcile(KEY) is not None:
        pass
    cluster = rig.kafka.world.cluster_id
    assert (rig.claims.competing_owner(ResourceKey("a", "b"), cluster) is not None) == blocked, deleted
    rig.seconds += SENT_DIRECTLY_FOR  # it was sent to the active controller, so no broker sends it again later
    assert rig.claims.competing_owner(ResourceKey("a", "b"), cluster) is None


async def test_events_are_posted_even_if_the_status_write_was_lost() -> None:
    """The document is edited while the change is sent, so its outcome is not written. The intent was written before."""
    rig = Rig(Orders())
    rig.kafka.during_update = rig.api.edit
    await rig.controller.reconcile(KEY)
    assert rig.api.events == ["PlanComputed", "PlanApproved"]


async def test_a_resource_that_is_being_deleted_sends_nothing() -> None:
    """A finalizer of another controller keeps the object, but its owner has deleted it."""
    rig = Rig(Orders())
    rig.api.server.edit(*KEY, lambda manifest: manifest["metadata"].update(finalizers=["example.com/keep"]))
    rig.api.server.delete(*KEY)
    assert await rig.controller.reconcile(KEY) is None
    assert not rig.opened
    assert "status" not in rig.api.object


async def test_a_suspended_resource_keeps_no_partitions_in_memory() -> None:
    """Few clusters may have their partitions in memory at once, and rolls of other clusters need the room."""
    rig = Rig(Orders())
    rig.api.edit(suspend=True)
    await rig.work()
    assert rig.api.object["status"]["conditions"][0]["reason"] == "Suspended"
    assert rig.kafka.released


async def test_tls_material_is_read_once_and_not_in_the_thread_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[int] = []
    context = tls.context

    def watched(settings: Tls) -> object:
        threads.append(threading.get_ident())
        return context(settings)

    monkeypatch.setattr(tls, "context", watched)
    rig = Rig(Orders(tls={"caConfigMapRef": {"name": "ca"}}))
    rig.api.server.put(KEY.namespace, "configmaps", "ca", data={"ca.crt": CERTIFICATES.ca})
    for _ in range(2):
        await rig.controller.reconcile(KEY)
    (opened,) = rig.opened
    assert opened.brokers.tls is not None
    assert opened.brokers.contexts.create(opened.brokers.tls) is opened.controllers.contexts.create(opened.brokers.tls)
    assert len(threads) == 1
    assert threading.get_ident() not in threads
