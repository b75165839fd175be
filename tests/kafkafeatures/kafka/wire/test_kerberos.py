"""Kerberos logins of a process: in one event loop after another, beside nodes that hang, and what is left on the disk.

The Kerberos library is a fake that hands out tickets; the real one is in tests/e2e/kafka/test_kerberos.py.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from kafkafeatures.kafka.base.errors import AuthenticationFailed
from kafkafeatures.kafka.base.settings import Address, Kerberos, Security
from kafkafeatures.kafka.wire.kerberos import exchange
from kafkafeatures.kafka.wire.kerberos_files import AT_ONCE
from tests.kafkafeatures.kafka.wire.servers import Server, api_versions, handshake, serving
from tests.kafkafeatures.terminal import PROGRAM, environment
from tests.started import PYTHONPATH

NODE = Address("node", 9092)
LIBRARY = """
from collections import namedtuple
from pathlib import Path
class exceptions:
    class GSSError(Exception): pass
class NameType: kerberos_principal = hostbased_service = None
class MechType: kerberos = None
class RequirementFlag: mutual_authentication = integrity = None
def Name(*_): pass
def Credentials(store, **_):
    Path(store["ccache"].removeprefix("FILE:")).write_text("a ticket")
class SecurityContext:
    complete = False
    def __init__(self, **_): pass
    def step(self, answer=None):
        self.complete = answer is not None
        return b"token"
    def unwrap(self, _): return namedtuple("Result", "message")(bytes([1, 0, 0, 0]))
    wrap = lambda self, message, _: namedtuple("Result", "message")(message)
"""
REFUSAL = """
class exceptions:
    class GSSError(Exception):
        min_code = 2**32 - 1765328353  # KRB5KRB_AP_ERR_BAD_INTEGRITY
        def get_all_statuses(self, *_): return ["Decrypt integrity check failed"]
def Credentials(store, **_):
    raise exceptions.GSSError
"""
KRB5_CONF = """
[libdefaults]
default_realm = EXAMPLE.COM
[realms]
EXAMPLE.COM = {
  kdc = 127.0.0.1:88
}
"""
DOCUMENT = """
apiVersion: kafkafeatures.dev/v1alpha1
kind: KafkaFeatures
metadata: {name: orders}
spec:
  cluster: {bootstrapServers: "%s", sasl: {mechanism: GSSAPI, secretRef: {name: login}}}
  features: {levels: [{name: group.version, level: 1}]}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the library. It has an empty folder for temporary files."""
    (tmp_path / "gssapi.py").write_text(LIBRARY)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return tmp_path


def test_a_login_is_used_in_one_event_loop_after_another() -> None:
    login = Kerberos(keytab=b"keytab")

    async def log_in() -> bytes | None:
        async with exchange(login, NODE, Security(), 30) as kerberos:
            return await kerberos.step(None)

    async def log_in_everywhere() -> list[bytes | None]:
        async with asyncio.timeout(30):
            return await asyncio.gather(*(log_in() for _ in range(AT_ONCE + 1)))

    for _ in range(2):
        assert asyncio.run(log_in_everywhere()) == [b"token"] * (AT_ONCE + 1)


async def test_nodes_that_hang_do_not_keep_others_from_logging_in() -> None:
    login = Kerberos(keytab=b"keytab")
    async with AsyncExitStack() as hanging, asyncio.timeout(30):
        for _ in range(AT_ONCE):
            kerberos = await hanging.enter_async_context(exchange(login, NODE, Security(), 30))
            await kerberos.step(None)
        async with exchange(login, NODE, Security(), 30) as kerberos:
            assert await kerberos.step(None) == b"token"


@pytest.mark.parametrize(
    ("keytab", "message", "remedy"),
    [
        (b"keytab", "GSSAPI: the keytab has another key than the KDC for alice@EXAMPLE.COM", "make a new keytab"),
        (None, "GSSAPI: Decrypt integrity check failed", "run kinit again"),
    ],
)
async def test_a_key_that_does_not_fit_is_only_said_of_a_keytab_if_there_is_one(
    folder: Path, keytab: bytes | None, message: str, remedy: str
) -> None:
    (folder / "gssapi.py").write_text(LIBRARY + REFUSAL)
    async with (
        asyncio.timeout(30),
        exchange(Kerberos("kafka", "alice@EXAMPLE.COM", keytab), NODE, Security(), 30) as kerberos,
    ):
        with pytest.raises(AuthenticationFailed) as caught:
            await kerberos.step(None)
    assert str(caught.value) == message
    assert remedy in caught.value.remedy


def closes(_request: bytes) -> bytes:
    return b""


async def command(folder: Path, answer: Callable[[bytes], bytes | None], *words: str, sigterm: bool = False) -> int:
    """The exit code of a command whose node has this answer to the first token. `sigterm`: sent once the node has it.
    Temporary files were there by then.
    """
    asks = asyncio.Event()

    def judge(request: bytes) -> bytes | None:
        assert list((folder / "tmp").glob("*/tickets"))
        asks.set()
        return answer(request)

    node = Server({18: api_versions((17, 0, 1), (36, 0, 2)), 17: handshake("GSSAPI"), 36: judge})
    async with serving(node):
        (folder / "levels.yaml").write_text(DOCUMENT % node.address)
        (folder / "login").mkdir()
        (folder / "login" / "keytab").write_text("a key")
        (folder / "login" / "username").write_text("alice@EXAMPLE.COM")
        (folder / "login" / "krb5.conf").write_text(KRB5_CONF)
        (folder / "client.properties").write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
            "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
            f'keyTab="{folder}/login/keytab" principal="alice@EXAMPLE.COM";\nbootstrap.servers={node.address}\n'
        )
        variables = environment(PYTHONPATH=f"{folder}:{PYTHONPATH}")
        started = await asyncio.create_subprocess_exec(*PROGRAM, *words, cwd=folder, env=variables)
        async with asyncio.timeout(30):
            await asks.wait()
            if sigterm:
                started.send_signal(signal.SIGTERM)
            return await started.wait()


OF_A_SECRET = ("-f", "levels.yaml", "--secrets-dir", ".")
OF_A_FILE = ("--config", "client.properties")


@pytest.mark.parametrize(
    ("words", "sigterm", "code"),
    [
        (("describe", *OF_A_SECRET), False, 5),
        (("describe", *OF_A_FILE), False, 5),
        (("upgrade", "--release", "4.2", "--dry-run", *OF_A_FILE), False, 5),
        (("describe", *OF_A_SECRET), True, 143),
        (("apply", *OF_A_SECRET), True, 143),
    ],
)
async def test_a_command_leaves_neither_keytab_nor_ticket_behind(
    words: tuple[str, ...], sigterm: bool, code: int, folder: Path
) -> None:
    hangs = lambda _: None  # noqa: E731
    assert await command(folder, hangs if sigterm else closes, *words, sigterm=sigterm) == code
    assert list((folder / "tmp").iterdir()) == []
