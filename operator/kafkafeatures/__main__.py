"""`python -m kafkafeatures` and the programs that are installed. Ctrl-C is seen to before anything is imported."""

import _signal  # type: ignore[import-not-found]  # built in, and loaded

_signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGINT,))  # until `guard`

# ruff: noqa: E402
from kafkafeatures import interrupts

interrupts.guard()

import sys


def main() -> int:
    """`kafkafeatures`, and `kubectl-kafkafeatures`."""
    from kafkafeatures.cli.main import main as command_line

    code = command_line()
    return interrupts.leave() if code == interrupts.EXIT_CODE else code


def complete() -> None:
    """`kubectl_complete-kafkafeatures`."""
    from kafkafeatures.cli.completion import for_kubectl

    for_kubectl()


if __name__ == "__main__":
    sys.exit(main())
