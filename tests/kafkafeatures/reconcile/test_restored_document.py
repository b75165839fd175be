"""A document that a restore of etcd replaced after it was read."""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.api.names import PAUSE
from kafkafeatures.api.status import Status
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.kube.errors import Conflict
from kafkafeatures.reconcile.kubernetes_store import KubernetesStore
from tests.kafkafeatures.reconcile.simulated import spec_of
from tests.simulated.kubernetes import ApiServer
from tests.simulated.orders import KEY

UPGRADE, FURTHER = ({"spec": spec_of(DesiredState({"metadata.version": level}))} for level in (27, 29))
NOTED, PAUSED = ({"annotations": annotations} for annotations in ({"team": "orders"}, {PAUSE: "true"}))


@pytest.mark.parametrize(
    ("document_read", "document_after_restore"),
    [(UPGRADE, PAUSED), (UPGRADE, FURTHER), (NOTED, PAUSED)],
    ids=["another generation", "another spec of the same generation", "another annotation"],
)
async def test_a_status_write_is_a_conflict_if_a_restore_of_etcd_replaced_the_document(
    document_read: dict[str, Any], document_after_restore: dict[str, Any]
) -> None:
    """A restored etcd gives the resourceVersion that was read to another document, and the API server sees no conflict.
    What was to follow the intent in that status does not, and no Event is made of it.
    """
    server = ApiServer()
    server.create(*KEY, spec_of(DesiredState({"metadata.version": 25})))
    before = server.revision
    server.change(
        *KEY, lambda manifest: (manifest if "spec" in document_read else manifest["metadata"]).update(document_read)
    )
    store = KubernetesStore(server.client(), KEY, lambda: OperatorIdentity("", "operator", "test"))
    await store.fetch()
    ours, own_status = store.raw, store.status
    server.restore(before)
    server.change(
        *KEY,
        lambda manifest: (manifest if "spec" in document_after_restore else manifest["metadata"]).update(
            document_after_restore
        ),
    )
    status = Status(cluster_id="cluster", change_count=1)
    for write in (store.try_status, store.write_status):
        with pytest.raises(Conflict, match="as after a restore of etcd"):
            await write(status)
    assert (store.raw, store.status) == (ours, own_status)
    await store.fetch()
    assert store.status.change_count == 1
