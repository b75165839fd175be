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
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

from kafkafeatures.kafka.base.errors import AuthenticationFailed, Unreachable
from kafkafeatures.kafka.base.settings import Address, Kerberos, Realms, Security
from kafkafeatures.kafka.wire.krb5_conf import krb5_conf
from kafkafeatures.kafka.wire.opening import permitted_addresses

PROGRAM = Path(__file__).with_name("gssapi_process.py")
TIMEOUT_SHARE = 0.6
"""Share of the connection's timeout that the library has for the KDC, so that the caller still gets the reason: the
rest is for connecting, TLS and the start of a process.
"""
MAX_LINE = 256 * 1024
"""Bytes of an answer of the process. Tickets of Active Directory may have 64 KiB."""

_OUT = "ask the administrator of the realm"
_OTHER_KEY = "the keytab has another key than the KDC for {principal}"
_NEW_KEY = "the key has changed: make a new keytab"
_NO_TICKET = "the cache has no ticket of {principal}"
_KINIT = "run kinit, or use a keytab"
FAILURES: dict[int, tuple[str, str]] = {
    -1765328383: ("the principal {principal} has expired", _OUT),
    -1765328378: ("the KDC does not know the principal {principal}", "check the principal"),
    -1765328377: (
        "the KDC has no principal {target} for this node",
        "check sasl.kerberos.service.name, and connect to the host name that the node's keytab has",
    ),
    -1765328366: ("the principal {principal} is locked", _OUT),
    -1765328361: ("the key of the principal {principal} has expired", "make a new keytab"),
    -1765328360: (_OTHER_KEY, _NEW_KEY),
    -1765328353: (_OTHER_KEY, _NEW_KEY),
    -1765328352: ("the ticket has expired", _KINIT),
    -1765328351: ("the ticket is not valid yet", "set the clocks of this machine and of the KDC"),
    -1765328347: ("the clocks of this machine and of the KDC disagree", "set them"),
    -1765328243: (_NO_TICKET, _KINIT),
    -1765328230: ("krb5.conf has no KDC of the realm {realm}", "add its kdc, or check the realm of the principal"),
    -1765328228: ("no KDC of the realm {realm} answers", "check the kdc in krb5.conf, and that it runs"),
    -1765328189: (_NO_TICKET, _KINIT),
    -1765328160: ("krb5.conf has no default_realm", "set it"),
}
"""Text and remedy by code of the Kerberos library (krb5_err.et)."""
_NO_KEY = ("the keytab has no key of {principal}", "check the principal; klist -k FILE lists those of a keytab")


class Exchange:
    """One exchange with a node, in a process of its own. `place`: held until the library has its ticket, and not while
    a node thinks: nodes that hang must not make others look unreachable.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        login: Kerberos,
        target: str,
        seconds: float,
        place: AsyncExitStack,
    ) -> None:
        self._to, self._from = cast(asyncio.StreamWriter, process.stdin), cast(asyncio.StreamReader, process.stdout)
        self._login, self._target, self._seconds, self._place = login, target, seconds, place

    async def step(self, answer: bytes | None) -> bytes | None:
        """The bytes to send next; None where the exchange is over. `answer` is None at its beginning. Raises
        AuthenticationFailed.
        """
        if answer is not None:
            self._to.write(b64encode(answer) + b"\n")
        try:
            async with asyncio.timeout(self._seconds):
                said = json.loads(await self._from.readline())
        except TimeoutError:
            text = f"no answer from the KDC within {self._seconds:g} s"
            raise _failed(text, "check the kdc in krb5.conf, and its health") from None
        except ValueError:  # the process ended
            raise _failed("the Kerberos library crashed", "set KRB5_TRACE=FILE to see how far it came") from None
        await self._place.aclose()
        if "missing" in said:
            raise _failed(
                f"the Kerberos library cannot be loaded ({said['missing']})",
                "install kafka-features-operator[kerberos] and the system's libgssapi-krb5-2",
            )
        if "failure" in said:
            raise self._refusal(said["failure"], said["text"])
        return b64decode(said["token"]) if "token" in said else None

    def _refusal(self, code: int, words: str) -> AuthenticationFailed:
        """The error for a code of the library; `words`: its own text, for a code without one here."""
        text, remedy = FAILURES.get(code, ("", "check krb5.conf, keytab and principal"))
        if self._login.keytab is None:
            if text in ("", _OTHER_KEY):  # the library's own words: there is no keytab
                text, remedy = "", "run kinit again, and check krb5.conf"
        elif text == _NO_TICKET:  # the library then looks for a ticket
            text, remedy = _NO_KEY
        principal = self._login.principal or "any principal"
        target, realm = self._target.replace("@", "/"), principal.rpartition("@")[2]
        return _failed(text.format(principal=principal, target=target, realm=realm) or words, remedy)


def _failed(text: str, remedy: str) -> AuthenticationFailed:
    return AuthenticationFailed(f"GSSAPI: {text}", remedy=remedy)


@asynccontextmanager
async def exchange(login: Kerberos, address: Address, security: Security, timeout: float) -> AsyncIterator[Exchange]:
    """An exchange with the node at this address. `timeout`: seconds that the connection has. Raises KafkaError."""
    async with AsyncExitStack() as place:
        await place.enter_async_context(login.files.places)
        text = await _krb5_conf(login.realms, security) if login.realms is not None else None
        try:
            own_conf = {"KRB5_CONFIG": str(login.files.krb5_conf(text))} if text is not None else {}
            store = _store(login)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", str(PROGRAM)),  # without its folder, which has modules named as Python's
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=MAX_LINE,
                env={**os.environ, **own_conf},
                start_new_session=True,  # Ctrl-C is for this process
            )
        except OSError as error:
            raise _failed(f"cannot start the Kerberos library: {error.strerror}", "check /tmp and memory") from None
        try:
            target = f"{login.service}@{address.host}"
            cast(asyncio.StreamWriter, process.stdin).write(
                json.dumps({"target": target, "principal": login.principal, "store": store}).encode() + b"\n"
            )
            yield Exchange(process, login, target, TIMEOUT_SHARE * timeout, place)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


def _store(login: Kerberos) -> dict[str, str]:
    """The arguments of the library's credential store. Tickets of a keytab are for us alone. Raises OSError."""
    if login.keytab is None:
        return {"ccache": login.ticket_cache} if login.ticket_cache else {}
    keytab = login.keytab if isinstance(login.keytab, Path) else login.files.keytab(login.keytab)
    return {"client_keytab": f"FILE:{keytab}", "ccache": f"FILE:{login.files.tickets}"}


async def _krb5_conf(realms: Realms, security: Security) -> str:
    """A krb5.conf with addresses that the policy permits. Raises KafkaError where it refuses one of a KDC."""
    addresses = {}
    for kdc in dict.fromkeys(address for kdcs in realms.kdcs.values() for address in kdcs):
        hosts = [kdc.host]
        if security.policy is not None:
            try:
                hosts = await permitted_addresses(kdc, security.policy, security.lookups)
            except OSError as error:
                text = f"GSSAPI: the host name of the KDC {kdc} is not known ({error.strerror})"
                raise Unreachable(text, remedy="check krb5.conf") from None
        addresses[kdc] = tuple(Address(host, kdc.port) for host in hosts)
    return krb5_conf(realms, addresses)
