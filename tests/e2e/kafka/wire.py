"""One feature request to one node, without the product's rules: how tests change a cluster behind its back."""

from __future__ import annotations

import asyncio

from kafkafeatures.core.engine.steps import NotSent, Outcome
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address, Security
from kafkafeatures.kafka.requests.features import AddressRoute, prepared
from kafkafeatures.kafka.wire.connection import connect
from kafkafeatures.kafka.wire.messages import SAFE_DOWNGRADE, UPGRADE, UpdateFeaturesRequest, UpdateFeaturesResponse
from kraftlog import Replay
from tests.e2e.rig.cluster import Cluster, Node

FEATURE_LEVEL = 12  # api key of FeatureLevelRecord


async def send(node: Node, feature: str, level: int, *, timeout: float = 10.0) -> UpdateFeaturesResponse:
    """UpdateFeatures for one feature; 0 is asked for as a downgrade, anything else as a raise."""
    kind = UPGRADE if level else SAFE_DOWNGRADE
    async with await connect(
        Address("127.0.0.1", node.port), Security(), timeout=timeout, client_id="t", environment=SYSTEM
    ) as link:
        response: UpdateFeaturesResponse = await link.request(
            UpdateFeaturesRequest(updates=((feature, level, kind),), validate_only=False), timeout=timeout
        )
        return response


async def update_feature(pool: Pool, way: AddressRoute, change: UpdateFeature) -> Outcome:
    """By the product's own way, whose rules are those of a reconciliation."""
    async with prepared(pool, way, change) as request:
        return request if isinstance(request, NotSent) else await request.send(lambda: None)


def feature_records(cluster: Cluster) -> int:
    """How often a level was written since the cluster was formatted, from the files of the active controller."""
    segments = sorted(cluster.nodes[cluster.leader()].metadata_dir.glob("*.log"))
    return count_level_records(b"".join(segment.read_bytes() for segment in segments))


def count_level_records(log: bytes) -> int:
    """In a metadata log from its beginning, whether or not they are committed."""
    replay = Replay()
    replay.append(log, below=2**62)
    return replay.image().counts.get(FEATURE_LEVEL, 0)


def meddle(cluster: Cluster, feature: str, level: int) -> None:
    """Moves a level from outside the operator."""
    response = asyncio.run(send(cluster.nodes[cluster.leader()], feature, level))
    assert response.error_code == 0, response
