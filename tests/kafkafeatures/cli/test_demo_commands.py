"""Commands that the demo starts."""

from __future__ import annotations

import os
import subprocess
import sys

from kafkafeatures.cli.demo.stage import environment


def test_commands_of_the_demo_import_the_packages_beside_its_own_also_where_nothing_is_installed() -> None:
    """An archive of krew is such a place: only its launcher has the folder of the packages on its path."""
    code = "import kafkafeatures, kafkasim; print(kafkafeatures.__file__, kafkasim.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    (root,) = {os.path.dirname(os.path.dirname(path)) for path in done.stdout.split()}
    assert environment()["PYTHONPATH"].split(os.pathsep)[0] == root
