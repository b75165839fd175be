"""Change finalized levels.

Called by the act of a reconciliation, at most once per change. It decides where a change is sent and what an answer
means; it never decides that a change is right, never repeats one that may have been sent, and never sends
UNSAFE_DOWNGRADE.

The way: straight to the active controller, which answers within seconds whatever happens. Only where it cannot be
reached through a broker, which forwards the request but keeps it when no controller is active, and may see it
applied minutes later (seen on 4.2): so where no quorum was seen at work, nothing goes through a broker.

Success is error code 0 and nothing else: the text may be "NONE" or empty. 4.0 and newer answer for all features at
once; 3.3 to 3.9 answer 0 and put the real codes beside each feature. Rejected is only what the controller judged and
answered with an error of its own. NOT_CONTROLLER (41), a time-out (7), an unknown error and every broken conversation
leave the outcome unknown: each of them was seen being applied later (UpdateFeatures: KIP-584, KIP-778, KIP-1022).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kafkafeatures.api.names import KRAFT_VERSION
from kafkafeatures.core.readings import ClusterProbe, Failure, Role
from kafkafeatures.core.route import route_to_controller
from kafkafeatures.core.steps import (
    Applied,
    DryRun,
    DryRunAccepted,
    DryRunRejected,
    DryRunUnavailable,
    NotSent,
    Outcome,
    OutcomeUnknown,
    Rejected,
    UpdateFeature,
)
from kafkafeatures.core.words import printable
from kafkafeatures.kafka.errors import ErrorCode, KafkaError, to_failure
from kafkafeatures.kafka.pool import Pool
from kafkafeatures.kafka.quorum import short_timeout
from kafkafeatures.kafka.rights import Right, missing
from kafkafeatures.kafka.settings import Address
from kafkafeatures.kafka.wire.messages import (
    SAFE_DOWNGRADE,
    UPGRADE,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_BROKERS_TRIED = 3

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
    """Where a change can be sent. `closed`: why nothing may be sent now."""

    controller: Address | None
    brokers: tuple[Address, ...] = ()
    closed: Failure | None = None

    def stops(self) -> tuple[tuple[Address, Role], ...]:
        """In the order they are tried."""
        direct = ((self.controller, Role.CONTROLLER),) if self.controller else ()
        return direct + tuple((address, Role.BROKER) for address in self.brokers[:_BROKERS_TRIED])


def route(probe: ClusterProbe) -> AddressRoute:
    """The addresses on the way to the active controller (`core/route.py`)."""
    way = route_to_controller(probe)
    controller = Address(way.controller.host, way.controller.port) if way.controller else None
    return AddressRoute(controller, tuple(Address(node.host, node.port) for node in way.brokers), way.closed)


async def update_feature(pool: Pool, way: AddressRoute, change: UpdateFeature) -> Outcome:
    """Send one change, for real, at most once. Only a request that never left is tried at the next stop.

    Where the active controller is known it is the only stop: what came of a request is settled in another way where a
    broker passed it on, so nobody may be in doubt which way it went.

    Raises ValueError for a change that must not be sent (`request_for`).
    """
    request = request_for((change,), validate_only=False)
    if way.closed is not None:
        return NotSent(str(way.closed))
    reasons = []
    for address, role in way.stops()[: 1 if way.controller else None]:
        reply = await _send(pool, address, role, request)
        if isinstance(reply, NotSent):
            reasons.append(reply.why)
        elif isinstance(reply, OutcomeUnknown):
            return reply
        else:
            return outcome(reply, change, address)
    return NotSent("; ".join(reasons) or "no address of the active controller or of a live broker is known")


async def validate(pool: Pool, way: AddressRoute, changes: Sequence[UpdateFeature]) -> DryRun:
    """The server's verdict on all `changes` together, with validateOnly: nothing is changed.

    Several stops are tried, and on connections that are open: nothing can be applied twice. A broker is given less
    time than the controller: it never answers while no controller is active. Raises ValueError for changes that must
    not be sent (`request_for`): kraft.version among others is one, since some releases would raise it although they
    refuse.
    """
    request = request_for(changes, validate_only=True)
    if way.closed is not None:
        return DryRunUnavailable(str(way.closed))
    reasons = []
    for address, role in way.stops():
        try:
            timeout = short_timeout(pool) if role is Role.BROKER else None
            reply = await pool.ask(address, role, request, timeout=timeout)
        except KafkaError as error:
            reasons.append(str(to_failure(error, str(address))))
            continue
        verdict = _verdict(reply, address)
        if not isinstance(verdict, DryRunUnavailable) or verdict.rights:
            return verdict
        reasons.append(verdict.why)
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
        if not change.feature.strip() or change.after < 0:
            raise ValueError(f"not a change of a feature: {change}")
    updates = tuple((c.feature, c.after, SAFE_DOWNGRADE if c.after < c.before else UPGRADE) for c in changes)
    return UpdateFeaturesRequest(updates=updates, validate_only=validate_only)


def outcome(reply: UpdateFeaturesResponse, change: UpdateFeature, where: Address) -> Outcome:
    """What a reply to one real change means."""
    code, message = reply.error_code, reply.error_message
    if code == 0 and reply.results:
        if change.feature not in reply.results:
            return OutcomeUnknown(f"{where}: the reply does not speak of {change.feature}")
        code, message = reply.results[change.feature]
    if code == 0:
        return Applied()
    if code in _NO:
        return Rejected(code, _words(code, message))
    return OutcomeUnknown(f"{where}: {_named(code)}: {printable(message or 'no text')}")


def _verdict(reply: UpdateFeaturesResponse, where: Address) -> DryRun:
    answers = [(reply.error_code, reply.error_message), *reply.results.values()]
    bad = [(code, _words(code, message)) for code, message in answers if code != 0]
    if not bad:
        return DryRunAccepted()
    for code, message in bad:
        if code not in _NO:
            return DryRunUnavailable(f"{where}: {_named(code)}: {message}")
    code = bad[0][0]
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return DryRunUnavailable(f"{where}: {bad[0][1]}", rights=True)
    return DryRunRejected(code, "; ".join(message for _, message in bad))


async def _send(
    pool: Pool, address: Address, role: Role, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse | NotSent | OutcomeUnknown:
    """One try at one stop, on a connection of its own: what an idle one did with the bytes could not be told."""
    handed_over = False
    try:
        async with pool.lease(address, role, fresh=True) as lease:
            handed_over = True
            reply: UpdateFeaturesResponse = await lease.connection.request(
                request, timeout=pool.settings.request_timeout
            )
            return reply
    except KafkaError as error:
        why = str(to_failure(error, str(address)))
        # Before that, `sent` speaks of the requests that make a connection.
        return OutcomeUnknown(why) if handed_over and error.sent else NotSent(why)


def _words(code: int, message: str | None) -> str:
    """The server's own, where it has any that people can read; fit for a terminal, since they end at one."""
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return "; ".join(missing("UpdateFeatures", Right.ALTER, message))
    return printable(message or _named(code))


def _named(code: int) -> str:
    known = {int(member): member.name for member in ErrorCode}
    return f"{known.get(code, 'error')} ({code})"
