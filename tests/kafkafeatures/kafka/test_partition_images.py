"""The limit of clusters whose partitions are in memory at once: other clusters wait, and take turns."""

from __future__ import annotations

import pytest

from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import Address, ClusterSettings
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.partitions.images import PartitionImages

NOBODY = ClusterSettings((Address("127.0.0.1", 1),), request_timeout=300)  # nothing listens there


def clusters(images: PartitionImages, count: int) -> list[Cluster]:
    return [Cluster(NOBODY, images=images, environment=SYSTEM) for _ in range(count)]


async def waits(cluster: Cluster) -> bool:
    """Read with partitions; tells whether the cluster has to wait for them, as it is beyond the limit. Otherwise they
    are another Failure, as no node answers.
    """
    found = (await cluster.read(partitions=True)).partitions
    assert isinstance(found, Failure)
    return found.kind is FailureKind.WAITING_FOR_BUDGET


async def test_a_cluster_beyond_the_limit_of_partition_images_waits_with_a_remedy() -> None:
    images = PartitionImages(2, "have the operator's maxPartitionImages raised", monotonic=SYSTEM.monotonic)
    one, two, three = clusters(images, 3)
    assert [await waits(each) for each in (one, two, three, one)] == [False, False, True, False]
    found = (await three.read(partitions=True)).partitions
    assert isinstance(found, Failure)
    assert found.kind.may_pass
    assert str(found) == (
        "partitions: they are held in memory for 2 other clusters whose nodes are being restarted "
        "(maxPartitionImages is 2); this one waits until one is done, or waits itself; "
        "have the operator's maxPartitionImages raised"
    )


@pytest.mark.parametrize("ended", ["read without them", "closed", "lost its memory"])
async def test_a_waiting_cluster_gets_its_turn_when_another_roll_ends(ended: str) -> None:
    first, second = clusters(PartitionImages(1, monotonic=SYSTEM.monotonic), 2)
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


async def test_a_waiting_cluster_takes_no_memory_from_others() -> None:
    first, second, third = clusters(PartitionImages(1, monotonic=SYSTEM.monotonic), 3)
    assert not await waits(first)
    assert await waits(second)
    await second.close()
    assert await waits(third)


async def test_waiting_rolls_take_turns_until_every_cluster_is_rolled() -> None:
    """Three clusters share two images, and read every 20 s, 12 times: each has them at least 4 times."""
    now = [0.0]
    images = PartitionImages(2, monotonic=lambda: now[0])
    every = clusters(images, 3)
    had: list[list[bool]] = []
    for _ in range(12):
        had.append([not await waits(each) for each in every])
        for each in every:
            each.release_partitions(at_once=False)
        now[0] += 20.0
    assert had[0] == [True, True, False]
    assert all(sum(look) <= 2 for look in had)
    assert all(sum(look[place] for look in had) >= 4 for place in range(3))


async def test_a_released_image_goes_to_the_cluster_that_still_asks_for_one() -> None:
    now = [0.0]
    images = PartitionImages(1, monotonic=lambda: now[0])
    first, second, third = clusters(images, 3)
    assert not await waits(first)
    now[0] = 1000.0
    first.release_partitions(at_once=False)  # nobody waits yet, so it keeps them
    assert await waits(second)
    assert await waits(third)
    now[0] = 1200.0  # the second has not asked for 200 s and loses its place (`FORGOTTEN_AFTER`)
    assert await waits(third)
    first.release_partitions()
    assert not await waits(third)
