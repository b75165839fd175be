"""`python -m kafkafeatures` and the programs that are installed. Ctrl-C is seen to before anything is imported."""

import _signal  # type: ignore[import-not-found]  # built in, and loaded

_signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGINT,))  # until `guard`

# ruff: noqa: E402
from kafkafeatures import interrupts

interrupts.guard()

import gc
import sys


def main() -> None:
    """`kafkafeatures`, and `kubectl-kafkafeatures`. Does not return."""
    if sys.argv[1:2] != ["run"]:  # what a command makes it keeps: looking for garbage took a fifteenth of `describe`
        gc.set_threshold(200_000)
    if sys.argv[1:2] == ["__complete"]:  # of kubectl, and of what `completion` prints
        from kafkafeatures.cli.kube.offers import complete as command_line
    else:
        from kafkafeatures.cli.shell.main import main as command_line

    interrupts.end(command_line())


def complete() -> None:
    """`kubectl_complete-kafkafeatures`. Does not return either."""
    sys.argv.insert(1, "__complete")
    main()


if __name__ == "__main__":
    main()
