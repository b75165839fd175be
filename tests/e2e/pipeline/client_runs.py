"""A program: one run on Spark with evidence about clients.

Arguments, each as JSON: the folders of inputs, output and evidence, and settings of Spark.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from featurelog.spark.engine import OnSpark
from featurelog.spark.session import session
from tests.featurelog import evidence


def main(inputs: str, output: str, folder: str, settings: dict[str, str]) -> None:
    with ExitStack() as stack:
        engine = OnSpark(stack.enter_context(session("local[2]", settings)))
        run = evidence.run(Path(inputs), Path(output), [Path(folder)], start_engine=lambda: engine)
    print(json.dumps({"files": run.client_files, "problems": run.problems}))


if __name__ == "__main__":
    arguments: list[Any] = [json.loads(argument) for argument in sys.argv[1:]]
    main(*arguments)
