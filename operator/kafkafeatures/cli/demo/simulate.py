"""`kafkafeatures simulate`: runs a simulated cluster that commands in another terminal can connect to.

The same simulator as of the demo, with fixed ports and sentences for people. No Kafka, and no network beyond 127.0.0.1.
"""

from __future__ import annotations

import argparse
import errno
import sys

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit

PORT = 19092
"""Port of the first broker; those of Kafka's own quick start are left free."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the simulator."""
    from kafkasim.__main__ import add_arguments as add_cluster  # only this command needs it

    add_cluster(parser)
    parser.set_defaults(port=PORT)


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C. Raises CommandFailed for flags that describe no cluster, and for a port that is taken."""
    from kafkasim.__main__ import simulate
    from kafkasim.dialogue import Sentences

    try:
        simulate(arguments, Sentences(has_prompt=sys.stdin.isatty() and sys.stdout.isatty()))
    except ValueError as error:
        raise CommandFailed(str(error), Exit.USAGE) from None
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        reason = "is taken by another process" if error.errno == errno.EADDRINUSE else "needs the rights of root"
        raise CommandFailed(
            f"one of the ports from {arguments.port} on {reason}; choose others with --port N", Exit.USAGE
        ) from None
    return Exit.DONE
