"""Reading of all znodes that a migration copies, or of some of them; each is passed to a `Sink`.

Called by `compare.py`, and by `client.py` for a survey, the dry run of the copy in a preflight. Nothing is judged and
no znode is kept here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.migration.copied import places, rights, topics
from kafkafeatures.core.migration.copied.configs import OF_USERS
from kafkafeatures.core.migration.copied.findings import too_large
from kafkafeatures.core.migration.copied.survey import Sink, Survey, Surveyor
from kafkafeatures.core.migration.copied.tokens_and_producer_ids import PRODUCER_IDS
from kafkafeatures.core.migration.copied.topics import Topic
from kafkafeatures.kafka.base.errors import KafkaError, to_failure
from kafkafeatures.zookeeper.ensemble import Ensemble
from kafkafeatures.zookeeper.pipeline import Data, Names, Pipeline, Read
from kafkafeatures.zookeeper.session import Session


async def dry_run(ensemble: Ensemble) -> Survey | Failure:
    """Survey all znodes that Kafka would copy, as it would read them. A Failure if no server can be reached."""
    surveyor = Surveyor()
    try:
        async with Session(ensemble) as session:
            failure = await read_copied(session, surveyor)
    except KafkaError as error:
        return to_failure(error, f"ZooKeeper {ensemble}")
    return failure or surveyor.survey


async def read_copied(session: Session, sink: Sink, selected: Iterable[str] | None = None) -> Failure | None:
    """Read znodes into the sink. Returns a Failure if no server can be reached any more; the failure of a single znode
    goes to the sink. `selected`: paths of topics and of other znodes; None: all.
    """
    pipeline = Pipeline(session)
    reader = _Reader(pipeline, sink)
    pipeline.add(reader.all() if selected is None else (request for path in selected for request in reader.unit(path)))
    return await pipeline.run()


class _Reader:
    """Makes the reads of znodes, and of the znodes that these name. Reads are generated only as they are sent, so that
    few of them are in memory.
    """

    def __init__(self, pipeline: Pipeline, sink: Sink) -> None:
        self._pipeline, self._sink = pipeline, sink

    def all(self) -> Iterator[Read]:
        """Reads of everything that Kafka copies."""
        yield self._names(topics.PENDING_DELETIONS, self._topics)
        for root in places.LISTS:
            yield self._names(root, partial(self._below, root))
        for root in rights.ROOTS:
            yield self._names(root, partial(self._types, root))
        yield from self.unit(PRODUCER_IDS)

    def unit(self, path: str) -> Iterator[Read]:
        """Read of one topic, with the partitions that follow, or of one other znode."""
        name = topics.topic_name(path)
        if not places.is_possible_path(path):  # ZooKeeper can have no such znode, so nothing is below it
            self._sink.entries(path, {})
        elif name is None:
            yield Read(path, partial(self._entries, path))
        else:
            yield self._topic(name)

    def _names(self, root: str, reads: Callable[[tuple[str, ...]], Iterable[Read]]) -> Read:
        """Read of the names below a path. `reads`: makes the reads that follow from the names."""

        def take_names(names: Names) -> None:
            if isinstance(names, Failure):
                self._sink.unread(names)
            else:
                self._pipeline.add(reads(names or ()))

        return Read(root, None, take_names)

    def _below(self, root: str, names: tuple[str, ...]) -> Iterator[Read]:
        """Reads of the znodes with these names below `root`; of a user also its clients, which have a znode each."""
        for name in names:
            path = f"{root}/{name}"
            yield from self.unit(path)
            if root == OF_USERS:
                yield self._names(places.clients_of(path), partial(self._below, places.clients_of(path)))

    def _types(self, root: str, names: tuple[str, ...]) -> Iterator[Read]:
        """Reads of the ACLs below a root, by resource type; a type that Kafka does not copy is remarked on."""
        for name in names:
            path = f"{root}/{name}"
            if name in rights.RESOURCES:
                yield self._names(path, partial(self._below, path))
            else:
                self._sink.remark(rights.not_copied(path))

    def _topics(self, pending: tuple[str, ...]) -> Iterator[Read]:
        """Reads of all topics but `pending`: topics that are to be deleted are not copied."""
        left_out = frozenset(pending)
        yield self._names(
            topics.TOPICS, lambda names: (self._topic(name) for name in names if name not in left_out)
        )  # fmt: skip

    def _topic(self, name: str) -> Read:
        """Read of a topic, after which its partitions are read."""
        return Read(topics.topic_path(name), partial(self._take_topic, name))

    def _take_topic(self, name: str, data: Data) -> None:
        if isinstance(data, Failure):
            self._sink.unread(data)
            return
        self._size(topics.topic_path(name), data)
        topic = None if data is None else topics.read_topic(name, data)
        self._sink.topic(name, topic)
        if isinstance(topic, Topic):
            self._pipeline.add(
                Read(topics.state_path(name, number), partial(self._take_state, topic, number))
                for number in topic.partitions
            )

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
        """Remark on a znode that is too large to be copied."""
        remark = too_large(path, len(data or b""))
        if remark is not None:
            self._sink.remark(remark)
