"""`kafkafeatures simulate`: a simulated cluster for people."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kafkasim.commands import command
from tests.kafkasim.test_process import ENVIRONMENT

PORT = 11_431
"""First of the ports of these tests, which run one after the other; outgoing connections have higher ones."""
SMALL = ("--brokers", "2", "--controllers", "1", "--port", str(PORT))


class Terminal:
    """A person at a pseudo terminal."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        self._descriptor, self.process = descriptor, process

    def reads(self, end: str = "> ") -> str:
        """The text up to the next prompt."""
        text = ""
        while not text.endswith(end):
            text += os.read(self._descriptor, 4096).decode().replace("\r\n", "\n")
        return text

    def types(self, line: str) -> str:
        """The text that answers a line; the terminal repeats the line first."""
        os.write(self._descriptor, f"{line}\n".encode())
        return self.reads().removeprefix(f"{line}\n")


@contextmanager
def terminal(*flags: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "kafkafeatures", "simulate", *flags]
    with subprocess.Popen(
        words, env=ENVIRONMENT, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        try:
            yield Terminal(ours, process)
        finally:
            process.kill()
            os.close(ours)


def test_a_person_starts_a_cluster_changes_it_and_sees_it_with_the_commands_that_are_printed() -> None:
    with terminal(*SMALL) as person:
        greeting = person.reads()
        address = f"127.0.0.1:{PORT}"
        assert "SIMULATED cluster of 3 nodes" in greeting
        assert f"    kafkafeatures describe --bootstrap-server {address}\n" in greeting
        described = command(["describe", "--bootstrap-server", address])
        assert described.returncode == 0, described.stderr
        assert "1 controller, 2 brokers" in described.stdout
        assert "5 other features can be raised" in described.stdout
        assert "stop broker 2 " in person.types("help")
        assert person.types("") == "> "
        assert person.types("set group.version 1") == "done\n> "
        described = command(["describe", "--bootstrap-server", address])
        assert "4 other features can be raised" in described.stdout
        assert person.types("stop broker 9") == "broker 9 does not exist\n> "
        assert person.types("dance").startswith("invalid request 'dance': expected upgrade|start ROLE ID")
        person.process.send_signal(signal.SIGINT)
        assert person.process.wait(timeout=30) == 0


def test_a_port_of_another_process_is_named_with_the_flag_for_other_ports() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", PORT + 1))
        other.listen()
        done = command(["simulate", *SMALL])
    assert done.returncode == 64
    assert done.stderr == (
        f"kafkafeatures: one of the ports from {PORT} on is taken by another process; choose others with --port N\n"
    )


def test_flags_that_describe_no_cluster_are_refused_in_one_line() -> None:
    done = command(["simulate", "--metadata-version", "29", "--ghost-broker", "4=4.0"])
    assert done.returncode == 64
    assert done.stderr == (
        "kafkafeatures: metadata.version 29 cannot be finalized with broker 4 of Kafka 4.0 registered\n"
    )
