"""One reconciliation of one resource of the API server, with its connections, Events and pace.

Called by the queue (`reconcile/queue.py`). Returns the seconds until the next one is due; None for a deleted resource.
Between reconciliations it keeps a `ProcessCache` of each resource and open connections: all of it may be lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kafkafeatures.api.document import InvalidDocument
from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import EMPTY, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Held
from kafkafeatures.core.engine.desired_state import Mode, Rollout
from kafkafeatures.core.engine.steps import Rejected
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.kinds import follows, sent_in
from kafkafeatures.core.report.events import events_between
from kafkafeatures.core.report.status import (
    status_of_failed_reconciliation,
    status_of_invalid,
    status_of_pending,
    status_of_unreachable,
)
from kafkafeatures.core.roll.asked import asked_among, request_of
from kafkafeatures.kube.api import KubernetesApi, ResourceKey
from kafkafeatures.kube.errors import Conflict, Gone, KubeError, RequestRefused, Unavailable
from kafkafeatures.kube.events import event_of
from kafkafeatures.reconcile.act import reconcile, summary_of, write_if_changed
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.claims import Claims
from kafkafeatures.reconcile.client_evidence import ClientEvidence
from kafkafeatures.reconcile.connections import Connected, Connections, OpenClusterOf
from kafkafeatures.reconcile.context import EffectRecord, ReconcileContext
from kafkafeatures.reconcile.credentials import CredentialsInvalid
from kafkafeatures.reconcile.evaluation import Evaluation
from kafkafeatures.reconcile.kubernetes_store import KubernetesStore, SchemaOutdated
from kafkafeatures.reconcile.listeners import NOT_RECORDED, ReconciliationListener, RecorderPort
from kafkafeatures.reconcile.operator_context import OperatorContext
from kafkafeatures.reconcile.operators import HAND_OVER, Operators
from kafkafeatures.reconcile.pace import Pace
from kafkafeatures.reconcile.pauses import CHECK_EVERY, SLOWEST_WAIT, Pause, is_held_back, pause_after
from kafkafeatures.reconcile.pods import Pods, pods_of, withdraw
from kafkafeatures.reconcile.process_cache import ProcessCache, Settlement, Until
from kafkafeatures.reconcile.withdrawals import withdraw_all, without_requests

FULL_READING_EVERY = 600.0
"""Seconds between full readings of the cluster of a resource at rest. In between, nodes are not asked as long as the
metadata log shows no change.
"""

logger = logging.getLogger(__name__)


class Controller:
    """Reconciles resources; the queue calls `reconcile` and `failed`. `watcher`: for metrics. `current`: returns the
    resourceVersion of a key that a watch shows; empty where none does.
    """

    def __init__(
        self,
        api: KubernetesApi,
        claims: Claims,
        open_cluster: OpenClusterOf,
        context: OperatorContext,
        watcher: ReconciliationListener,
        *,
        current: Callable[[ResourceKey], str] = lambda _: "",
        recorder: RecorderPort = NOT_RECORDED,
    ) -> None:
        self._api, self._claims, self._context = api, claims, context
        self._watcher, self._current, self._recorder = watcher, current, recorder
        environment = context.environment
        self._clock, self._monotonic, self._sleep = environment.clock, environment.monotonic, environment.sleep
        evidence = ClientEvidence(api, context.open_evidence, context.policy, context.environment)
        self._connections = Connections(api, open_cluster, context.policy, evidence, context.open_ensemble)
        self._operators = Operators(context.operator, lambda: api.began, self._monotonic)
        self._caches: dict[ResourceKey, ProcessCache] = {}

    def discard_versions(self) -> None:
        """Discard all known versions, but not those of a reconciliation under way: etcd was restored."""
        logger.warning("the API server returned an older state: etcd was restored; every resource is read again")
        for key, cache in self._caches.items():
            cache.settlement, cache.next_due = None, None
            self._caches[key] = replace(cache, own_versions=set(), last=cache.last.of_no_version())

    def is_external_change(self, resource: Mapping[str, Any]) -> bool:
        """Tell whether a watch shows a version that the last reconciliation did not write itself."""
        cache = self._caches.get(ResourceKey.of(resource))
        return cache is None or resource["metadata"]["resourceVersion"] not in cache.own_versions

    def note_changes(self, resources: Iterable[Mapping[str, Any]]) -> list[ResourceKey]:
        """Note the claims of resources that a list or watch showed; return the keys of those to reconcile."""
        changed = [resource for resource in resources if self.is_external_change(resource)]
        for resource in changed:
            self._claims.note(resource)
        return [ResourceKey.of(resource) for resource in changed]

    async def reconcile(self, key: ResourceKey) -> float | None:
        """Reconcile once. An error goes to the queue, which calls `failed` with it."""
        began = self._monotonic()
        at_rest = await self._at_rest(key, began)
        if at_rest is not None:
            return at_rest
        store = self._store(key)
        try:
            await store.fetch()
            if "deletionTimestamp" in store.raw["metadata"]:  # only another finalizer keeps it
                raise Gone(str(key))
        except Gone:
            await self._forget(key)
            return None
        cache = self._of(key)
        due = cache.next_due
        if due is not None and due.holds(store.version, began) and not self._context.notifier.is_unnoted(key):
            return due.until - began  # a watch may show our own write before its answer has arrived
        cache.next_due, cache.own_versions = None, store.written
        self._claims.note(store.raw, was_read=store.is_whole)
        previous_status = store.status
        try:
            pause = await self._guarded(key, cache, store)
        except Gone:
            await self._forget(key)
            return None
        except Conflict:
            return self._pause_after_conflict(key, cache)
        finally:
            await self._post_events(previous_status, store)
        self._claims.note(store.raw, was_read=store.is_whole)
        self._claims.reconciled(key)
        self._watcher.reconciled(key, pause.result, self._monotonic() - began, store.status)
        self._watcher.suspended(key, store.is_suspended)
        return self._until_next(key, cache, store.version, pause.seconds)

    async def failed(self, key: ResourceKey, error: BaseException) -> None:
        """Log a failed reconciliation, and write it into the status. Not while the API server is away: that is no
        defect of a reconciliation, and nothing can be written.
        """
        self._claims.reconciled(key)
        self._watcher.reconciled(key, "failed", 0.0, EMPTY)
        if isinstance(error, Unavailable):
            logger.warning("the API server: %s", error, extra=key.log_fields)
            return
        if isinstance(error, TimeoutError):
            message = "the reconciliation exceeded its deadline and was cancelled; it is retried"
        elif isinstance(error, SchemaOutdated):
            message = str(error)
        elif isinstance(error, KubeError):
            message = f"the API server: {error}"
        else:
            message = f"{type(error).__name__} in the operator: a bug; see the operator's log"
        logger.error("reconciliation failed: %s", message, extra=key.log_fields, exc_info=error)
        if isinstance(error, RequestRefused | SchemaOutdated):
            return  # the API server would refuse this write as well
        store = self._store(key)
        try:
            await store.fetch()
            if store.status.is_stalled(Reason.SCHEMA_OUTDATED):
                return  # a person has to act on that, and this status may be the last that has the dropped fields
            status = status_of_failed_reconciliation(
                message, generation=store.generation, previous=store.status, at=self._clock()
            )
            await store.write_partly(status)
        except (KubeError, SchemaOutdated) as write_error:
            logger.warning("the API server: %s", write_error, extra=key.log_fields)

    def hand_over(self) -> None:
        """Note that the process is being stopped: its successor may begin before the last reconciliation ends."""
        self._operators.hand_over()

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close_all()

    # --- one reconciliation ---

    async def _at_rest(self, key: ResourceKey, began: float) -> float | None:
        """Seconds until the next reconciliation, if this one can end without asking the API server; else None. It can
        if a watch still shows the version that the last reconciliation wrote, and either its pause is not over, or the
        cluster was in sync then and shows no change since.
        """
        cache, version = self._caches.get(key), self._current(key)
        if cache is None or not version or self._context.notifier.is_unnoted(key):
            return None
        if cache.next_due is not None and cache.next_due.holds(version, began):
            return cache.next_due.until - began
        settled = await self._settled(key, cache, version)
        if settled is None:
            return None
        self._recorder.saw(key, settled.cluster, settled.status)
        self._watcher.reconciled(key, "success", self._monotonic() - began, settled.status)
        return self._until_next(key, cache, version, settled.check_every)

    async def _settled(self, key: ResourceKey, cache: ProcessCache, version: str) -> Settlement | None:
        """The settlement, if the resource is still at rest: it has the same version, no other owner, and neither the
        metadata log nor the pods have changed; else None.
        """
        settled = cache.settlement
        if settled is None or not settled.holds(version, self._monotonic()):
            return None  # the settlement stays, as a watch may show a version older than the last write
        if settled.applies and self._claims.competing_owner(key, settled.status.cluster_id):
            return None
        still = await settled.cluster.unchanged() and (settled.pods is None or await settled.pods.are_as_before())
        if not still:
            cache.settlement = None
        return cache.settlement  # it may be None by now: `discard_versions` may have been called while this waited

    async def _guarded(self, key: ResourceKey, cache: ProcessCache, store: KubernetesStore) -> Pause:
        """Reconcile, unless a second operator writes this status; stall if the API server drops fields of it."""
        rivals = self._operators.beside_us(store.raw)
        if rivals:
            cache.settlement = None
            await self._connections.close(key)
            if not self._operators.is_reported(store.status, store.generation):
                await self._stall(key, store, Reason.CONFLICT_DETECTED, self._operators.conflict_message(rivals))
            # The other operator may write this status, so the results of these two calls are not written to it.
            if not self._operators.hand_over_ends_in:  # no operator judges requests now, so they are withdrawn
                await self._without_requests(key, store.status)
            self._context.notifier.tell(key, store.raw["metadata"]["uid"], store.status)
            return Pause("success", self._operators.hand_over_ends_in or CHECK_EVERY)
        try:
            if cache.unkept is not None and cache.unkept[0] == store.generation:
                await store.try_status(cache.unkept[1])  # until the server keeps it whole, nothing else is done
            cache.unkept = None
            pause = await self._read_and_reconcile(key, cache, store)
        except SchemaOutdated as error:
            cache.unkept = store.generation, error.status
            if store.kept.cluster_id:  # before the first contact no plan was approved, and no level reached
                # That an approved plan is over, or a level was reached, is true even if the rest could not be written.
                store.kept = replace(store.kept, plan=error.status.plan, features=error.status.features)
            store.kept = await self._without_requests(key, store.kept)
            await self._stall(key, store, Reason.SCHEMA_OUTDATED, str(error))
            pause = Pause("success", SLOWEST_WAIT)
        await store.acknowledge(self._context.notifier.tell(key, store.raw["metadata"]["uid"], store.status))
        return pause

    async def _read_and_reconcile(self, key: ResourceKey, cache: ProcessCache, store: KubernetesStore) -> Pause:
        """Read the document, open its cluster, reconcile once, and note whether the resource is at rest."""
        if store.status == EMPTY:
            await store.write_status(status_of_pending(generation=store.generation, at=self._clock()))
        previous = store.status
        try:
            document = cache.document_of(store.raw)
            resource = store.resource(document)
        except InvalidDocument as error:
            text = "; ".join(error.problems)
            status = status_of_invalid(
                error.reason, text, generation=store.generation, previous=previous, at=self._clock()
            )
            await write_if_changed(store, store, await self._without_requests(key, status))
            return Pause("success", CHECK_EVERY)
        try:
            opened = await self._connections.opened(key, document.spec)
        except CredentialsInvalid as error:
            failure = Failure(FailureKind.CREDENTIALS, "spec.cluster", str(error))
            status = status_of_unreachable(failure, generation=store.generation, previous=previous, at=self._clock())
            await write_if_changed(store, resource, await self._without_requests(key, status))
            return Pause("requeued", cache.pace.backoff((store.generation, "credentials"), 2.0, CHECK_EVERY))
        cluster, check_every = opened.cluster, document.spec.drift.check_every_seconds
        if opened.is_new:
            cache.settlement = None
        if await self._settled(key, cache, store.version):  # `_at_rest` could not tell: no watch showed this version
            self._recorder.saw(key, cluster, store.status)
            return Pause("success", check_every)
        cache.settlement = None
        pods = self._pods_of(key, resource.desired.rollout)
        last = await reconcile(self._context_of(key, cache, store, opened, pods), resource)
        self._recorder.saw(key, cluster, last.status)
        idle = isinstance(last.decision, Done | Held) and last.status.soak_started_at is None
        rejected = isinstance(last.outcome, Rejected) and last.status.is_stalled(Reason.CONTROLLER_REJECTED)
        at_rest = (isinstance(last.decision, Done) and idle) or (rejected and last.status.soak_started_at is None)
        # During a soak all nodes are read. The log does not show what happens in ZooKeeper, nor a reading of evidence.
        if at_rest and not (resource.desired.rests_on_zookeeper or self._connections.is_reading(key)):
            until, applies = self._monotonic() + FULL_READING_EVERY, resource.desired.mode is Mode.APPLY
            cache.settlement = Settlement(store.version, until, applies, check_every, store.status, cluster, pods)
        held_back = is_held_back(last.decision, last.status)
        if held_back or not follows(last.status):
            cluster.release_partitions(at_once=held_back)
        if idle:
            await cluster.release_idle_connections()
        self._log(key, store.generation, summary_of(last))
        return pause_after(last, resource, cache.pace, check_every)

    def _pods_of(self, key: ResourceKey, rollout: Rollout) -> Pods | None:
        rival = partial(self._claims.competing_driver, key)
        return pods_of(self._api, key.namespace, rollout, self._clock, rival)

    def _context_of(
        self, key: ResourceKey, cache: ProcessCache, store: KubernetesStore, opened: Connected, pods: Pods | None
    ) -> ReconcileContext:
        return ReconcileContext(
            store, opened.cluster, self._context.environment, cache.ages,
            competing_owner=lambda cluster_id: self._claims.competing_owner(key, cluster_id), hand_over=HAND_OVER,
            before_act=self._before_act, effects=partial(self._sends, key), on_settled=partial(self._claims.acted, key),
            workloads=pods, zookeeper=opened.zookeeper, clients=opened.clients, managed=opened.managed,
            is_stopping=lambda: self._operators.handed_over, withdraw=partial(withdraw, self._api, key.namespace),
        )  # fmt: skip

    async def _without_requests(self, key: ResourceKey, status: Status) -> Status:
        withdrawal = None if self._operators.handed_over else partial(withdraw, self._api, key.namespace)
        return await without_requests(status, stamp(self._clock()), withdrawal)

    def _before_act(self, _: Evaluation) -> None:
        if self._operators.handed_over:
            raise Conflict("the operator is shutting down; its successor continues")

    def _sends(self, key: ResourceKey, effect: EffectRecord) -> None:
        self._claims.acts(key, effect.via, request_of(effect.step))
        self._context.effects(effect)

    async def _stall(self, key: ResourceKey, store: KubernetesStore, reason: Reason, message: str) -> None:
        """Write a halt on top of the last status that the API server kept whole (`store.kept`), but with the cluster id
        and the unverified consents of the present one.
        """
        base, last = store.kept, store.status
        unverified = tuple(sorted({*base.unverified_consents, *last.unverified_consents}))
        previous = replace(base, cluster_id=base.cluster_id or last.cluster_id, unverified_consents=unverified)
        self._log(key, store.generation, f"{reason}: {message}")
        await store.write_partly(
            status_of_invalid(reason, message, generation=store.generation, previous=previous, at=self._clock())
        )

    # --- pauses ---

    def _until_next(self, key: ResourceKey, cache: ProcessCache, version: str, pause: float) -> float:
        seconds = max(pause, self._throttle(key, cache))
        cache.next_due = Until(version, self._monotonic() + seconds)
        return seconds

    def _pause_after_conflict(self, key: ResourceKey, cache: ProcessCache) -> float:
        """Seconds until the repetition of a reconciliation whose resource was changed meanwhile. After the first
        repetition it counts as passed: younger resources wait until it is known what this one owns, and must not wait
        for ever for a resource that is written all the time.
        """
        seconds = cache.pace.backoff(("conflict",), 0.05, 1.0)
        if cache.pace.repeats:
            self._claims.reconciled(key)
        return max(seconds, self._throttle(key, cache))

    def _throttle(self, key: ResourceKey, cache: ProcessCache) -> float:
        seconds = cache.pace.throttle()
        if seconds:
            logger.warning("reconcile rate limit reached; next reconciliation in %.0f s", seconds, extra=key.log_fields)
        return seconds

    # --- kept between reconciliations ---

    def _store(self, key: ResourceKey) -> KubernetesStore:
        return KubernetesStore(self._api, key, lambda: self._operators.writer, self._of(key).last)

    def _of(self, key: ResourceKey) -> ProcessCache:
        cache = self._caches.get(key)
        if cache is None:
            cache = self._caches[key] = ProcessCache(Pace(self._monotonic), Ages(self._monotonic))
        return cache

    async def _forget(self, key: ResourceKey) -> None:
        status = self._of(key).last.status
        for intent in asked_among(sent_in(status)):
            self._claims.acts(key, by=intent.step.by)
        if await withdraw_all(status, partial(withdraw, self._api, key.namespace), self._sleep, key.log_fields):
            self._claims.acted(key)
        self._caches.pop(key, None)
        self._claims.forget(key)
        self._operators.forget(key)
        self._watcher.forgot(key)
        self._recorder.forgot(key)
        self._context.notifier.forgot(key)
        await self._connections.forget(key)
        logger.info("deleted; its cluster is left unchanged", extra=key.log_fields)

    # --- logs and Events ---

    def _log(self, key: ResourceKey, generation: int, text: str) -> None:
        """Log a text, unless it was logged last."""
        cache = self._of(key)
        if cache.logged != (generation, text):
            cache.logged = generation, text
            logger.info(text, extra={**key.log_fields, "generation": generation})

    async def _post_events(self, previous_status: Status, store: KubernetesStore) -> None:
        for record in events_between(previous_status, store.status):
            event = event_of(
                record, store.raw, environment=self._context.environment, instance=self._context.operator.instance
            )
            try:
                await self._api.create_event(event["metadata"]["namespace"], event)
            except KubeError as error:
                logger.warning("an Event could not be written: %s", error)
