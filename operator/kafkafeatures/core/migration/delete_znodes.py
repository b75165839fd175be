"""The step that gives a cluster back to ZooKeeper: it deletes `/controller` and `/migration`, or `/migration` alone.

Pure. Made by `core/migration/release.py`, sent by `reconcile/act.py`, registered in `core/kinds.py`.

The step is one transaction (`multi`), the only write of the operator to ZooKeeper. Whoever claims `/controller`, a
broker or a KRaft controller, also writes `/controller_epoch`. So the transaction requires the version of
`/controller_epoch` that was read: if it arrives after a new claim, it fails as a whole. The versions of the deleted
znodes would not protect them, as a new `/controller` begins at version 0 again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from msgspec import Struct

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp, read_number, read_text
from kafkafeatures.api.status import HistoryEntry, Intent, MigrationStatus, Result, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.event_records import EventFacts, EventRecord, note_of
from kafkafeatures.core.engine.settling import ON_ITS_WAY, AgeOf, ObservationPair, OpenOutcome
from kafkafeatures.core.engine.steps import InFlight, Rejection, Step, sent_as
from kafkafeatures.core.facts.observation import Known, Observation
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import ControllerEpoch
from kafkafeatures.core.words import format_span, printable

CONTROLLER, EPOCH, MIGRATION = "/controller", "/controller_epoch", "/migration"

NO_NODE, NO_AUTH, BAD_VERSION = -101, -102, -103
"""Codes of ZooKeeper (`KeeperException.Code`) with which it rejects a transaction."""


class ZnodeLife(Struct, frozen=True):
    """Identity of a znode and of its content: by czxid, the transaction that created it, and by version."""

    czxid: int
    version: int


class DeleteZnodes(Struct, frozen=True):
    """Delete znodes in one transaction, if they and `/controller_epoch` are as they were read.

    cluster_id: content of `/cluster/id`.
    epoch: value and version of `/controller_epoch`, as it was read.
    migration, controller: identities of the znodes `/migration` and `/controller`; None: not deleted.
    raise_to: new value of `/controller_epoch`, set in the same transaction, so that the next broker that becomes the
        controller has an epoch above those that the quorum wrote (`release` in `core/migration/release.py`); None: it
        is unchanged.
    znode_content: content of `/migration`, to be kept in the status.
    """

    kind: ClassVar[str] = "DeleteZnodes"
    recorded_as: ClassVar[str] = "DeleteZnodes"
    counts: ClassVar[bool] = False  # the plan continues after it: the brokers are restarted then
    is_followed: ClassVar[bool] = False  # nothing else is sent until the outcome is known
    is_read_in_zookeeper: ClassVar[bool] = True
    settled_by: ClassVar[str] = "the znodes were read again"
    reason: ClassVar[Reason] = Reason.MIGRATING
    consents_of_plan: ClassVar[frozenset[str]] = frozenset()
    consent: ClassVar[str] = ""  # the plan has spent its consents already: `core/migration/consents.py`
    revision: ClassVar[str] = ""
    # A second reading is not needed: the transaction fails if a znode is not as it was read. It would also be slow, as
    # requests to a cluster without a controller may run into their timeouts.
    is_decided_again: ClassVar[bool] = False

    cluster_id: str
    epoch: ControllerEpoch
    migration: ZnodeLife | None
    controller: ZnodeLife | None = None
    raise_to: int | None = None
    znode_content: str = ""

    def __str__(self) -> str:
        raised = f", raise {EPOCH} {self.epoch.value} -> {self.raise_to}" if self.raise_to is not None else ""
        return f"delete {self.target}{raised}"

    @property
    def deletes(self) -> Mapping[str, ZnodeLife]:
        """Znodes that are deleted, by path, in the order of the transaction."""
        lives = {CONTROLLER: self.controller, MIGRATION: self.migration}
        return {path: life for path, life in lives.items() if life is not None}

    @property
    def target(self) -> str:
        """Paths of the znodes that are acted on, as text."""
        return " and ".join(self.deletes)

    @property
    def request(self) -> str:
        """Request that leaves the process, in words."""
        return f"ZooKeeper transaction: {self}"

    @property
    def in_progress(self) -> str:
        """Message while the step is carried out."""
        return f"{self} in ZooKeeper"

    @property
    def goes_at_any_time(self) -> bool:
        """Tell whether `/controller` is deleted: until then the cluster has no controller, so no window delays the
        step.
        """
        return self.controller is not None

    def is_asked_for_by(self, earlier: Step) -> bool:
        """Always False: a deletion whose outcome is open is not sent again."""
        return False

    def begin(self, at: Stamp, via: Via, observation: Observation, *, corrects_drift: bool = False) -> DeletionInFlight:
        """Deletion in flight, to be remembered from the moment at which it may be sent."""
        return DeletionInFlight(self, at, via)

    def rejection(self, code: int, message: str) -> Rejection:
        """Consequence of a rejection: a person grants the missing right, or, if a znode was changed in between, the
        step is decided anew.
        """
        reason, needs_action = _REJECTED.get(code, (Reason.MIGRATION_FAILED, True))
        remedy = "see which principal may change these znodes: zookeeper-shell.sh HOST:PORT getAcl /migration"
        if not needs_action:
            remedy = "stop what changes these znodes: a controller or broker that still runs"
        return Rejection(reason, f"ZooKeeper refused to {self}: {message}", remedy, needs_action)

    def to_intent(self) -> Mapping[str, Any]:
        """Fields of the intent that are specific to this kind."""
        fields: dict[str, Any] = {
            "target": self.target,
            "clusterId": self.cluster_id,
            "epoch": self.epoch.value,
            "epochVersion": self.epoch.version,
        }
        for name, life in (("controller", self.controller), ("migration", self.migration)):
            if life is not None:
                fields |= {f"{name}Czxid": life.czxid, f"{name}Version": life.version}
        fields |= {"raiseTo": self.raise_to} if self.raise_to is not None else {}
        return {**fields, **({"kept": self.znode_content} if self.znode_content else {})}

    @classmethod
    def read(cls, intent: Intent) -> DeletionInFlight:
        """Deletion in flight that an intent describes. Raises ValueError if the intent is damaged."""
        fields = intent.unknown
        step = cls(
            cluster_id=read_text(fields.get("clusterId")),
            epoch=ControllerEpoch(_number(fields, "epoch"), _number(fields, "epochVersion")),
            migration=_life(fields, "migration"),
            controller=_life(fields, "controller"),
            raise_to=_number(fields, "raiseTo") if "raiseTo" in fields else None,
            znode_content=read_text(fields.get("kept", "")),
        )
        if not step.deletes:
            raise ValueError("it deletes nothing")
        return DeletionInFlight(step, **sent_as(intent))

    @classmethod
    def is_irreversible(cls, ended: HistoryEntry) -> bool:
        """Always False: the migration can begin again."""
        return False

    @classmethod
    def event_of(cls, ended: HistoryEntry, facts: EventFacts | None) -> EventRecord | None:
        """Event of a deletion that was carried out, with the content of `/migration`; else None."""
        if ended.result != Result.APPLIED:
            return None
        facts = facts or EventFacts(kind=cls.kind)
        note = note_of(ended.action, ended.message) + _was(facts.kept)
        return EventRecord("ZnodesDeleted", "Delete", note, facts=facts)


_REJECTED: Mapping[int, tuple[Reason, bool]] = {
    NO_AUTH: (Reason.NOT_AUTHORIZED, True),
    NO_NODE: (Reason.MIGRATING, False),
    BAD_VERSION: (Reason.MIGRATING, False),
}
"""By code: reason of the rejection, and whether a person has to act. Without that, a znode was changed in between."""


def _was(znode_content: str) -> str:
    return f"; {MIGRATION} was {printable(znode_content)}" if znode_content else ""


def _number(fields: Mapping[str, Any], name: str) -> int:
    number: int = read_number(fields.get(name))
    if not 0 <= number < 2**63:
        raise ValueError(f"{name}: {number} is out of range")
    return number


def _life(fields: Mapping[str, Any], name: str) -> ZnodeLife | None:
    if f"{name}Czxid" not in fields:
        return None
    return ZnodeLife(_number(fields, f"{name}Czxid"), _number(fields, f"{name}Version"))


class DeletionInFlight(InFlight, frozen=True):
    """A deletion whose outcome is not known."""

    step: DeleteZnodes

    def settle(self, pair: ObservationPair) -> Result | OpenOutcome:
        """Outcome, by the znodes that exist now.

        A transaction is carried out as a whole. So it was not carried out while one of its znodes still exists. It can
        no longer be carried out once another of its znodes is gone, or `/controller_epoch` was written. Otherwise it
        may still be on its way, even after our session has ended: a server that was halted may pass it on until the
        other servers have expired the session.

        If all its znodes are gone, but the epoch is lower than the transaction would have set it, another client
        deleted them.
        """
        previous, current = (_left(self.step, observation) for observation in (pair.earlier, pair.later))
        if isinstance(current, Failure):
            return OpenOutcome(f"the znodes have to be read: {current}")
        if not current.remaining:
            raised = self.step.raise_to is None or current.epoch.value >= self.step.raise_to
            return Result.APPLIED if raised else Result.SUPERSEDED
        if len(current.remaining) < len(self.step.deletes) or current.epoch.version != self.step.epoch.version:
            return Result.NOT_APPLIED
        if previous != current or pair.earlier is pair.later:
            return OpenOutcome("the znodes have to be read twice")
        within = max(ON_ITS_WAY, pair.on_its_way(self.at))
        if pair.known_for(self.at) < within:
            return OpenOutcome(f"ZooKeeper may still carry it out, until {format_span(within)} after it began")
        return Result.NOT_APPLIED

    def closing(self, status: Status, result: Result, age_of: AgeOf) -> Status:
        """The status with the content of `/migration`, which nothing else has once the znode is deleted."""
        if not self.step.znode_content or result not in (Result.APPLIED, Result.SUPERSEDED):
            return status
        migration = status.migration or MigrationStatus()
        return replace(status, migration=replace(migration, kept_migration_node=self.step.znode_content))

    @property
    def facts(self) -> EventFacts:
        """Facts of the Event, with the content of `/migration`."""
        return EventFacts(kind=self.step.kind, begun_at=self.at, kept=self.step.znode_content)

    def announced(self) -> EventRecord | None:
        """Event that names what is about to be deleted."""
        return EventRecord("DeletingZnodes", "Delete", f"{self.step}{_was(self.step.znode_content)}", facts=self.facts)

    def progress(self, ago: Callable[[str], str]) -> str:
        """Progress in one line: carried out, or outcome not known yet."""
        answered = "done; the znodes are being read again" if self.accepted else "outcome not known yet"
        return f"{self.step}, sent {ago(self.at)} ago; {answered}"


class _Left(Struct, frozen=True):
    """Znodes of a deletion as they are now.

    remaining: paths of the znodes that still exist, by their czxid: not deleted and created anew.
    epoch: the present `/controller_epoch`.
    """

    remaining: frozenset[str]
    epoch: ControllerEpoch


def _left(step: DeleteZnodes, observation: Observation) -> _Left | Failure:
    """Remaining znodes; a Failure if they were not read, or may be those of another ensemble, where no znode would
    match, as if all had been deleted.
    """
    if not isinstance(observation.zookeeper, Known):
        return observation.zookeeper.failure
    reading = observation.zookeeper.value
    id_, epoch, remaining = reading.cluster_id, reading.controller_epoch, set()
    if isinstance(id_, Failure):
        return id_
    if id_ != step.cluster_id:
        subject, message = f"ZooKeeper {reading.ensemble}", f"connected to cluster {id_}, expected {step.cluster_id}"
        return Failure(FailureKind.WRONG_CLUSTER, subject, message)
    if isinstance(epoch, Failure):
        return epoch
    if epoch is None or epoch.value < step.epoch.value or epoch.version < step.epoch.version:
        return _behind(EPOCH)
    for path, life in step.deletes.items():
        znode = reading.controller if path == CONTROLLER else reading.migration
        if isinstance(znode, Failure):
            return znode
        if znode is not None and znode.czxid < life.czxid:
            return _behind(path)
        if znode is not None and znode.czxid == life.czxid:
            remaining.add(path)
    return _Left(frozenset(remaining), epoch)


def _behind(path: str) -> Failure:
    return Failure(
        FailureKind.STALE,
        f"znode {path}",
        "it is older than it was before",
        "if ZooKeeper was restored from a backup, or this is another ensemble, connect to the one that the brokers use",
    )
