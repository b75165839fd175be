"""Reads all znodes that Kafka copies, or some of them, and gives each to a `Sink`. It judges nothing.

Called by `compare.py`, and by preflight for a dry run of the copy. Nothing is kept of what was given away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.migration.copied import places, rights, topics
from kafkafeatures.core.migration.copied.configs import OF_USERS
from kafkafeatures.core.migration.copied.findings import too_large
from kafkafeatures.core.migration.copied.others import PRODUCER_IDS
from kafkafeatures.core.migration.copied.survey import Sink, Survey, Surveyor
from kafkafeatures.core.migration.copied.topics import Topic
from kafkafeatures.kafka.base.errors import KafkaError, to_failure
from kafkafeatures.zookeeper.ensemble import Ensemble
from kafkafeatures.zookeeper.pipeline import Data, Names, Pipeline
from kafkafeatures.zookeeper.session import Session


async def dry_run(ensemble: Ensemble) -> Survey | Failure:
    """All znodes that Kafka would copy, as it would read them. A Failure where the ensemble cannot be asked."""
    surveyor = Surveyor()
    try:
        async with Session(ensemble) as session:
            failure = await read_copied(session, surveyor)
    except KafkaError as error:
        return to_failure(error, f"ZooKeeper {ensemble}")
    return failure or surveyor.survey


async def read_copied(session: Session, sink: Sink, only: Iterable[str] | None = None) -> Failure | None:
    """`only`: paths of topics and of other znodes; None: all that there are. A Failure where the ensemble can no longer
    be asked; what alone cannot be read goes to the sink.
    """
    reader = _Reader(Pipeline(session), sink)
    if only is None:
        reader.read_all()
    else:
        for path in only:
            reader.read(path)
    return await reader.pipeline.run()


class _Reader:
    """Asks for znodes, and by what they say for others."""

    def __init__(self, pipeline: Pipeline, sink: Sink) -> None:
        self.pipeline, self._sink = pipeline, sink

    def read_all(self) -> None:
        for root in places.LISTS:
            self._each(root, partial(self._below, root))
        for root in rights.ROOTS:
            self._each(root, partial(self._type, root))
        self.read(PRODUCER_IDS)
        self._each(topics.PENDING_DELETIONS, self._topics, all_at_once=True)

    def read(self, path: str) -> None:
        name = topics.topic_name(path)
        if not places.can_be(path):
            self._sink.entries(path, {})
        elif name is None:
            self.pipeline.get(path, partial(self._entries, path))
        else:
            self._topic(name)

    def _each(self, root: str, take: Callable[..., None], *, all_at_once: bool = False) -> None:
        def taken(names: Names) -> None:
            if isinstance(names, Failure):
                self._sink.unread(names)
            elif all_at_once:
                take(names or ())
            else:
                for name in names or ():
                    take(name)

        self.pipeline.children(root, taken)

    def _below(self, root: str, name: str) -> None:
        path = f"{root}/{name}"
        self.read(path)
        if root == OF_USERS:
            self._each(places.clients_of(path), partial(self._below, places.clients_of(path)))

    def _type(self, root: str, name: str) -> None:
        path = f"{root}/{name}"
        if name in rights.RESOURCES:
            self._each(path, partial(self._below, path))
        else:
            self._sink.remark(rights.not_copied(path))

    def _topics(self, pending: tuple[str, ...]) -> None:
        """All but those that are to be deleted, which are not copied."""
        left_out = frozenset(pending)

        def take(name: str) -> None:
            if name not in left_out:
                self._topic(name)

        self._each(topics.TOPICS, take)

    def _topic(self, name: str) -> None:
        self.pipeline.get(topics.topic_path(name), partial(self._take_topic, name))

    def _take_topic(self, name: str, data: Data) -> None:
        if isinstance(data, Failure):
            self._sink.unread(data)
            return
        self._size(topics.topic_path(name), data)
        found = None if data is None else topics.read_topic(name, data)
        self._sink.topic(name, found)
        if isinstance(found, Topic):
            for number in found.partitions:
                self.pipeline.get(topics.state_path(name, number), partial(self._take_state, found, number))

    def _take_state(self, topic: Topic, number: int, data: Data) -> None:
        if isinstance(data, Failure):
            self._sink.unread(data)
        else:
            self._sink.partition(topic, number, topics.read_state(topic.name, number, data))

    def _entries(self, path: str, data: Data) -> None:
        if isinstance(data, Failure):
            self._sink.unread(data)
            return
        self._size(path, data)
        self._sink.entries(path, places.read_entries(path, data))

    def _size(self, path: str, data: bytes | None) -> None:
        remark = too_large(path, len(data or b""))
        if remark is not None:
            self._sink.remark(remark)
