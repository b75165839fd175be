"""Settings without which clients cannot use a level after it was raised. A new one is a row of `PREREQUISITES`.

Pure. The warnings are shown with the effects of a step in a plan, and by the command `check`. Kafka raises the level in
any case, and clients fail only when they first use it, so the outcome is a warning that blocks nothing. Values are read
from each broker, never assumed from its release.

Sources, in the classes of Kafka 4.1.2, 4.2.0, 4.3.1 and 4.4.0: `DefaultAutoTopicCreationManager` (the broker that is
asked for a coordinator creates the topic, by its own settings), `ShareCoordinatorConfig`, and in `KafkaApis`
`isConsumerGroupProtocolEnabled` and `isStreamsGroupProtocolEnabled`, which require the level and the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from msgspec import Struct

from kafkafeatures.core.engine.blockers import these, title_of
from kafkafeatures.core.facts.observation import Node, NodeState, Observation
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.words import counted

STATE_TOPIC_FACTOR = "share.coordinator.state.topic.replication.factor"
STATE_TOPIC_MIN_ISR = "share.coordinator.state.topic.min.isr"
PROTOCOLS = "group.coordinator.rebalance.protocols"
STATE_TOPIC = "__share_group_state"

Values = Mapping[str, str]
"""Values of a broker, by name of the setting."""


class Prerequisite(Struct, frozen=True):
    """Settings that brokers need for one level.

    problem: function from a broker's values and the number of registered brokers to a text: what will not work, and
        what to do; empty if the values fit.
    """

    feature: str
    level: int
    settings: tuple[str, ...]
    problem: Callable[[Values, int], str]


def _state_topic(values: Values, brokers: int) -> str:
    factor, min_isr = (int(values[name]) for name in (STATE_TOPIC_FACTOR, STATE_TOPIC_MIN_ISR))
    if factor > brokers:
        return (
            f"{STATE_TOPIC_FACTOR} is {factor}, but {counted(brokers, 'broker')} {'is' if brokers == 1 else 'are'} "
            f"registered: while there is no topic {STATE_TOPIC}, it cannot be created, and share groups do not work; "
            f"set it to at most {brokers} in the file of each broker, or add brokers"
        )
    if min_isr > factor:
        return (
            f"{STATE_TOPIC_MIN_ISR} is {min_isr}, more than {STATE_TOPIC_FACTOR}, which is {factor}: nothing can be "
            f"written to the topic {STATE_TOPIC}; set it to at most {factor} in the file of each broker"
        )
    return ""


def _protocol(name: str, values: Values, brokers: int) -> str:
    protocols = [protocol.strip().lower() for protocol in values[PROTOCOLS].split(",")]
    if name in protocols:
        return ""
    return (
        f"{PROTOCOLS} is {values[PROTOCOLS]}: members that use group.protocol={name} are refused there; add {name} "
        "to it in the file of each broker"
    )


PREREQUISITES = (
    Prerequisite("share.version", 1, (STATE_TOPIC_FACTOR, STATE_TOPIC_MIN_ISR), _state_topic),
    Prerequisite("group.version", 1, (PROTOCOLS,), partial(_protocol, "consumer")),
    Prerequisite("streams.version", 1, (PROTOCOLS,), partial(_protocol, "streams")),
)
"""Every prerequisite that is a setting, up to Kafka 4.4. transaction.version has none: the settings of transactions are
older than it.
"""


def settings_of(changes: Iterable[UpdateFeature]) -> frozenset[str]:
    """Names of the settings to be read of each broker for these changes."""
    return frozenset(name for change in changes for row in _rows(change) for name in row.settings)


def prerequisites_of(change: UpdateFeature, observation: Observation) -> tuple[str, ...]:
    """Warnings about settings of brokers with which clients cannot use the new level; one for all brokers with the same
    problem.
    """
    brokers = [node for node in observation.nodes if Role.BROKER in node.roles and node.state is not NodeState.REFUSED]
    return tuple(line for row in _rows(change) for line in _lines(row, brokers))


def _rows(change: UpdateFeature) -> Iterator[Prerequisite]:
    """Prerequisites of the levels that this change reaches or passes."""
    return (row for row in PREREQUISITES if change.raises(row.feature, row.level))


def _lines(row: Prerequisite, brokers: list[Node]) -> Iterator[str]:
    """Warnings about one prerequisite. A ghost counts as a registered broker, but its settings need not be known."""
    alike: dict[str, list[Node]] = {}  # brokers with the same problem, by its text; empty text: no problem
    unknown: list[Node] = []
    for node in brokers:
        settings = {name: node.settings[name].value for name in row.settings if name in node.settings}
        values = {name: value for name, value in settings.items() if value is not None}
        if not node.proved_at or len(values) < len(settings):  # not this node's own answer, or a value is missing
            unknown += [node] if node.state is not NodeState.GHOST else []
        elif len(values) == len(row.settings):  # a broker that does not know them is too old for the level
            alike.setdefault(row.problem(values, len(brokers)), []).append(node)
    yield from (f"warning: on {title_of(tuple(nodes))}, {problem}" for problem, nodes in alike.items() if problem)
    if unknown:
        nodes = tuple(unknown)
        are = "is" if len(row.settings) == 1 else "are"
        yield (
            f"warning: {' and '.join(row.settings)} of {title_of(nodes)} {are} not known; make {these(nodes)} "
            "reachable, and grant DESCRIBE_CONFIGS on the cluster"
        )
