"""SASL mechanisms as exchanges without I/O: bytes out, bytes in, until done.

Called by `authentication.py`. An exchange is a generator: it yields the bytes to send, and receives the server's answer
by `send`. It raises AuthenticationFailed if the server does not prove that it knows the password (SCRAM), or refuses
the token (OAUTHBEARER); `authentication.py` reads refusals by an error code. RFC 4616 (PLAIN), RFC 5802 and 7677
(SCRAM, by scramp), RFC 7628 (OAUTHBEARER). Called in a thread, since SCRAM derives a key, and the server decides how
long that takes (the iterations).
"""

from __future__ import annotations

import re
from collections.abc import Generator

from kafkafeatures.kafka.base.errors import AuthenticationFailed
from kafkafeatures.kafka.base.settings import Sasl

Exchange = Generator[bytes, bytes, None]

MOST_ITERATIONS = 16_384
"""The most iterations of SCRAM that are accepted: Kafka's own maximum (`ScramControlManager.MAX_ITERATIONS`). The
server names them, and we compute them.
"""

_ITERATIONS = re.compile(r",i=0*([0-9]+)")


def exchange(sasl: Sasl, token: str | None) -> Exchange:
    """The exchange of the mechanism; `token` for OAUTHBEARER."""
    if sasl.mechanism == "PLAIN":
        return _plain(sasl)
    if sasl.mechanism == "OAUTHBEARER":
        return _oauthbearer(token or "")
    return _scram(sasl)


def step(steps: Exchange, answer: bytes | None) -> bytes | None:
    """The bytes to send next; None where the exchange is over. `answer` is None at its beginning."""
    try:
        return next(steps) if answer is None else steps.send(answer)
    except StopIteration:
        return None


def _plain(sasl: Sasl) -> Exchange:
    if "\0" in sasl.username or "\0" in sasl.password:
        raise AuthenticationFailed("user name and password may not contain a NUL byte")
    yield b"\0".join((b"", sasl.username.encode(), sasl.password.encode()))


def _scram(sasl: Sasl) -> Exchange:
    from scramp import ScramClient, ScramException  # 30 ms that only SCRAM needs

    try:
        client = ScramClient([sasl.mechanism], sasl.username, sasl.password)
    except ScramException:
        raise AuthenticationFailed(
            f"{sasl.mechanism}: the user name is empty, or it or the password holds characters that SASLprep forbids",
            remedy="check both for control characters and stray line ends",
        ) from None
    try:
        server_first = (yield client.get_client_first().encode()).decode("utf-8", "replace")
        _check_iterations(sasl, server_first)
        client.set_server_first(server_first)
        server_final = yield client.get_client_final().encode()
        client.set_server_final(server_final.decode("utf-8", "replace"))
    except ScramException:
        # Its text may quote messages of the exchange; ours never does.
        raise AuthenticationFailed(
            f"{sasl.mechanism}: the server did not prove that it knows the password",
            remedy="check the address: this may be the wrong cluster",
        ) from None


def _check_iterations(sasl: Sasl, server_first: str) -> None:
    for digits in _ITERATIONS.findall(server_first):
        if len(digits) > len(str(MOST_ITERATIONS)) or int(digits) > MOST_ITERATIONS:
            raise AuthenticationFailed(
                f"{sasl.mechanism}: the server asks for more than {MOST_ITERATIONS:,} iterations, Kafka's own maximum",
                remedy="set the user's password again with at most the default iterations; or check the address: this "
                "may be the wrong cluster",
            )


def _oauthbearer(token: str) -> Exchange:
    challenge = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    if challenge:
        # The server says no with a JSON status and wants one more byte before it ends the exchange (RFC 7628, 3.2.3).
        yield b"\x01"
        raise AuthenticationFailed("OAUTHBEARER: the server refused the token", remedy="check its audience and scope")
