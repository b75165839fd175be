"""`kafkafeatures pipeline gate` and `report`: tell CI and people whether clusters may be raised to a release or level.

Called by `cli/pipeline/command.py`. Both read the tables of the last run, and no logs. `featurelog.gate` makes the
verdicts.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkafeatures.api.values import replace
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import print_document, tell
from kafkafeatures.client_targets import client_targets
from kafkafeatures.core.words import counted

if TYPE_CHECKING:
    from featurelog.config import Config
    from featurelog.delta import Output, Tables
    from featurelog.gate import ClusterName, Gate, Target

Row = dict[str, Any]

_READINESS = "upgrade_readiness"
"""The table by which the gate judges."""
_PAGE_TABLES = (
    "node_registrations", "feature_timeline", "migration_timeline", "rolls", "drift", "data_quality",
    "client_readiness", "client_blockers", "evidence_coverage",
)  # fmt: skip
"""Further tables that pages show."""
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")
"""Characters of a cluster's name that a file name does not get."""
FLEET_PAGE = "fleet.html"
"""File name of the page about all clusters."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `gate` and `report` for the target."""
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--release", metavar="X", help="of gate and report: a release of Kafka, such as 4.2")
    target.add_argument(
        "--feature", metavar="NAME=LEVEL", help="of gate and report: a level, such as metadata.version=4.2-IV1"
    )
    parser.add_argument(
        "--cluster",
        metavar="NAME",
        help="of gate and report: one cluster only, by its folder or its id; of remove: the folder of the cluster",
    )
    parser.add_argument("--html", type=Path, metavar="DIR", help="of report: the folder for its pages")


def gate(arguments: argparse.Namespace, config: Config) -> int:
    """Print the verdicts. Exit code 0: ready, 4: blocked, 5: unknown."""
    tables, names = _fleet(config)
    fleet = _Fleet(names, _rows(tables, _READINESS), _client_rows(config, tables))
    verdicts = _selected(fleet.judged(_target(arguments)), arguments.cluster)
    if arguments.output == "text":
        print("\n".join(_lines(verdicts)))
    else:
        print_document(verdicts.as_json(), "json")
    return _exit(verdicts)


def report(arguments: argparse.Namespace, config: Config) -> int:
    """Write a page for the fleet and one for each cluster. Exit code 0, whatever the verdicts are."""
    from kafkafeatures.cli.pages.cluster import cluster_page
    from kafkafeatures.cli.pages.cluster_tables import ClusterTables
    from kafkafeatures.cli.pages.fleet import fleet_page

    if arguments.html is None:
        raise CommandFailed("report: --html DIR is required: the folder for its pages", Exit.USAGE)
    tables, names = _fleet(config)
    fleet = _Fleet(names, _rows(tables, _READINESS), _client_rows(config, tables))
    document = _selected(fleet.judged(_target(arguments)), arguments.cluster).as_json()
    rows = _by_cluster({_READINESS: fleet.readiness, **{name: _rows(tables, name) for name in _PAGE_TABLES}})
    releases = _release_verdicts(fleet)
    clusters = []
    for number, cluster_gate in enumerate(document["clusters"], 1):
        name = cluster_gate["cluster"], cluster_gate["clusterId"]
        clusters.append(
            (_file_of(number, cluster_gate["cluster"]), ClusterTables(cluster_gate, rows.get(name, {}), releases[name]))
        )
    folder: Path = arguments.html
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for page, cluster in clusters:
            (folder / page).write_text(cluster_page(document, cluster, FLEET_PAGE), encoding="utf-8")
        (folder / FLEET_PAGE).write_text(fleet_page(document, clusters), encoding="utf-8")
    except OSError as error:
        raise CommandFailed(
            f"{error.filename or folder}: {error.strerror}; choose another folder", Exit.USAGE
        ) from None
    tell(f"wrote {folder / FLEET_PAGE} and {counted(len(clusters), 'page')} of clusters beside it")
    return Exit.DONE


def _file_of(number: int, cluster: str) -> str:
    """A file name that is safe on any system. The name of the cluster is untrusted: it comes from a path."""
    return f"cluster-{number:04}-{_UNSAFE_CHARACTERS.sub('-', cluster)[:60].strip('.-')}.html"


def _target(arguments: argparse.Namespace) -> Target:
    """The release or level in the flags. Raises CommandFailed."""
    from featurelog.gate import Target
    from kafkafeatures.api.names import METADATA_VERSION
    from kafkafeatures.core.facts.releases import metadata_version_named, releases

    if arguments.release is not None:
        if arguments.release not in releases():
            expected = f"{releases()[0]} to {releases()[-1]}"
            raise CommandFailed(f"unknown release {arguments.release[:60]!r}; expected one of {expected}", Exit.USAGE)
        return Target("release", arguments.release)
    if arguments.feature is None:
        raise CommandFailed(f"{arguments.action}: --release X or --feature NAME=LEVEL is required", Exit.USAGE)
    feature, _, level = arguments.feature.rpartition("=")
    version = metadata_version_named(level) if feature == METADATA_VERSION else None
    if version is None and not (feature and level.isascii() and level.isdecimal()):
        text = f"invalid value {arguments.feature[:60]!r}; expected NAME=LEVEL, such as group.version=1"
        raise CommandFailed(text, Exit.USAGE)
    return Target("feature", f"{feature}={int(level) if version is None else version.level}")


def output_of(config: Config) -> Output:
    """The output as the last run left it. Raises CommandFailed if there are no tables, or they cannot be read."""
    from featurelog.delta import Output, OutputError

    try:
        output = Output.open(config.settings.output)
    except OutputError as error:
        raise CommandFailed(str(error), Exit.UNREACHABLE) from None
    if not output.tables.sequence:
        text = f"{config.settings.output}: there are no tables; `kafkafeatures pipeline run` makes them"
        raise CommandFailed(text, Exit.UNREACHABLE)
    return output


def _fleet(config: Config) -> tuple[Tables, set[ClusterName]]:
    """(tables, names of all clusters of the last run, including those of which nothing could be read)."""
    from featurelog.gate import ClusterName

    output = output_of(config)
    folders: dict[str, set[str | None]] = {}
    for node in output.ledger.nodes:
        folders.setdefault(node.cluster, set()).add(node.cluster_id)
    # A node that does not say its cluster's id has that of the other nodes in its folder, if these name only one.
    of_nodes = {
        ClusterName(folder, id_)
        for folder, ids in folders.items()
        for id_ in (ids - {None} if len(ids) == 2 and None in ids else ids)
    }
    evidence_only = {
        ClusterName(broker.cluster, None) for broker in output.ledger.brokers if broker.cluster not in folders
    }
    return output.tables, of_nodes | evidence_only


def _client_rows(config: Config, tables: Tables) -> list[Row] | None:
    """The rows of `client_readiness`; None: clients are not judged. They are if the configuration has evidence about
    them, or the last run judged them: a shorter configuration of the gate must not pass what that run has blocked.
    """
    rows = _rows(tables, "client_readiness")
    return rows if rows or config.clients is not None else None


class _Fleet(NamedTuple):
    """What the gate judges by. names: of all clusters. readiness: rows of `upgrade_readiness`. clients: see
    `_client_rows`.
    """

    names: set[ClusterName]
    readiness: list[Row]
    clients: list[Row] | None

    def judged(self, target: Target) -> Gate:
        """The gate for a target. Clients count for each release of which the API versions are known: those before
        have removed none.
        """
        from featurelog.gate import judge

        has_clients = target.kind == "release" and client_targets().of(target.name) is not None
        clients = self.clients if has_clients else None
        return judge(target, self.readiness, self.names, at_ms=int(time.time() * 1000), client_rows=clients)


def _selected(gate: Gate, selected: str | None) -> Gate:
    """The gate of the `selected` clusters, by folder or by id, so it may be several; None: of all. Raises CommandFailed
    if there is none.
    """
    if selected is None:
        return gate
    matches = [cluster for cluster in gate.clusters if selected in (cluster.name.cluster, cluster.name.cluster_id)]
    if not matches:
        raise CommandFailed(
            f"the tables have no cluster {selected[:100]!r}; it may not have been read yet", Exit.UNREACHABLE
        )
    return replace(gate, clusters=tuple(matches))


def _release_verdicts(fleet: _Fleet) -> Mapping[tuple[str, str | None], Mapping[str, str]]:
    """Verdict of the gate for each release of Kafka, the oldest first, by cluster."""
    from featurelog.gate import Target
    from kafkafeatures.core.facts.releases import releases

    verdicts: dict[tuple[str, str | None], dict[str, str]] = {}
    for release in releases():
        for cluster in fleet.judged(Target("release", release)).clusters:
            verdicts.setdefault((cluster.name.cluster, cluster.name.cluster_id), {})[release] = cluster.verdict.value
    return verdicts


def _rows(tables: Tables, name: str) -> list[Row]:
    """All rows of a table."""
    from featurelog.tables import TABLES

    rows: list[Row] = tables.read(name, TABLES[name].schema).to_pylist()
    return rows


def _by_cluster(tables: Mapping[str, Sequence[Row]]) -> Mapping[tuple[str, str | None], Mapping[str, list[Row]]]:
    """The rows of these tables, by cluster (folder and id) and table name."""
    rows_by_cluster: dict[tuple[str, str | None], dict[str, list[Row]]] = {}
    for name, rows in tables.items():
        for row in rows:
            rows_by_cluster.setdefault((row["cluster"], row["cluster_id"]), {}).setdefault(name, []).append(row)
    return rows_by_cluster


def _lines(gate: Gate) -> Iterable[str]:
    """The gate's answer for people: a line for each cluster, with its reason."""
    from kafkafeatures.cli.pages.cluster_tables import summary
    from kafkafeatures.core.words import printable

    document = gate.as_json()
    for cluster in document["clusters"]:
        reasons = "; ".join(summary(cluster))
        yield printable(f"{cluster['cluster']}: {cluster['verdict']}{f': {reasons}' if reasons else ''}")
    counts = ", ".join(f"{count} {verdict}" for verdict, count in document["counts"].items())
    yield f"{gate.target.kind} {gate.target.name}: {document['verdict']} ({counts})"


def _exit(gate: Gate) -> Exit:
    return {"ready": Exit.DONE, "blocked": Exit.BLOCKED, "unknown": Exit.UNREACHABLE}[gate.verdict.value]
