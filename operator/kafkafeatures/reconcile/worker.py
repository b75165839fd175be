"""One pass for one resource of the API server, and everything around it: credentials, the open cluster, events, pace.

Called by the queue. It returns when to look again, in seconds, or None for a resource that is gone. What it keeps
between passes is pace and open connections, never facts: killed anywhere, the next pass does the right thing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kafkafeatures.api.document import InvalidDocument
from kafkafeatures.api.identity import Operator
from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.spec import ClusterSpec
from kafkafeatures.core.decide import Act, Done, Held
from kafkafeatures.core.events import events_between
from kafkafeatures.core.ports import KafkaPort
from kafkafeatures.core.readings import Failure, FailureKind
from kafkafeatures.core.report import status_of_failed_pass, status_of_invalid, status_of_pending, status_of_unreachable
from kafkafeatures.core.steps import Applied
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.settings import ClusterSettings
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.aside import aside
from kafkafeatures.kube.api import Key, KubernetesApi
from kafkafeatures.kube.errors import Conflict, Gone, KubeError, Refused, Unavailable
from kafkafeatures.kube.events import event_of
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.claims import Claims
from kafkafeatures.reconcile.consider import Considered
from kafkafeatures.reconcile.credentials import (
    CredentialsInvalid,
    Material,
    Reference,
    bootstrap_of,
    material_of,
    references,
    settings_of,
)
from kafkafeatures.reconcile.kube_home import KubeHome, SchemaOutdated
from kafkafeatures.reconcile.loop import Pass, Shell, one_pass
from kafkafeatures.reconcile.operators import Operators

CHECK_EVERY = 60.0
"""Seconds; of a resource that does not say, also because it cannot be understood."""
FULL_LOOK_EVERY = 600.0
"""Seconds. In between, a settled cluster whose log shows nothing new is not asked node by node."""
SLOWEST_WAIT = 30.0
"""While something is waited for, it is looked at this often at least."""
BURST, TOLL = 100, 5.0
"""So many passes may follow one another as they like; more of them come one in so many seconds. Every step, reading and
wait of the longest upgrade fits; a Kafka that says one thing and shows another does not keep the operator busy."""
LONGEST_REQUEST = 30.0
"""Seconds; a longer `requestTimeout` counts as this. A look at silent nodes takes two of them, a pass two looks: more
would not fit into the deadline of a pass, and nobody would ever read which node is silent."""

logger = logging.getLogger(__name__)


class OpenCluster(KafkaPort, Protocol):
    """A cluster with its connections."""

    async def unchanged(self) -> bool:
        """Whether nothing happened since the last look, for certain."""

    async def rest(self) -> None:
        """Nobody will look for a while."""

    async def close(self) -> None:
        """Give them up."""


class Watcher(Protocol):
    """Hears of every pass: metrics."""

    def passed(self, key: Key, result: str, seconds: float, status: Mapping[str, Any]) -> None:
        """A pass is over. `result`: success, requeued or failed."""

    def forgot(self, key: Key) -> None:
        """The resource is gone."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is injected. `operator`: who writes and speaks. `policy`: for all."""

    environment: Environment
    operator: Operator
    policy: AddressPolicy


@dataclass(frozen=True, slots=True)
class _Open:
    """A cluster with what it was opened of."""

    spec: ClusterSpec
    material: Material
    cluster: OpenCluster


@dataclass(frozen=True, slots=True)
class _Until:
    """Something that holds of one version of a resource, and until when."""

    version: str
    until: float

    def holds(self, home: KubeHome, now: float) -> bool:
        """Whether it is this version, and not over yet."""
        return self.version == _version(home) and now < self.until


@dataclass(slots=True)
class _Pace:
    """How often the same thing stood in the way in a row, what the log said last, and how many passes are left."""

    at: float
    said: tuple[object, ...] = ()
    times: int = 0
    logged: tuple[int, str] = (0, "")
    left: float = BURST


class Worker:
    """`work` and `failed` of the queue."""

    def __init__(
        self,
        api: KubernetesApi,
        claims: Claims,
        open_cluster: Callable[[ClusterSettings], OpenCluster],
        around: Surroundings,
        watcher: Watcher,
    ) -> None:
        self._api = api
        self._claims = claims
        self._open = open_cluster
        self._around = around
        self._watcher = watcher
        self._clusters: dict[Key, _Open] = {}
        self._paces: dict[Key, _Pace] = {}
        self._ages: dict[Key, Ages] = {}
        self._written: dict[Key, set[str]] = {}
        self._settled: dict[Key, _Until] = {}
        """Found in sync: until then the log alone may say that it still is."""
        self._rests: dict[Key, _Until] = {}
        """As the last pass left it: until then no other one is due."""
        self._operators = Operators(around.operator, lambda: api.began, around.environment.monotonic)
        self._unkept: dict[Key, tuple[int, Mapping[str, Any]]] = {}
        """A status that the API server did not keep as a whole, and of which generation: the same is tried first, until
        the document is another one and so may be its status."""

    def forget_versions(self) -> None:
        """Of every resource: etcd was restored, and a version may stand for something else than it did."""
        logger.warning("the API server returned an older state: etcd was restored; every resource is read again")
        for of_versions in (self._written, self._settled, self._rests):
            of_versions.clear()

    def is_news(self, resource: Mapping[str, Any]) -> bool:
        """Whether a watch shows something else than what the last pass wrote itself."""
        return resource["metadata"]["resourceVersion"] not in self._written.get(Key.of(resource), ())

    async def work(self, key: Key) -> float | None:
        """One pass. Raises what the queue tells `failed` of."""
        began = self._around.environment.monotonic()
        home = self._home(key)
        try:
            await home.fetch()
            if "deletionTimestamp" in home.raw["metadata"]:  # somebody else's finalizer keeps it, and we are done
                raise Gone(str(key))
        except Gone:
            await self._forget(key)
            return None
        rest = self._rests.get(key)
        if rest is not None and rest.holds(home, began):
            return rest.until - began  # a watch may show our own write before its answer is here
        self._rests.pop(key, None)
        self._written[key] = home.written
        self._claims.note(home.raw)
        before = home.status
        try:
            pause = await self._guarded(key, home)
        except Gone:
            await self._forget(key)
            return None
        except Conflict:
            return self._again(key)
        finally:
            await self._post_events(before, home)
        self._claims.note(home.raw)
        self._claims.passed(key)
        self._watcher.passed(key, _RESULTS[pause.result], self._around.environment.monotonic() - began, home.status)
        seconds = max(pause.seconds, self._toll(key))
        self._rests[key] = _Until(_version(home), self._around.environment.monotonic() + seconds)
        return seconds

    async def failed(self, key: Key, error: BaseException) -> None:
        """Say it where people look. An API server that is away is no bug, and cannot be told either."""
        self._claims.passed(key)
        self._watcher.passed(key, "failed", 0.0, {})
        if isinstance(error, Unavailable):
            logger.warning("the API server: %s", error, extra=_labels(key))
            return
        if isinstance(error, TimeoutError):
            message = "the reconciliation exceeded its deadline and was cancelled; it is retried"
        elif isinstance(error, SchemaOutdated):
            message = str(error)
        elif isinstance(error, KubeError):
            message = f"the API server: {error}"
        else:
            message = f"{type(error).__name__} in the operator: a bug; see the operator's log"
        logger.error("reconciliation failed: %s", message, extra=_labels(key), exc_info=error)
        if isinstance(error, Refused | SchemaOutdated):
            return  # it would refuse this as well
        home = self._home(key)
        try:
            await home.fetch()
            if home.stalled(Reason.SCHEMA_OUTDATED):
                return  # a human must act on that, and it may be all that is left of what the schema did not keep
            status = status_of_failed_pass(
                message, generation=home.generation, previous=home.status, now=self._around.environment.clock()
            )
            await home.write_as_it_goes(status)
        except (KubeError, SchemaOutdated) as again:
            logger.warning("the API server: %s", again, extra=_labels(key))

    def hand_over(self) -> None:
        """The process is being stopped, and the next one may begin before the last pass is over."""
        self._operators.hand_over()

    async def close(self) -> None:
        """Give up all connections."""
        for held in self._clusters.values():
            await held.cluster.close()
        self._clusters.clear()

    def _home(self, key: Key) -> KubeHome:
        return KubeHome(self._api, key, lambda: self._operators.writer)

    async def _guarded(self, key: Key, home: KubeHome) -> _Pause:
        """A pass, where nobody else does the same and the API server keeps what it writes."""
        others = self._operators.beside_us(home.raw)
        if others:
            await self._close(key)
            if not self._operators.is_told(home.stalled(Reason.CONFLICT_DETECTED), home.generation):
                await self._stall(key, home, Reason.CONFLICT_DETECTED, self._operators.told(others))
            return _Pause("held", self._operators.hand_over_ends_in or CHECK_EVERY)
        try:
            generation, unkept = self._unkept.get(key, (home.generation, None))
            if unkept is not None and generation == home.generation:
                await home.try_status(unkept)
            self._unkept.pop(key, None)
            return await self._pass(key, home)
        except SchemaOutdated as error:
            self._unkept[key] = home.generation, error.status
            await self._stall(key, home, Reason.SCHEMA_OUTDATED, str(error))
            return _Pause("held", SLOWEST_WAIT)

    async def _stall(self, key: Key, home: KubeHome, reason: Reason, message: str) -> None:
        """Of the status what was kept as a whole, and why nothing is done."""
        self._log(key, home.generation, f"{reason}: {message}")
        await home.write_as_it_goes(
            status_of_invalid(
                reason, message, generation=home.generation, previous=home.kept, now=self._around.environment.clock()
            )
        )

    async def _pass(self, key: Key, home: KubeHome) -> _Pause:
        now = self._around.environment.clock
        if not home.status:
            await home.write_status(status_of_pending(generation=home.generation, now=now()))
        await home.mend()
        previous = home.status
        try:
            spec = home.document().spec
            bootstrap_of(spec.cluster)  # before any Secret is asked for
            await home.read()
        except InvalidDocument as error:
            message = "; ".join(error.problems)
            status = status_of_invalid(error.reason, message, generation=home.generation, previous=previous, now=now())
            await _write(home, status)
            return _Pause("held", CHECK_EVERY)
        try:
            cluster = await self._cluster(key, home)
        except CredentialsInvalid as error:
            failure = Failure(FailureKind.CREDENTIALS, "spec.cluster", str(error))
            status = status_of_unreachable(failure, generation=home.generation, previous=previous, now=now())
            await _write(home, status)
            return _Pause("waiting", self._slower(key, (home.generation, "credentials"), 2.0, CHECK_EVERY))
        shell = Shell(
            home=home,
            kafka=cluster,
            now=now,
            sleep=self._around.environment.sleep,
            rival_of=lambda cluster_id: self._claims.rival_of(key, cluster_id),
            before_act=self._before_act,
            ages=self._ages.setdefault(key, Ages(self._around.environment.monotonic)),
        )
        settled = self._settled.pop(key, None)
        if (
            settled is not None
            and settled.holds(home, self._around.environment.monotonic())
            and await cluster.unchanged()
        ):
            self._settled[key] = settled
            return _Pause("done", spec.drift.check_every_seconds)
        last = await one_pass(shell)
        if isinstance(last.decision, Done):
            self._settled[key] = _Until(_version(home), self._around.environment.monotonic() + FULL_LOOK_EVERY)
        if isinstance(last.decision, Done | Held):
            await cluster.rest()
        self._log(key, home.generation, _told(last))
        return self._pause(key, home, last, spec.drift.check_every_seconds)

    async def _cluster(self, key: Key, home: KubeHome) -> OpenCluster:
        """The one that is open, unless the document, or a Secret it names, says something else now."""
        spec = home.document().spec.cluster
        material = {one: await self._material(key.namespace, one) for one in references(spec)}
        held = self._clusters.get(key)
        if held is not None and (held.spec, held.material) == (spec, material):
            return held.cluster
        settings = await aside(lambda: settings_of(spec, material_of(material), policy=self._around.policy))
        await self._close(key)
        settings = replace(settings, request_timeout=min(settings.request_timeout, LONGEST_REQUEST))
        opened = _Open(spec, material, self._open(settings))
        self._clusters[key] = opened
        return opened.cluster

    def _before_act(self, _: Considered) -> None:
        if self._operators.handed_over:
            raise Conflict("the operator is shutting down; its successor continues")

    async def _close(self, key: Key) -> None:
        self._settled.pop(key, None)
        held = self._clusters.pop(key, None)
        if held is not None:
            await held.cluster.close()

    def _log(self, key: Key, generation: int, text: str) -> None:
        """What was said already is not said again."""
        pace = self._pace(key)
        if pace.logged != (generation, text):
            pace.logged = generation, text
            logger.info(text, extra={**_labels(key), "generation": generation})

    async def _material(self, namespace: str, reference: Reference) -> dict[str, str] | None:
        read = self._api.secret if reference.kind == "Secret" else self._api.config_map
        try:
            return await read(namespace, reference.name)
        except Refused:  # whether or not it is there
            raise CredentialsInvalid(
                f"the operator is not authorized to read the {reference.kind} {reference.name}; "
                f"allow its ServiceAccount to get {reference.kind.lower()}s in the namespace {namespace}"
            ) from None

    def _pause(self, key: Key, home: KubeHome, last: Pass, check_every: float) -> _Pause:
        if isinstance(last.decision, Act) and not isinstance(last.outcome, Applied):
            # Nothing came of it, and it will be sent again: not every second for ever.
            said = home.generation, last.decision.step, type(last.outcome)
            return _Pause("acting", self._slower(key, said, last.requeue_after or 1.0, SLOWEST_WAIT))
        if isinstance(last.decision, Act | Done | Held):
            self._pace(key).said = ()
        if isinstance(last.decision, Act):
            return _Pause("acting", last.requeue_after or 0.0)
        if isinstance(last.decision, Done | Held):
            return _Pause("done" if isinstance(last.decision, Done) else "held", check_every)
        first = last.requeue_after or 2.0
        reason = last.decision.kind if isinstance(last.decision, Failure) else last.decision.reason
        slowest = max(first, min(check_every, SLOWEST_WAIT))
        return _Pause("waiting", self._slower(key, (home.generation, reason), first, slowest))

    def _again(self, key: Key) -> float:
        """Somebody wrote meanwhile: read again, decide again, write again.

        Whoever has it written all the time may not keep younger resources waiting for what it turns out to own.
        """
        again = self._slower(key, ("conflict",), 0.05, 1.0)
        if self._pace(key).times:
            self._claims.passed(key)
        return max(again, self._toll(key))

    def _toll(self, key: Key) -> float:
        """Seconds that this pass costs: none for a while, and the more passes follow one another the sooner some."""
        pace, now = self._pace(key), self._around.environment.monotonic()
        pace.left = min(BURST, pace.left + (now - pace.at) / TOLL) - 1.0
        pace.at = now
        if pace.left >= 0.0:
            return 0.0
        pace.left = 0.0
        logger.warning("reconcile rate limit reached; next reconciliation in %.0f s", TOLL, extra=_labels(key))
        return TOLL

    def _pace(self, key: Key) -> _Pace:
        return self._paces.setdefault(key, _Pace(self._around.environment.monotonic()))

    def _slower(self, key: Key, said: tuple[object, ...], first: float, slowest: float) -> float:
        """Twice as long each time the same thing is said: what stands in the way is asked about a bounded number."""
        pace = self._pace(key)
        pace.times = pace.times + 1 if pace.said == said else 0
        pace.said = said
        return min(first * 2.0 ** min(pace.times, 20), slowest)

    async def _forget(self, key: Key) -> None:
        self._claims.forget(key)
        self._paces.pop(key, None)
        self._ages.pop(key, None)
        self._written.pop(key, None)
        self._rests.pop(key, None)
        self._unkept.pop(key, None)
        self._operators.forget(key)
        self._watcher.forgot(key)
        await self._close(key)
        logger.info("deleted; its cluster is left unchanged", extra=_labels(key))

    async def _post_events(self, before: Mapping[str, Any], home: KubeHome) -> None:
        for record in events_between(before, home.status):
            event = event_of(
                record, home.raw, environment=self._around.environment, instance=self._around.operator.instance
            )
            try:
                await self._api.create_event(event["metadata"]["namespace"], event)
            except KubeError as error:
                logger.warning("an Event could not be written: %s", error)


@dataclass(frozen=True, slots=True)
class _Pause:
    result: str
    seconds: float


_RESULTS = {"done": "success", "held": "success", "acting": "requeued", "waiting": "requeued"}


async def _write(home: KubeHome, status: Mapping[str, Any]) -> None:
    if status != home.status:
        await home.write_status(status)


def _version(home: KubeHome) -> str:
    return str(home.raw["metadata"]["resourceVersion"])


def _labels(key: Key) -> dict[str, object]:
    return {"namespace": key.namespace, "resource": key.name}


def _told(last: Pass) -> str:
    if isinstance(last.decision, Failure):
        return f"Unreachable: {last.decision}"
    if isinstance(last.decision, Act):
        return f"UpdateFeatures {last.decision.step}: {type(last.outcome).__name__}"
    return f"{last.decision.reason}: {last.decision.message}"
