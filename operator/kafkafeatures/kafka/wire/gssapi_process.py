"""A program that authenticates one connection with Kerberos; `kerberos.py` starts it as a process of its own.

A process, since the Kerberos library takes its configuration from the environment, blocks while it asks the KDC, and
cannot be interrupted. It imports nothing of this package.

One line of JSON comes in: `target` (service@host), `principal`, and `store`, the arguments of a credential store. Then
each line is a token of the node, in base64. Each line that goes out is JSON: `token`, in base64; `failure`, with the
code of the Kerberos library; `missing`, the reason why the library cannot be loaded; or nothing, where the exchange is
over. RFC 4752: no security layer is chosen, since TLS is what protects the connection.
"""

from __future__ import annotations

import json
import sys
from base64 import b64decode, b64encode
from typing import Any

NO_LAYER = 1
"""The bit of an offer that stands for no security layer, and the choice of it."""


def main() -> None:
    """Read the request, and answer on standard output until the exchange is over, or failed."""
    try:
        import gssapi
    except ImportError as error:
        return _say(missing=str(error))
    try:
        _authenticate(gssapi, json.loads(sys.stdin.readline()))
    except gssapi.exceptions.GSSError as error:
        code = (error.min_code + 2**31) % 2**32 - 2**31  # the library's unsigned number, as its documentation has it
        texts = error.get_all_statuses(error.min_code or error.maj_code, not error.min_code)
        return _say(failure=code, text="; ".join(texts))
    return _say()


def _authenticate(gssapi: Any, request: dict[str, Any]) -> None:
    name = gssapi.Name(request["principal"], gssapi.NameType.kerberos_principal) if request["principal"] else None
    flags = gssapi.RequirementFlag
    context = gssapi.SecurityContext(
        name=gssapi.Name(request["target"], gssapi.NameType.hostbased_service),
        creds=gssapi.Credentials(name=name, usage="initiate", store=request["store"], mechs=[gssapi.MechType.kerberos]),
        mech=gssapi.MechType.kerberos,
        flags=[flags.mutual_authentication, flags.integrity],
        usage="initiate",
    )
    token = context.step()
    while not context.complete:
        token = context.step(_exchange(token))
    offer = context.unwrap(_exchange(token or b"")).message
    if len(offer) != 4 or not offer[0] & NO_LAYER:
        return _say(failure=0, text="the node requires a security layer (sasl.qop), which is not supported; use TLS")
    _exchange(context.wrap(bytes([NO_LAYER, 0, 0, 0]), False).message)
    return None


def _exchange(token: bytes) -> bytes:
    """Say the token; return the answer to it."""
    _say(token=b64encode(token).decode())
    return b64decode(sys.stdin.readline())


def _say(**answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
