"""Outcome of reading the metadata log: the reading, or a Failure with the reason.

Called by `kafka/cluster.py` and `whole.py`. A log with records that are not understood is a Failure, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Failure, FailureKind, LogReading
from kafkafeatures.kafka.base.errors import KafkaError, to_failure
from kraftlog import Image

NO_CONTROLLER = Failure(
    FailureKind.NOT_ASKED,
    "metadata log",
    "no controller that answers is known",
    "check that the controllers run, and name them (--bootstrap-controller, in a document bootstrapControllers); "
    "brokers of Kafka 3.9 or newer name them only while a controller is active",
)
"""Failure of a cluster for which no controller is known that answers."""


async def reading_of(reader: Callable[[], Awaitable[LogReading]], timeout: float) -> LogReading | Failure:
    """The result of `reader`, or a Failure: it took longer than `timeout` seconds, raised KafkaError, or met unknown
    records.
    """
    try:
        async with asyncio.timeout(timeout):
            reading = await reader()
    except KafkaError as error:
        return to_failure(error, "metadata log")
    except TimeoutError:
        return Failure(FailureKind.TIMED_OUT, "metadata log", "could not be read in time")
    if reading.image.unreadable:
        return Failure(
            FailureKind.UNSUPPORTED,
            "metadata log",
            f"{reading.image.unreadable} records are unknown to this version, so the log is not used",
            "use a newer version of this tool",
        )
    return reading


async def result_of(reading: asyncio.Task[LogReading | Failure]) -> LogReading | Failure:
    """The reading of a task; `NO_CONTROLLER` if the task was cancelled, as it is when no controller is found."""
    try:
        return await reading
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():  # not the task was cancelled, but the caller
            raise
        return NO_CONTROLLER


def says_the_same(earlier: Image, later: Image) -> bool:
    """True if nothing but the end of the log differs: a controller appends NoOp records all the time."""
    later_with_same_end = replace(
        later, offset=earlier.offset, epoch=earlier.epoch, timestamp_ms=earlier.timestamp_ms, counts=earlier.counts
    )
    if earlier.partitioned is None or later.partitioned is None:
        return earlier == later_with_same_end
    is_untouched = earlier.partitioned.is_untouched_in(later.partitioned)
    return is_untouched and replace(earlier, partitioned=None) == replace(later_with_same_end, partitioned=None)
