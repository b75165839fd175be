"""Change finalized levels.

Called by the act of a reconciliation, at most once per change. It decides where a change is sent and what an answer
means; it never decides that a change is right, never repeats one that may have been sent, and never sends
UNSAFE_DOWNGRADE.

The connection comes first, and is of this change alone. It says of itself which levels are finalized: where that is
not the level that the change starts from, nothing is sent. It ends by a reset: what its node did not take by then
arrives no more.

The way: straight to the active controller, which answers within seconds whatever happens. Only where it cannot be
reached through a broker, which forwards the request but keeps it when no controller is active, and may see it
applied minutes later (seen on 4.2): so where no quorum was seen at work, nothing goes through a broker.

Success is error code 0 and nothing else: the text may be "NONE" or empty. 4.0 and newer answer for all features at
once; 3.3 to 3.9 answer 0 and put the real codes beside each feature. Rejected is only what the controller judged and
answered with an error of its own. NOT_CONTROLLER (41), a time-out (7), an unknown error and every broken conversation
leave the outcome unknown: each of them was seen being applied later (UpdateFeatures: KIP-584, KIP-778, KIP-1022).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import assert_never

from msgspec import Struct, field

from kafkafeatures.api.names import KRAFT_VERSION
from kafkafeatures.api.status import Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.route import BROKERS_TRIED, route_to_controller
from kafkafeatures.core.engine.settling import DELIVERED_WITHIN
from kafkafeatures.core.engine.steps import (
    Applied,
    DryRun,
    DryRunAccepted,
    DryRunRejected,
    DryRunUnavailable,
    NotSent,
    Outcome,
    OutcomeUnknown,
    Rejected,
)
from kafkafeatures.core.facts.readings import ClusterProbe, Failure, Role
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.ports import Withheld
from kafkafeatures.core.words import printable
from kafkafeatures.kafka.base.errors import ErrorCode, KafkaError, to_failure
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.rights import ClusterRight, missing
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.probe.quorum import short_timeout
from kafkafeatures.kafka.wire.connection import Connection
from kafkafeatures.kafka.wire.messages import (
    SAFE_DOWNGRADE,
    UPGRADE,
    ApiVersionsRequest,
    ApiVersionsResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_NO = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_UPDATE_VERSION,
    }
)
"""Codes that mean the request was judged and refused. FEATURE_UPDATE_FAILED (96) is not one: only ZooKeeper mode
sends it, when a write to ZooKeeper failed or was not seen in time."""


class AddressRoute(Struct, frozen=True):
    """Addresses that a change can be sent to. `closed`: why nothing may be sent now. `names`: of the nodes, by which
    they are asked for their levels right before: one of Kafka 4.4 refuses that of another node (KIP-1242).
    """

    controller: Address | None
    brokers: tuple[Address, ...] = ()
    closed: Failure | None = None
    names: Mapping[Address, ApiVersionsRequest] = field(default_factory=dict)

    def stops(self) -> tuple[tuple[Address, Role], ...]:
        """The stops that a change may be sent to, in the order of attempts."""
        direct = ((self.controller, Role.CONTROLLER),) if self.controller else ()
        return direct + tuple((address, Role.BROKER) for address in self.brokers[:BROKERS_TRIED])


def route(probe: ClusterProbe) -> AddressRoute:
    """The addresses on the way to the active controller (`core/engine/route.py`)."""
    path = route_to_controller(probe)
    controller = Address(path.controller.host, path.controller.port) if path.controller else None
    names = {
        Address(node.host, node.port): ApiVersionsRequest(cluster_id=probe.cluster_id, node_id=node.id)
        for node in path.stops
        if node.id is not None and isinstance(probe.cluster_id, str)
    }
    return AddressRoute(
        controller,
        tuple(Address(node.host, node.port) for node in path.brokers),
        path.closed,
        names,
    )


@asynccontextmanager
async def prepared(pool: Pool, route: AddressRoute, change: UpdateFeature) -> AsyncIterator[PreparedChange | NotSent]:
    """A connection for one change, which is sent at most once; NotSent where there is none.

    Where the active controller is known it is the only stop: what came of a request is settled in another way where a
    broker passed it on, so the way must be certain.

    Raises ValueError for a change that must not be sent (`request_for`).
    """
    request_for((change,), validate_only=False)
    async with AsyncExitStack() as stack:
        yield await _connected(pool, route, change, stack)


async def _connected(
    pool: Pool, route: AddressRoute, change: UpdateFeature, stack: AsyncExitStack
) -> PreparedChange | NotSent:
    if route.closed is not None:
        return NotSent(str(route.closed))
    reasons = []
    for address, role in route.stops()[: 1 if route.controller else None]:
        try:
            lease = await stack.enter_async_context(pool.lease(address, role, fresh=True))
        except KafkaError as error:
            reasons.append(str(to_failure(error, str(address))))
            continue
        lease.connection.end_by_reset(DELIVERED_WITHIN.total_seconds())
        if reason := _moved(change, role, lease.connection.api_versions, address):
            return NotSent(reason)
        name = route.names.get(address, ApiVersionsRequest())
        return PreparedChange(pool, lease.connection, (address, role), change, name)
    return NotSent("; ".join(reasons) or "no address of the active controller or of a live broker is known")


class PreparedChange:
    """A change with its connection. See `PreparedUpdate` of the port."""

    def __init__(
        self, pool: Pool, link: Connection, stop: tuple[Address, Role], change: UpdateFeature, name: ApiVersionsRequest
    ) -> None:
        self._pool, self._link, self._change, self._name = pool, link, change, name
        self._address, self._role = stop
        self._request = request_for((change,), validate_only=False)

    @property
    def via(self) -> Via:
        return Via.CONTROLLER if self._role is Role.CONTROLLER else Via.BROKER

    async def send(self, withheld: Withheld) -> Outcome:
        """Sends the change. The node is asked once more for its levels: the intent may have taken its time."""
        try:
            api_versions = await self._link.request(self._name, timeout=short_timeout(self._pool))
        except KafkaError as error:
            return NotSent(self._described(error))
        if api_versions.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            requested_node = f"node {self._name.node_id} of cluster {self._name.cluster_id}"
            return NotSent(f"{self._address}: another node answers there by now: it refuses to be {requested_node}")
        if reason := _moved(self._change, self._role, api_versions, self._address) or await self._raised_meanwhile():
            return NotSent(reason)
        try:
            reply = await self._link.change(
                self._request, withheld=withheld, timeout=self._pool.settings.request_timeout
            )
        except KafkaError as error:
            return OutcomeUnknown(self._described(error)) if error.sent else NotSent(self._described(error))
        return outcome(reply, self._change, self._address)

    async def _raised_meanwhile(self) -> str:
        """The reason why a downgrade does not start from where it was consented to; empty where it does.

        What a node says of its levels comes a moment after they moved. The controller judges by what it has just
        written: to it, the level of before is no upgrade if there is a higher one by now.
        """
        change = self._change
        if not change.is_downgrade or change.feature == KRAFT_VERSION:
            return ""
        still = UpdateFeaturesRequest(updates=((change.feature, change.from_level, UPGRADE),), validate_only=True)
        try:
            verdict = _verdict(await self._link.request(still, timeout=short_timeout(self._pool)), self._address)
        except KafkaError as error:
            return self._described(error)
        match verdict:
            case DryRunAccepted():
                return ""
            case DryRunRejected(message=why) | DryRunUnavailable(reason=why):
                return f"{self._address}: {change.feature} may not be at {change.from_level} any more: {why}"
            case _:
                assert_never(verdict)

    def _described(self, error: KafkaError) -> str:
        return str(to_failure(error, str(self._address)))


def _moved(change: UpdateFeature, role: Role, response: ApiVersionsResponse, address: Address) -> str:
    """The reason why the change is not one from where it starts; empty where it is, or where the node does not say.

    What brokers say of kraft.version differs between releases (KAFKA-18979, KAFKA-18602).
    """
    unsaid = response.error_code != 0 or response.finalized_features_epoch < 0
    if unsaid or (change.feature == KRAFT_VERSION and role is Role.BROKER):
        return ""
    level = response.finalized_features.get(change.feature, 0)
    if level == change.from_level:
        return ""
    return f"{address}: {change.feature} is at {level} by now, not at {change.from_level}; it was changed meanwhile"


async def validate(
    pool: Pool, route: AddressRoute, changes: Sequence[UpdateFeature], *, directly: bool = False
) -> DryRun:
    """The server's verdict on all `changes` together, with validateOnly: nothing is changed.

    Several stops are tried, and on connections that are open: nothing can be applied twice. A broker is given less
    time than the controller: it never answers while no controller is active. `directly`: only the active controller
    counts, where it is known, since a broker may know one of before. Raises ValueError for changes that must
    not be sent (`request_for`): kraft.version among others is one, since some releases would raise it although they
    refuse.
    """
    request = request_for(changes, validate_only=True)
    if route.closed is not None:
        return DryRunUnavailable(str(route.closed))
    reasons = []
    for address, role in route.stops()[: 1 if directly and route.controller else None]:
        try:
            timeout = short_timeout(pool) if directly or role is Role.BROKER else None
            reply = await pool.ask(address, role, request, timeout=timeout)
        except KafkaError as error:
            reasons.append(str(to_failure(error, str(address))))
            continue
        verdict = _verdict(reply, address)
        if not isinstance(verdict, DryRunUnavailable):
            return verdict
        if verdict.rights:
            return replace(verdict, reason=pool.requester.in_words(verdict.reason, role))
        reasons.append(verdict.reason)
    return DryRunUnavailable("; ".join(reasons) or "no address of the active controller or of a live broker is known")


def request_for(changes: Sequence[UpdateFeature], *, validate_only: bool) -> UpdateFeaturesRequest:
    """The request. Repeats what Kafka's admin client refuses to send, and our own rules; raises ValueError."""
    names = [change.feature for change in changes]
    if not changes:
        raise ValueError("an update without a feature")
    if len(set(names)) < len(names):
        raise ValueError("a feature named twice: the controller would take one of the two")
    if not validate_only and len(changes) > 1:
        raise ValueError("one feature per request: Kafka before 4.0 applies the good half of a bad one")
    if KRAFT_VERSION in names and len(changes) > 1:
        raise ValueError("kraft.version goes alone: it is raised even when another feature is refused")
    for change in changes:
        if not change.feature.strip() or change.to_level < 0:
            raise ValueError(f"not a change of a feature: {change}")
    updates = tuple((c.feature, c.to_level, SAFE_DOWNGRADE if c.to_level < c.from_level else UPGRADE) for c in changes)
    return UpdateFeaturesRequest(updates=updates, validate_only=validate_only)


def outcome(reply: UpdateFeaturesResponse, change: UpdateFeature, address: Address) -> Outcome:
    """The outcome that a reply to one real change means."""
    code, message = reply.error_code, reply.error_message
    if code == 0 and reply.results:
        if change.feature not in reply.results:
            return OutcomeUnknown(f"{address}: the reply does not speak of {change.feature}")
        code, message = reply.results[change.feature]
    if code == 0:
        return Applied()
    if code in _NO:
        return Rejected(code, _words(code, message))
    return OutcomeUnknown(f"{address}: {_named(code)}: {printable(message or 'no text')}")


def _verdict(reply: UpdateFeaturesResponse, address: Address) -> DryRun:
    answers = [(reply.error_code, reply.error_message), *reply.results.values()]
    bad = [(code, _words(code, message)) for code, message in answers if code != 0]
    if not bad:
        return DryRunAccepted()
    for code, message in bad:
        if code not in _NO:
            return DryRunUnavailable(f"{address}: {_named(code)}: {message}")
    code = bad[0][0]
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return DryRunUnavailable(f"{address}: {bad[0][1]}", rights=True)
    return DryRunRejected(code, "; ".join(message for _, message in bad))


def _words(code: int, message: str | None) -> str:
    """The server's own, where it has any that people can read; fit for a terminal, since they end at one."""
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return "; ".join(missing("UpdateFeatures", ClusterRight.ALTER, message))
    return printable(message or _named(code))


def _named(code: int) -> str:
    names = {int(member): member.name for member in ErrorCode}
    return f"{names.get(code, 'error')} ({code})"
