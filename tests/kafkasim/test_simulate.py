"""`kafkafeatures simulate`: a simulated cluster for people."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import ExitStack

from kafkasim.control import FORMS
from tests.kafkafeatures.terminal import PROGRAM, session
from tests.kafkasim.commands import command


def first_free_port(count: int) -> int:
    """The first of so many free ports in a row; outgoing connections have higher ones. Each process begins its search
    elsewhere, since ports are free again until the cluster takes them.
    """
    for first in range(10_000 + os.getpid() * 64 % 16_000, 30_000, count):
        with ExitStack() as bound:
            try:
                for port in range(first, first + count):
                    bound.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise AssertionError(f"no {count} free ports in a row")


PORT = first_free_port(3)
SMALL = ("--brokers", "2", "--controllers", "1", "--port", str(PORT))


def test_a_person_starts_a_cluster_changes_it_and_sees_it_with_the_commands_that_are_printed() -> None:
    with session((*PROGRAM, "simulate", *SMALL)) as person:
        greeting = person.reads()
        address = f"127.0.0.1:{PORT}"
        assert "SIMULATED cluster of 3 nodes" in greeting
        assert f"    kafkafeatures describe --bootstrap-server {address}\n" in greeting
        described = command(["describe", "--bootstrap-server", address])
        assert described.returncode == 0, described.stderr
        assert "1 controller, 2 brokers" in described.stdout
        assert "5 other features can be raised" in described.stdout
        explained = person.types("help")
        assert all(form in explained for form in FORMS)
        assert person.types("") == "> "
        assert person.types("set group.version 1") == "done\n> "
        described = command(["describe", "--bootstrap-server", address])
        assert "4 other features can be raised" in described.stdout
        assert person.types("stop broker 9") == "broker 9 does not exist\n> "
        assert person.types("dance").startswith("invalid request 'dance': expected upgrade ROLE ID RELEASE, ")
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
