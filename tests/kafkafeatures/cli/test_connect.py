"""Commands on an event loop of their own."""

from __future__ import annotations

from kafkafeatures.cli.cluster.connect import on_loop


class Picture:
    """The observation of a large cluster: to write it out takes longer than to ask for it."""

    written_out = 0

    def __repr__(self) -> str:
        self.written_out += 1
        return "a thousand nodes"


def test_what_a_command_found_is_not_written_out_when_the_loop_ends() -> None:
    """`asyncio.Runner` puts SIGINT back, and the signal module writes out the handler, with the task and its result."""
    picture = Picture()

    async def look() -> Picture:
        return picture

    assert on_loop(look()) is picture
    assert picture.written_out == 0
