"""`python -m kafkasim.fleet FOLDER`: writes the files of a simulated fleet of clusters, input for the pipeline: copies
of the metadata log from several nodes of each cluster (FOLDER/logs), the KafkaFeatures documents of some clusters
(FOLDER/documents), and the plan of each cluster (FOLDER/fleet.json).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kafkafeatures.api.values import replace
from kafkasim.fleet.fleet import write_fleet
from kafkasim.fleet.plan import SMALL, WHOLE, Scale


def main(arguments: list[str] | None = None) -> int:
    """Write a simulated fleet of clusters to an empty folder. Exit code 1 if the folder is not empty, or if the sizes
    do not fit together.
    """
    parser = argparse.ArgumentParser(prog="python -m kafkasim.fleet", description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help=f"{SMALL} instead of {WHOLE}")
    for name in Scale.__struct_fields__:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, dest=name)
    parsed = parser.parse_args(arguments)
    sizes = {name: getattr(parsed, name) for name in Scale.__struct_fields__}
    try:
        scale = replace(SMALL if parsed.small else WHOLE, **{k: v for k, v in sizes.items() if v is not None})
        write_fleet(parsed.folder, scale, seed=parsed.seed, tell=lambda line: print(line, flush=True))  # noqa: T201 - for people
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
