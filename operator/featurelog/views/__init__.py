"""SQL views over the tables: who is blocked, what was finalized when, ghosts, rolls, migrations that do not continue.

It lists the views and their parameters; the SQL of each is a file beside this one. `featurelog.spark.views` runs them
on Spark. Any other engine with the function `explode` can run them, too; DuckDB needs `CREATE MACRO explode(list) AS
unnest(list)`. (`drift` is a table, and needs no view.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType


@dataclass(frozen=True)
class View:
    """A view. parameters: names and SQL types; a view with parameters is a function."""

    name: str
    text: str
    parameters: Mapping[str, str]

    @cached_property
    def query(self) -> str:
        """The SELECT statement in the file."""
        return (Path(__file__).parent / f"{self.name}.sql").read_text(encoding="utf-8").rstrip().rstrip(";")


def _view(name: str, text: str, **parameters: str) -> View:
    return View(name, text, MappingProxyType(parameters))


VIEWS: Mapping[str, View] = MappingProxyType(
    {
        view.name: view
        for view in (
            _view("fleet_blockers", "what keeps each cluster from a release of Kafka", release="STRING"),
            _view("what_finalized_when", "each finalized level, since when, and who changed it"),
            _view("ghosts", "registrations of nodes that seem to exist no longer, with their last registration"),
            _view("roll_durations", "each roll: how long it took, its slowest node, what partitions had of it"),
            _view("stuck_migrations", "migrations from ZooKeeper in which nothing changed for a day"),
        )
    }
)
