"""A resource that lives in a file: the document is read from one, the status is written beside it.

Used by the command line without Kubernetes. The state file is replaced by an atomic rename after it is on disk, so it
is never torn; it is locked for the life of the command, so that two of them never act for one resource; and it is bound
to the cluster id of its first contact.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from kafkafeatures.api.document import InvalidDocument, read_document
from kafkafeatures.api.names import API_VERSION, DYNAMIC_QUORUM, KIND
from kafkafeatures.api.schema import as_json
from kafkafeatures.api.spec import KafkaFeatures
from kafkafeatures.api.status import EMPTY, Status, StepStatus, read_status
from kafkafeatures.api.values import replace
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.resolve import wanted_of
from kafkafeatures.reconcile.ports import NotReadable, Resource

MAX_DOCUMENT_BYTES = 1024 * 1024
STDIN = Path("-")


class StateHeld(Exception):
    """Another process works on this state file."""


class StateUnreadable(Exception):
    """The state file is not one of ours, or of another document."""


def read_file(path: Path) -> KafkaFeatures:
    """Read and check a document; `-` is standard input. Raises InvalidDocument; OSError where it cannot be read."""
    with open(0, "rb", closefd=False) if path == STDIN else path.open("rb") as file:
        data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise InvalidDocument((f"document too long; at most {MAX_DOCUMENT_BYTES} bytes are allowed",))
    try:
        documents = [one for one in yaml.load_all(data, Loader=_Loader) if one is not None]
    except yaml.reader.ReaderError as error:  # raw bytes, or characters, that no YAML may have
        raise InvalidDocument((_of_reader(error),)) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise InvalidDocument((f"{where}invalid YAML: {_problem_of(error)}",)) from None
    except RecursionError:
        raise InvalidDocument(("nested too deeply; this is not a KafkaFeatures document",)) from None
    except (UnicodeDecodeError, ValueError) as error:
        raise InvalidDocument((f"invalid YAML: {str(error).splitlines()[0]}",)) from None
    except (LookupError, AttributeError, TypeError, ArithmeticError):  # a tag such as !!timestamp on what is none
        raise InvalidDocument(("invalid YAML: a value does not match its tag; remove the tag",)) from None
    if len(documents) != 1:
        raise InvalidDocument((f"found {len(documents)} documents; expected one KafkaFeatures document per file",))
    return read_document(documents[0])


def _problem_of(error: yaml.YAMLError) -> str:
    problem = str(getattr(error, "problem", None) or error)
    return "found a tab; indent with spaces" if "'\\t'" in problem else problem


def _of_reader(error: Any) -> str:
    what = f"byte 0x{error.character[0]:02x}" if isinstance(error.character, bytes) else f"U+{error.character:04X}"
    return f"invalid YAML: {what} at position {error.position} is not allowed; YAML is printable text in UTF-8"


class _Decimal(float):
    """Remembers how it was written: 4.10 is not 4.1 to who meant a release."""

    def __new__(cls, value: float, text: str) -> _Decimal:
        made = super().__new__(cls, value)
        made.text = text
        return made

    text: str

    def __repr__(self) -> str:
        return self.text


_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # of libyaml, where PyYAML was built with it: ten times as fast


class _Loader(yaml.SafeLoader):
    """Safe; refuses a key that stands twice (the last would silently win) and aliases; numbers are decimal.

    YAML 1.1 reads 010 as eight and 1:30 as ninety. Here they stay texts, which no level is.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - the library's own way
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:int"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        # An alias is how a small file becomes a huge document; none is needed here.
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases are not supported", None)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str) or key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {str(key)[:60]!r} is duplicated or not a string", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _construct_float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    return _Decimal(loader.construct_yaml_float(node), node.value)


_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(0|[1-9][0-9]{0,17})$"), list("-+0123456789"))


class FileStore:
    """`ResourceStore` for one document and its state file. A context manager: it holds the lock.

    `state` None: the status lives as long as the process. `again` reads the document once more; None for stdin.
    """

    def __init__(
        self,
        resource: KafkaFeatures,
        state: Path | None,
        *,
        approve: str = "",
        accepted_log: str = "",
        again: Callable[[], KafkaFeatures] | None = None,
    ) -> None:
        self._resource, self._again = resource, again
        self.why_over = ""
        """Why nothing more is sent for it; empty as long as the document is what it was."""
        approvals = frozenset({approve} if approve else ())
        wanted = wanted_of(resource, approvals=approvals, accepted_log=accepted_log)
        self._wanted = replace(wanted, only=approve, may_approve_unseen=True)
        self._state = state
        self._lock: int | None = None
        self._generation = 0
        self._status = EMPTY
        # Consents to a downgrade that were in the document when its state began: nothing tells whether they were used
        # before. One that is written into the document later is not among them.
        self._unverified = frozenset(one for one in resource.spec.consents if one != DYNAMIC_QUORUM)

    def __enter__(self) -> FileStore:
        self._lock = self._take_lock(self._state) if self._state else None
        try:
            self._load()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def approve(self, plan_hash: str) -> None:
        """From now on this plan is approved, and no other is carried out: instead of what was approved before."""
        self._wanted = replace(self._wanted, approvals=frozenset({plan_hash}), only=plan_hash)

    @property
    def name(self) -> str:
        """Namespace and name."""
        return f"{self._resource.metadata.namespace}/{self._resource.metadata.name}"

    def peek(self) -> Resource:
        """The resource with the status as it is on disk now, for who only reads: no lock is taken."""
        self._load()
        return self._now()

    def why_unverified(self, changes: Iterable[UpdateFeature | StepStatus]) -> str:
        """Why a consent that these changes need may have been used before; empty where none may."""
        consent = next((one.consent for one in changes if one.consent in self._unverified), "")
        if not consent:
            return ""
        lost = f"the state file {self._state} was created after it" if self._state else "there is no state file"
        return f"it is unknown whether consent {consent} was already used: {lost}"

    async def read(self) -> Resource:
        """The document was read once: a command works on what it was given."""
        return self._now()

    async def read_again(self) -> Resource:
        """The resource, with the document as it is now, where it is in a file."""
        if self._again is not None:
            try:
                same = self._again() == self._resource
                self.why_over = "" if same else "the document was changed while this command ran"
            except (InvalidDocument, OSError):
                self.why_over = "the document cannot be read any more"
        if self.why_over:
            raise NotReadable(f"{self.why_over}; run the command again")
        return self._now()

    def _now(self) -> Resource:
        return Resource(
            name=self.name,
            generation=self._generation,
            wanted=self._wanted,
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
        beside = self._state.with_name(f".{self._state.name}.{os.getpid()}")
        with beside.open("w", encoding="utf-8") as file:
            yaml.dump(document, file, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._state)
        folder = os.open(self._state.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the rename itself
        finally:
            os.close(folder)

    def _digest(self) -> str:
        spec = json.dumps(as_json(self._resource.spec), sort_keys=True)
        return "sha256:" + hashlib.sha256(spec.encode()).hexdigest()

    def _load(self) -> None:
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
            document = yaml.safe_load(data)
        except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
            document = None
        if not isinstance(document, dict) or document.get("kind") != KIND or "status" not in document:
            raise StateUnreadable(f"{self._state} is not a {KIND} state file; name another with --state")
        found, ours = document.get("metadata"), self._resource.metadata
        metadata = found if isinstance(found, dict) else {}
        name, namespace = metadata.get("name"), metadata.get("namespace", ours.namespace)
        if (namespace, name) != (ours.namespace, ours.name):
            raise StateUnreadable(
                f"{self._state} belongs to {namespace}/{name}, not to {ours.namespace}/{ours.name}; "
                "name another with --state"
            )
        same = document.get("specDigest") == self._digest()
        try:
            self._generation = int(document["metadata"]["generation"]) + (0 if same else 1)
            self._status, odd = read_status(document["status"])
            if "intent" in self._status.unknown:  # a single one, as it was before: it may have been sent
                odd += ("intent",)
            self._unverified &= frozenset(document.get("unverifiedConsents") or ())
        except (TypeError, ValueError, KeyError, AttributeError):
            odd = ("metadata",)
        if odd:
            raise StateUnreadable(
                f"{self._state} was edited and is no longer valid ({', '.join(odd)}); "
                "restore it, or name another with --state"
            )

    @staticmethod
    def _take_lock(state: Path) -> int:
        path = state.with_name(state.name + ".lock")
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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
            # The file stays: removing it would let two processes lock two files of the same name.
            os.close(self._lock)
            self._lock = None
