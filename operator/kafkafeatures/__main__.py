"""Entry points: `python -m kafkafeatures` and the installed programs. Ctrl-C is handled before anything is imported
(`interrupts.py`).
"""

import _signal  # type: ignore[import-not-found]  # built in, and loaded

_signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGINT,))  # until `guard`

# ruff: noqa: E402
from kafkafeatures import interrupts

interrupts.guard()

import gc
import sys


def main() -> None:
    """Run `kafkafeatures` or `kubectl-kafkafeatures`. Does not return."""
    if sys.argv[1:2] != ["run"]:  # a command makes little garbage, and to search for it took a fifteenth of `describe`
        gc.set_threshold(200_000)
    if sys.argv[1:2] == ["__complete"]:  # called by kubectl, and by the scripts that `completion` prints
        from kafkafeatures.cli.kube.offers import complete as command_line
    else:
        from kafkafeatures.cli.shell.main import main as command_line

    interrupts.end(command_line())


def complete() -> None:
    """Run `kubectl_complete-kafkafeatures`, which kubectl calls for completion. Does not return."""
    sys.argv.insert(1, "__complete")
    main()


if __name__ == "__main__":
    main()
