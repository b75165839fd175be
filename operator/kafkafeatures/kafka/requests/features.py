"""Changes finalized levels of features (UpdateFeatures: KIP-584, KIP-778, KIP-1022).

Called when a reconciliation acts, at most once per change. It decides to which node a change is sent, and what the
response means. It does not decide whether a change is right, never repeats one that may have been sent, and never sends
UNSAFE_DOWNGRADE.

A new connection is opened for each change. Its ApiVersions response has the finalized levels; if it reports another
level than the one that the change starts from, nothing is sent. The connection is closed by a TCP reset, so that bytes
which the node has not received by then never arrive.

The route: directly to the active controller, which always answers within seconds. If it did not answer the last
reading, the request goes to a broker, which forwards it. While no controller is active a broker keeps the request, and
it may be applied minutes later (seen on 4.2). So nothing is sent to a broker unless the last reading saw a working
quorum.

Success is error code 0 and nothing else: the text may be "NONE" or empty. Kafka 4.0 and newer answer with one code for
all features; 3.3 to 3.9 answer 0, with the real code of each feature in its own entry. `Rejected` means that the
controller decided against the change. After NOT_CONTROLLER (41), REQUEST_TIMED_OUT (7), an unknown error, or a broken
connection the outcome is unknown: in each of these cases a change was seen being applied later.
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
from kafkafeatures.kafka.base.errors import ErrorCode, KafkaError, code_name, to_failure
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

_DECIDED_AGAINST = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_UPDATE_VERSION,
    }
)
"""Codes that mean that the controller decided against the request. FEATURE_UPDATE_FAILED (96) is not one: only
ZooKeeper mode sends it, when a write to ZooKeeper failed or was not seen in time.
"""


class AddressRoute(Struct, frozen=True):
    """Addresses that a change can be sent to.

    controller: the active one; None: it did not answer the last reading, so its address is not known.
    brokers: those that would forward the change.
    closed: the reason why nothing may be sent now; None: a change may be sent.
    names: by address, the ApiVersions request with which the levels are read right before the change. It names the node
        that is expected there: a broker of Kafka 4.4 refuses the name of another node (KIP-1242).
    """

    controller: Address | None
    brokers: tuple[Address, ...] = ()
    closed: Failure | None = None
    names: Mapping[Address, ApiVersionsRequest] = field(default_factory=dict)

    def stops(self) -> tuple[tuple[Address, Role], ...]:
        """(address, role) of the nodes that a change may be sent to, in the order of attempts."""
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

    If the address of the active controller is known, no other node is tried. After a request through a broker the
    outcome is verified differently, so it must be certain which way the request took.

    Raises ValueError for a change that must not be sent (`request_for`).
    """
    request_for((change,), validate_only=False)
    async with AsyncExitStack() as stack:
        yield await _connected(pool, route, change, stack)


async def _connected(
    pool: Pool, route: AddressRoute, change: UpdateFeature, stack: AsyncExitStack
) -> PreparedChange | NotSent:
    if route.closed is not None:
        return NotSent(str(pool.requester.named(route.closed, Role.BROKER)))
    reasons = []
    for address, role in route.stops()[: 1 if route.controller else None]:
        try:
            lease = await stack.enter_async_context(pool.lease(address, role, fresh=True))
        except KafkaError as error:
            reasons.append(str(to_failure(error, str(address))))
            continue
        lease.connection.end_by_reset(DELIVERED_WITHIN.total_seconds())
        if reason := _reason_of_levels(change, role, lease.connection.api_versions, address):
            return NotSent(reason)
        name = route.names.get(address, ApiVersionsRequest())
        return PreparedChange(pool, lease.connection, (address, role), change, name)
    return NotSent("; ".join(reasons) or "no address of the active controller or of a live broker is known")


class PreparedChange:
    """A change with the connection on which it is sent. Implements `PreparedUpdate` (`core/ports.py`)."""

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
        """Send the change. The node is asked for its levels again before: writing the intent may have taken a while."""
        try:
            api_versions = await self._link.request(self._name, timeout=short_timeout(self._pool))
        except KafkaError as error:
            return NotSent(self._described(error))
        if api_versions.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            requested_node = f"node {self._name.node_id} of cluster {self._name.cluster_id}"
            return NotSent(f"{self._address}: another node answers there by now: it refuses to be {requested_node}")
        if (
            reason := _reason_of_levels(self._change, self._role, api_versions, self._address)
            or await self._reason_of_dry_run()
        ):
            return NotSent(reason)
        try:
            reply = await self._link.change(
                self._request, withheld=withheld, timeout=self._pool.settings.request_timeout
            )
        except KafkaError as error:
            return OutcomeUnknown(self._described(error)) if error.sent else NotSent(self._described(error))
        return outcome(reply, self._change, self._address)

    async def _reason_of_dry_run(self) -> str:
        """The reason why a downgrade must not be sent: the level is no longer the one that the consent covers, or that
        cannot be checked. Empty: the change may be sent.

        A node's ApiVersions response may be outdated by a moment, but the controller's dry run is not. So a dry run of
        an "upgrade" to the current level is requested: it is refused if the level has become higher meanwhile.
        """
        change = self._change
        if not change.is_downgrade or change.feature == KRAFT_VERSION:
            return ""
        same_level = UpdateFeaturesRequest(updates=((change.feature, change.from_level, UPGRADE),), validate_only=True)
        try:
            verdict = _verdict(await self._link.request(same_level, timeout=short_timeout(self._pool)), self._address)
        except KafkaError as error:
            return self._described(error)
        match verdict:
            case DryRunAccepted():
                return ""
            case DryRunRejected(message=cause) | DryRunUnavailable(reason=cause):
                return f"{self._address}: {change.feature} may not be at {change.from_level} any more: {cause}"
            case _:
                assert_never(verdict)

    def _described(self, error: KafkaError) -> str:
        return str(to_failure(error, str(self._address)))


def _reason_of_levels(change: UpdateFeature, role: Role, response: ApiVersionsResponse, address: Address) -> str:
    """The reason why the change must not be sent: the node reports another level than the change starts from. Empty:
    the levels agree, or the node does not report any.

    What brokers say of kraft.version differs between releases (KAFKA-18979, KAFKA-18602).
    """
    reports_none = response.error_code != 0 or response.finalized_features_epoch < 0
    if reports_none or (change.feature == KRAFT_VERSION and role is Role.BROKER):
        return ""
    level = response.finalized_features.get(change.feature, 0)
    if level == change.from_level:
        return ""
    return f"{address}: {change.feature} is at {level} by now, not at {change.from_level}; it was changed meanwhile"


async def validate(
    pool: Pool, route: AddressRoute, changes: Sequence[UpdateFeature], *, directly: bool = False
) -> DryRun:
    """The server's verdict on all `changes` together, with validateOnly: nothing is changed.

    Several nodes are tried, also on idle connections, since a dry run has no effect. A broker is given less time than
    the controller: it does not answer while no controller is active. `directly`: only the active controller is asked if
    its address is known, since a broker may forward to an earlier one. Raises ValueError for changes that must not be
    sent together (`request_for`): for example kraft.version with others, since some releases raise it even in a request
    that they refuse.
    """
    request = request_for(changes, validate_only=True)
    if route.closed is not None:
        return DryRunUnavailable(str(pool.requester.named(route.closed, Role.BROKER)))
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
            return replace(verdict, reason=pool.requester.filled_in(verdict.reason, role))
        reasons.append(verdict.reason)
    return DryRunUnavailable("; ".join(reasons) or "no address of the active controller or of a live broker is known")


def request_for(changes: Sequence[UpdateFeature], *, validate_only: bool) -> UpdateFeaturesRequest:
    """The request for these changes. Raises ValueError for changes that Kafka's admin client or our own rules
    forbid.
    """
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
    if code in _DECIDED_AGAINST:
        return Rejected(code, _words(code, message))
    return OutcomeUnknown(f"{address}: {code_name(code)}: {printable(message or 'no text')}")


def _verdict(reply: UpdateFeaturesResponse, address: Address) -> DryRun:
    """The verdict of a dry run, from the code of the reply and those of its features. A code that the controller did
    not decide with makes the dry run unavailable, whatever the others are.
    """
    answers = [(reply.error_code, reply.error_message), *reply.results.values()]
    errors = [(code, _words(code, message)) for code, message in answers if code != 0]
    if not errors:
        return DryRunAccepted()
    for code, message in errors:
        if code not in _DECIDED_AGAINST:
            return DryRunUnavailable(f"{address}: {code_name(code)}: {message}")
    code = errors[0][0]
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return DryRunUnavailable(f"{address}: {errors[0][1]}", rights=True)
    return DryRunRejected(code, "; ".join(message for _, message in errors))


def _words(code: int, message: str | None) -> str:
    """The server's own message if there is one, with control characters replaced, since it may be shown in a
    terminal.
    """
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return "; ".join(missing("UpdateFeatures", ClusterRight.ALTER, message))
    return printable(message or code_name(code))
