"""Store of a resource in files: the document in one, the status in a state file beside it.

Used by the command line without Kubernetes. The state file is replaced by an atomic rename once it is on disk, so it is
never half-written. It is locked while the command runs, so that two commands never act for one resource. Its status has
the cluster id of the first contact; `core/engine/gates.py` refuses another cluster.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from kafkafeatures.api.document import InvalidDocument
from kafkafeatures.api.names import API_VERSION, KIND
from kafkafeatures.api.schema import as_json
from kafkafeatures.api.spec import KafkaFeatures
from kafkafeatures.api.status import EMPTY, Status, read_status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.consents import repeatable
from kafkafeatures.core.resolve import wanted_of
from kafkafeatures.reconcile.ports import NotReadable, Resource


class StateHeld(Exception):
    """Another process uses this state file."""


class StateUnreadable(Exception):
    """The file is no valid state file, or belongs to another document."""


_NOT_YAML = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError)
# libyaml's, if PyYAML has it: ten times as fast
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def lock_of(state: Path) -> Path:
    """The lock file of this state file."""
    return state.with_name(state.name + ".lock")


def is_state_of(state: Path, resource: KafkaFeatures) -> bool:
    """Tell whether the file exists and is the state of this resource."""
    try:
        document = yaml.load(state.read_bytes(), _LOADER)  # noqa: S506 - a safe one
    except (OSError, *_NOT_YAML):
        return False
    return isinstance(document, dict) and _belongs_to(document, resource)


def _belongs_to(document: Mapping[str, Any], resource: KafkaFeatures) -> bool:
    return _owner_in(document, resource) == (resource.metadata.namespace, resource.metadata.name)


def _owner_in(document: Mapping[str, Any], resource: KafkaFeatures) -> tuple[Any, Any]:
    """Namespace and name in a state file; without a namespace, that of the resource."""
    entry = document.get("metadata")
    metadata = entry if isinstance(entry, dict) else {}
    return metadata.get("namespace", resource.metadata.namespace), metadata.get("name")


class FileStore:
    """`ResourceStore` for one document and its state file. A context manager: it holds the lock.

    state: path of the state file; None: the status is lost when the process ends.
    approve: hash of a plan that is approved.
    accepted_log: identity of a restored metadata log that a person has accepted; empty for none.
    approves_by_name: False if a command made the document, which then approves neither what is irreversible nor what
        needs a consent. Its consents are of this run, so none was used before.
    reread: reads the document once more; None if it is not to be read again, such as from stdin.
    changed_because: reason why nothing more is sent for this document; empty as long as it is unchanged.
    """

    def __init__(
        self,
        resource: KafkaFeatures,
        state: Path | None,
        *,
        approve: str = "",
        accepted_log: str = "",
        approves_by_name: bool = True,
        reread: Callable[[], KafkaFeatures] | None = None,
    ) -> None:
        self._resource, self._reread = resource, reread
        self.changed_because = ""
        approvals = frozenset({approve} if approve else ())
        # `plan` shows a plan here and writes no status, so a plan that no status has shown may be approved.
        desired_state = wanted_of(resource, approvals=approvals, accepted_log=accepted_log)
        self._desired = replace(desired_state, may_approve_unseen=True, approves_by_name=approves_by_name)
        self._state = state
        self._lock: int | None = None
        self._generation = 0
        self._status = EMPTY
        # Consents that were in the document when its state file was created: nothing shows whether they were
        # used before. A consent that is added later is not among them.
        self._unverified = repeatable(resource.spec.consents) if approves_by_name else frozenset()

    def __enter__(self) -> FileStore:
        self._lock = self._take_lock(self._state) if self._state else None
        try:
            self._load()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._release()

    def approve(self, plan_hash: str) -> None:
        """Approve this plan from now on, instead of earlier approvals. No other plan is carried out."""
        self._desired = replace(self._desired, approvals=frozenset({plan_hash}))

    @property
    def state(self) -> Path | None:
        """The state file."""
        return self._state

    @property
    def name(self) -> str:
        """Namespace and name."""
        return f"{self._resource.metadata.namespace}/{self._resource.metadata.name}"

    def peek(self) -> Resource:
        """The resource with the status that is on disk now, for commands that only read: takes no lock."""
        self._load()
        return self._as_resource()

    def why_unverified(self, consents: Iterable[str]) -> str:
        """Reason why one of the consents, which a plan uses, may have been used before; empty for none."""
        consent = next((consent for consent in consents if consent in self._unverified), "")
        if not consent:
            return ""
        lost = f"the state file {self._state} was created after it" if self._state else "there is no state file"
        return f"it is unknown whether consent {consent} was already used: {lost}"

    async def read(self) -> Resource:
        """The resource. The document was read once, at the start of the command."""
        return self._as_resource()

    async def read_again(self) -> Resource:
        """The resource, once it is checked that the document in its file is unchanged. Raises NotReadable."""
        if self._reread is not None:
            try:
                is_same = self._reread() == self._resource
                self.changed_because = "" if is_same else "the document was changed while this command ran"
            except (InvalidDocument, OSError):
                self.changed_because = "the document cannot be read any more"
        if self.changed_because:
            raise NotReadable(f"{self.changed_because}; run the command again")
        return self._as_resource()

    def _as_resource(self) -> Resource:
        return Resource(
            name=self.name,
            generation=self._generation,
            desired=self._desired,
            status=self._status,
        )

    async def write_status(self, status: Status) -> None:
        """Write the status to a new file on disk, then rename that over the old one."""
        self._status = status
        document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": self._resource.metadata.name,
                "namespace": self._resource.metadata.namespace,
                "generation": self._generation,
            },
            "specDigest": self._digest(),
            "unverifiedConsents": sorted(self._unverified),
            "status": status.as_json(),
        }
        if self._state is None:
            return
        new_file = self._state.with_name(f".{self._state.name}.{os.getpid()}")
        with new_file.open("w", encoding="utf-8") as file:
            yaml.dump(document, file, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
            file.flush()
            os.fsync(file.fileno())
        new_file.replace(self._state)
        folder = os.open(self._state.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the rename itself
        finally:
            os.close(folder)

    def _digest(self) -> str:
        spec = json.dumps(as_json(self._resource.spec), sort_keys=True)
        return "sha256:" + hashlib.sha256(spec.encode()).hexdigest()

    def _load(self) -> None:
        """Read the state file, if there is one. Raises StateUnreadable."""
        try:
            data = self._state.read_bytes() if self._state else None
        except FileNotFoundError:
            data = None
        if data is None:
            self._generation = 1
            return
        if not data.strip():
            raise StateUnreadable(
                f"{self._state} is empty, so a change in progress would be unknown; remove it if there was none, "
                "or name another with --state"
            )
        try:
            document = yaml.load(data, _LOADER)  # noqa: S506 - a safe one
        except _NOT_YAML:
            document = None
        if not isinstance(document, dict) or document.get("kind") != KIND or "status" not in document:
            raise StateUnreadable(f"{self._state} is not a {KIND} state file; name another with --state")
        if not _belongs_to(document, self._resource):
            owner = "/".join(map(str, _owner_in(document, self._resource)))
            raise StateUnreadable(f"{self._state} belongs to {owner}, not to {self.name}; name another with --state")
        is_same_spec = document.get("specDigest") == self._digest()
        try:
            self._generation = int(document["metadata"]["generation"]) + (0 if is_same_spec else 1)
            self._status, invalid_fields = read_status(document["status"])
            if "intent" in self._status.unknown:  # of an early release, whose step may have been sent
                invalid_fields += ("intent",)
            self._unverified &= frozenset(document.get("unverifiedConsents") or ())
        except (TypeError, ValueError, KeyError, AttributeError):
            invalid_fields = ("metadata",)
        if invalid_fields:
            raise StateUnreadable(
                f"{self._state} was edited and is no longer valid ({', '.join(invalid_fields)}); "
                "restore it, or name another with --state"
            )

    @staticmethod
    def _take_lock(state: Path) -> int:
        lock = os.open(lock_of(state), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 200).decode("utf-8", "replace").strip() or "another process"
            os.close(lock)
            raise StateHeld(f"{state} is in use by {holder}; wait until that has ended, or stop it") from None
        os.ftruncate(lock, 0)
        os.write(lock, f"process {os.getpid()} on {socket.gethostname()}".encode())
        return lock

    def _release(self) -> None:
        if self._lock is not None:
            # The file is not removed: otherwise two processes could hold locks on two files of the same name.
            os.close(self._lock)
            self._lock = None
