"""Authentication with Kerberos (SASL GSSAPI, RFC 4752), by a process that has the Kerberos library.

Called by `authentication.py`. A process for each exchange (`gssapi_process.py`): it ends with the exchange, or is
killed if the connection is given up. A ticket that one of them got is kept in a file for the others. The KDCs are those
of the document's own krb5.conf, whose addresses the operator's policy has to permit, or else those of the machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from kafkafeatures.kafka.base.errors import AuthenticationFailed, Unreachable
from kafkafeatures.kafka.base.settings import Address, Kerberos, Security
from kafkafeatures.kafka.wire.krb5_conf import krb5_conf
from kafkafeatures.kafka.wire.opening import permitted_addresses

PROGRAM = Path(__file__).with_name("gssapi_process.py")
TIMEOUT_SHARE = 0.8
"""Share of the connection's timeout that the library has for the KDC, so that the caller still gets the reason."""
MAX_LINE = 256 * 1024
"""Bytes of an answer of the process. Tickets of Active Directory may have 64 KiB."""

FAILURES: dict[int, tuple[str, str]] = {
    -1765328378: ("the KDC does not know the principal {principal}", "check the principal"),
    -1765328377: (
        "the KDC has no principal {target} for this node",
        "check sasl.kerberos.service.name, and connect by the host name that the node's keytab has",
    ),
    -1765328366: ("the principal {principal} is locked or has expired", "ask the administrator of the realm"),
    -1765328361: ("the password of the principal {principal} has expired", "make a new keytab"),
    -1765328360: ("the keytab has another key than the KDC for {principal}", "make a new keytab: the key has changed"),
    -1765328353: ("the keytab has another key than the KDC for {principal}", "make a new keytab: the key has changed"),
    -1765328352: ("the ticket has expired", "get a new one with kinit, or use a keytab"),
    -1765328347: ("the clocks of this machine and of the KDC differ by more than the KDC allows", "set the clock"),
    -1765328316: ("the realm {realm} is not that of the KDC", "check the realm of the principal"),
    -1765328243: ("there is no ticket in the cache", "run kinit, or use a keytab"),
    -1765328230: ("the realm {realm} has no KDC in krb5.conf", "check the realm of the principal, or add its kdc"),
    -1765328228: ("no KDC of the realm answers", "check the kdc in krb5.conf, and that it runs"),
    -1765328203: ("the keytab has no key of {principal}", "check the principal; klist -k lists those of a keytab"),
    -1765328189: ("there is no ticket in the cache", "run kinit, or use a keytab"),
    -1765328160: ("krb5.conf has no default_realm", "set it"),
}
"""Text and remedy by code of the Kerberos library (krb5_err.et)."""


class Exchange:
    """One exchange with a node, in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, login: Kerberos, target: str, seconds: float) -> None:
        self._to, self._from = cast(asyncio.StreamWriter, process.stdin), cast(asyncio.StreamReader, process.stdout)
        self._login, self._target, self._seconds = login, target, seconds

    async def step(self, answer: bytes | None) -> bytes | None:
        """The bytes to send next; None where the exchange is over. `answer` is None at its beginning. Raises
        AuthenticationFailed.
        """
        if answer is None:
            request = {"target": self._target, "principal": self._login.principal, "store": _store(self._login)}
            self._to.write(json.dumps(request).encode() + b"\n")
        else:
            self._to.write(b64encode(answer) + b"\n")
        try:
            async with asyncio.timeout(self._seconds):
                line = await self._from.readline()
        except TimeoutError:
            text = f"no answer from the KDC within {self._seconds:g} s"
            raise self._failed(text, "check the kdc in krb5.conf, and its health") from None
        return self._token(json.loads(line) if line else {"failure": 0, "text": "the Kerberos library crashed"})

    def _token(self, said: Mapping[str, Any]) -> bytes | None:
        if "missing" in said:
            raise self._failed(
                f"the Kerberos library cannot be loaded ({said['missing']})",
                "install kafka-features-operator[kerberos] and the system's libgssapi-krb5-2",
            )
        if "failure" in said:
            text, remedy = FAILURES.get(said["failure"], (said["text"], "check krb5.conf, keytab and principal"))
            principal = self._login.principal or "the ticket cache"
            target, realm = self._target.replace("@", "/"), principal.rpartition("@")[2]
            if said["failure"] in FAILURES:
                text = text.format(principal=principal, target=target, realm=realm)
            raise self._failed(text, remedy)
        return b64decode(said["token"]) if "token" in said else None

    def _failed(self, text: str, remedy: str) -> AuthenticationFailed:
        return AuthenticationFailed(f"GSSAPI: {text}", remedy=remedy)


@asynccontextmanager
async def exchange(login: Kerberos, address: Address, security: Security, timeout: float) -> AsyncIterator[Exchange]:
    """An exchange with the node at this address. `timeout`: seconds that the connection has. Raises KafkaError."""
    async with login.files.places, _environment(login, security) as environment:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", str(PROGRAM)),  # without this folder in its path: it has modules named as Python's
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=MAX_LINE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for this process
        )
        try:
            yield Exchange(process, login, f"{login.service}@{address.host}", TIMEOUT_SHARE * timeout)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


def _store(login: Kerberos) -> dict[str, str]:
    """The arguments of the library's credential store. Tickets of a keytab are for us alone. Raises OSError."""
    if login.keytab is None:
        return {"ccache": login.ticket_cache} if login.ticket_cache else {}
    keytab = login.keytab if isinstance(login.keytab, Path) else login.files.keytab(login.keytab)
    return {"client_keytab": f"FILE:{keytab}", "ccache": f"FILE:{login.files.folder / 'tickets'}"}


@asynccontextmanager
async def _environment(login: Kerberos, security: Security) -> AsyncIterator[dict[str, str]]:
    """Environment variables of the process: with a krb5.conf of the login's own KDCs, if it has any. Raises KafkaError
    where the policy refuses a KDC.
    """
    if login.realms is None:
        yield dict(os.environ)
        return
    addresses = {}
    for kdc in dict.fromkeys(address for kdcs in login.realms.kdcs.values() for address in kdcs):
        hosts = [kdc.host]
        if security.policy is not None:
            try:
                hosts = await permitted_addresses(kdc, security.policy, security.lookups)
            except OSError as error:
                raise Unreachable(
                    f"GSSAPI: the KDC {kdc} is not known ({error.strerror})", remedy="check krb5.conf"
                ) from None
        addresses[kdc] = tuple(Address(host, kdc.port) for host in hosts)
    with tempfile.NamedTemporaryFile("w", dir=login.files.folder, prefix="krb5-", suffix=".conf") as file:
        file.write(krb5_conf(login.realms, addresses))
        file.flush()
        yield {**os.environ, "KRB5_CONFIG": file.name}
