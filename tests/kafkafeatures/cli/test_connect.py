"""Commands on an event loop of their own, and the addresses that they get from flags and properties."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import pytest

from kafkafeatures.cli.cluster.connect import add_connection_flags, flags_of, on_loop, settings_from_flags
from kafkafeatures.cli.shell.exit_codes import CommandFailed


class Picture:
    """The observation of a large cluster: to write it out takes longer than to ask for it."""

    written_out = 0

    def __repr__(self) -> str:
        self.written_out += 1
        return "a thousand nodes"


def test_a_result_is_not_printed_when_the_event_loop_ends() -> None:
    """`asyncio.Runner` puts SIGINT back, and the signal module writes out the handler, with the task and its result."""
    picture = Picture()

    async def look() -> Picture:
        return picture

    assert on_loop(look()) is picture
    assert picture.written_out == 0


def parsed(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_connection_flags(parser)
    return parser.parse_args(flags)


def test_bootstrap_servers_of_the_properties_are_used_without_a_flag(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=b1:9092,b2:9092\n")
    without, with_flag = parsed("--config", str(file)), parsed("--config", str(file), "--bootstrap-controller", "c1:1")
    assert [str(one) for one in settings_from_flags(without).bootstrap_servers] == ["b1:9092", "b2:9092"]
    assert flags_of(without) == f"--bootstrap-server b1:9092,b2:9092 --config {file}"
    assert settings_from_flags(with_flag).bootstrap_servers == ()
    file.write_text("bootstrap.controllers=c1:9093\n")
    assert [str(one) for one in settings_from_flags(parsed("--config", str(file))).bootstrap_controllers] == ["c1:9093"]


def test_flags_to_copy_reach_controllers_of_another_listener_and_slow_nodes() -> None:
    words = ["--bootstrap-server", "b1:9092", "--config", "brokers"]
    more = ["--controller-config", "of controllers", "--request-timeout", "60"]
    shown = flags_of(parsed(*words, *more))
    assert (
        shown == "--bootstrap-server b1:9092 --config brokers --controller-config 'of controllers' --request-timeout 60"
    )
    assert vars(parsed(*shlex.split(shown))) == vars(parsed(*words, *more))
    assert flags_of(parsed(*words, "--controller-config", "brokers")) == " ".join(words)  # the same file


def test_the_error_without_an_address_names_the_flags_and_the_property(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(CommandFailed, match=r"--bootstrap-server.*or bootstrap\.servers in --config FILE"):
        settings_from_flags(parsed("--config", str(tmp_path / "f")))
