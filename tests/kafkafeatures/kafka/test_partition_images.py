"""How many clusters may have their partitions in memory at once."""

from __future__ import annotations

import pytest

from kafkafeatures.core.readings import Failure, FailureKind
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.partition_images import PartitionImages
from kafkafeatures.kafka.settings import Address, ClusterSettings

NOBODY = ClusterSettings((Address("127.0.0.1", 1),), request_timeout=300)


def clusters(images: PartitionImages, count: int) -> list[Cluster]:
    return [Cluster(NOBODY, images=images) for _ in range(count)]


async def waits(cluster: Cluster) -> bool:
    found = (await cluster.read(partitions=True)).partitions
    assert isinstance(found, Failure)
    return found.kind is FailureKind.WAITING_FOR_BUDGET


async def test_one_more_than_may_be_waits_and_is_told_how_to_allow_it() -> None:
    images = PartitionImages(2, "have the operator's maxPartitionImages raised")
    one, two, three = clusters(images, 3)
    assert [await waits(each) for each in (one, two, three, one)] == [False, False, True, False]
    found = (await three.read(partitions=True)).partitions
    assert isinstance(found, Failure)
    assert found.kind.may_pass
    assert str(found) == (
        "partitions: they are held in memory for 2 other clusters whose nodes are being restarted; "
        "this one waits until one is done; have the operator's maxPartitionImages raised"
    )


@pytest.mark.parametrize("ended", ["read without them", "closed", "lost its memory"])
async def test_the_next_one_has_its_turn_when_another_ends(ended: str) -> None:
    first, second = clusters(PartitionImages(1), 2)
    assert not await waits(first)
    assert await waits(second)
    match ended:
        case "read without them":
            await first.read()
        case "closed":
            await first.close()
        case _:
            first._share._lose()
    assert not await waits(second)
    assert await waits(first)


async def test_one_that_only_waits_takes_nothing_from_others() -> None:
    first, second, third = clusters(PartitionImages(1), 3)
    assert not await waits(first)
    assert await waits(second)
    await second.close()
    assert await waits(third)
