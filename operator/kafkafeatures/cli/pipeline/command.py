"""`kafkafeatures pipeline`: makes tables from the metadata logs of many clusters (`featurelog`), and queries them.

A configuration file names the inputs, which are copies of nodes' files, and the output. A run reads new files, on Spark
or on one core, and commits the tables; an interrupted run leaves them as they were. This module reports a
run to people, to scripts (exit code) and to monitoring (a file of metrics).
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkafeatures.api.values import replace
from kafkafeatures.cli.pipeline import gate as pipeline_gate
from kafkafeatures.cli.pipeline.metrics import write_metrics
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit, to_install
from kafkafeatures.cli.shell.output import tell
from kafkafeatures.client_targets import client_targets
from kafkafeatures.core.words import counted

if TYPE_CHECKING:
    from featurelog.clients.stage import ClientSettings
    from featurelog.config import Clients, Config
    from featurelog.delta import Output
    from featurelog.engine import Engine
    from featurelog.run import Summary

_PROGRESS_EVERY = 5
"""Seconds between lines of progress."""
_OBJECTS_PER_SEARCH = 10_000
"""New objects after which they are searched for garbage, of which a run makes little; Python's default is 700."""
_SHOWN = 5
"""Most problems of one kind that are printed."""
KEEP_DAYS = 7
"""Days for which versions of the tables stay readable, unless the user sets others: Delta's own default."""
MOST_KEEP_DAYS = 36_500
LEAST_KEEP_LOG_DAYS = 7
"""Fewest days of `--keep-log-days`: by their snapshots, two copies are known to be of two nodes."""


def maintain(arguments: argparse.Namespace, config: Config) -> int:
    """Delete the files that killed runs left, and those that only versions older than `--keep-days` have; before that,
    drop what `--keep-log-days` says. Exit code 0: done.
    """
    if not 1 <= arguments.keep_days <= MOST_KEEP_DAYS:
        reason = f"expected 1 to {MOST_KEEP_DAYS}: a run, or a reader, may be under way"
        raise CommandFailed(f"maintain: --keep-days: {reason}", Exit.USAGE)
    dropped = 0 if arguments.keep_log_days is None else _drop_old_files(arguments.keep_log_days, config)
    deleted = pipeline_gate.output_of(config).maintain(arguments.keep_days)
    if arguments.output == "json":
        document = {"output": config.settings.output, "deletedFiles": deleted, "droppedLogFiles": dropped}
        print(json.dumps(document))
    else:
        logs = f"the rows of {counted(dropped, 'old file')} of logs dropped, " if arguments.keep_log_days else ""
        print(f"pipeline: {logs}{counted(deleted, 'file')} deleted in {config.settings.output}")
    return Exit.DONE


def _drop_old_files(days: int, config: Config) -> int:
    """Drop the rows of files that are gone from the inputs and older than a snapshot of this age. Returns the number of
    these files. Raises CommandFailed, InputsError, OutputError.
    """
    from featurelog.layout import Root
    from featurelog.retention import drop_old_files

    if days < LEAST_KEEP_LOG_DAYS:
        reason = f"at least {LEAST_KEEP_LOG_DAYS}: verdicts need the snapshots of several days"
        raise CommandFailed(f"maintain: --keep-log-days: {reason}", Exit.USAGE)
    output = pipeline_gate.output_of(config)
    listed: dict[tuple[str, str], set[str]] = {}
    for root in map(Root.of, config.settings.inputs):
        for log in root.logs():
            listed.setdefault((log.cluster, log.node), set()).update(file.name for file in log.files)
    now_ms, keep_ms = int(time.time() * 1000), days * 24 * 60 * 60 * 1000
    dropped = drop_old_files(output.ledger, config.settings.output, listed, now_ms, keep_ms)
    if dropped:
        output.commit(output.ledger)
    return dropped


def remove(arguments: argparse.Namespace, config: Config) -> int:
    """Remove the rows of a cluster whose logs are gone. Exit code 0: done, 4: an input has logs of it, 5: an
    input cannot be listed, or the tables have no such cluster.
    """
    from featurelog.delta import Output
    from featurelog.layout import Root

    cluster = arguments.cluster
    if not cluster:
        raise CommandFailed("remove: --cluster: required: the name of the cluster's folder", Exit.USAGE)
    output = Output.open(config.settings.output)
    if cluster not in output.ledger.by_cluster():
        raise CommandFailed(f"the tables have no cluster with the folder {cluster[:100]!r}", Exit.UNREACHABLE)
    problem = f"logs of cluster {cluster[:100]!r} are here, and the next run would read them again; nothing was removed"
    for root in map(Root.of, config.settings.inputs):
        if any(log.cluster == cluster for log in root.logs()):
            raise CommandFailed(f"{root.uri}: {problem}", Exit.BLOCKED)
    for root in map(Root.of, config.clients.inputs if config.clients else ()):
        if any(folder == cluster and files for folder, _, files in root.folders()):
            raise CommandFailed(f"{root.uri}: {problem}", Exit.BLOCKED)
    output.remove_cluster(cluster)
    document = {"output": config.settings.output, "cluster": cluster, "sequence": output.tables.sequence}
    removed = f"pipeline: removed all rows of cluster {cluster[:100]!r} from the tables in {config.settings.output}"
    print(json.dumps(document) if arguments.output == "json" else removed)
    return Exit.DONE


_ACTIONS: Mapping[str, Callable[[argparse.Namespace, Config], int]] = {
    "gate": pipeline_gate.gate,
    "report": pipeline_gate.report,
    "remove": remove,
    "maintain": maintain,
}
"""Actions that use the tables of the last run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags for the action, and for the configuration file."""
    parser.add_argument(
        "action",
        choices=("run", *_ACTIONS),
        help="run: read what is new in the inputs, and make the tables; gate: may clusters be taken to a release or a "
        "level; report: the same as pages for people; remove: remove the rows of a cluster whose logs are gone; "
        "maintain: delete files that no table has any more",
    )
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the configuration (YAML)")
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), help="lines for people, or an object (default: of gate json)"
    )
    pipeline_gate.add_arguments(parser)
    parser.add_argument(
        "--keep-days", type=int, default=KEEP_DAYS, metavar="N",
        help=f"of maintain: days for which older versions of the tables stay readable (default: {KEEP_DAYS})",
    )  # fmt: skip
    parser.add_argument(
        "--keep-log-days", type=int, metavar="N",
        help="of maintain: drop the rows of log files that are gone from the inputs and older than a snapshot of this "
        "age (default: keep all)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Make the tables, or carry out another action. Exit code of `run`: 0 if all inputs were read, 1 if some could not
    be.
    """
    try:
        from featurelog.config import ConfigError, read
        from featurelog.delta import OutputError
        from featurelog.java import JavaError
        from featurelog.layout import InputsError
        from featurelog.parts import DamagedInputError, EngineError
    except ModuleNotFoundError as error:
        raise missing(error, "pipeline") from None
    gc.freeze()  # what was imported stays until the end: to search it for garbage takes a tenth of a short run
    gc.set_threshold(_OBJECTS_PER_SEARCH)
    began = time.monotonic()
    try:
        config = read(arguments.config)
        if arguments.action != "run":
            return _ACTIONS[arguments.action](arguments, config)
        summary, engine, output = _run(config)
    except ConfigError as error:
        raise CommandFailed(str(error), Exit.USAGE) from None
    except (InputsError, OutputError) as error:
        raise CommandFailed(str(error), Exit.UNREACHABLE) from None
    except (DamagedInputError, EngineError, JavaError) as error:
        raise CommandFailed(str(error), Exit.FAILED) from None
    document = _document(config, summary, engine, time.monotonic() - began)
    if config.metrics is not None:
        try:
            write_metrics(config.metrics, document, output)
        except OutputError as error:
            raise CommandFailed(str(error), Exit.FAILED) from None
    print(json.dumps(document) if arguments.output == "json" else _line(document))
    for kind in ("problems", "doubts", "readAgain"):
        for text in document[kind][:_SHOWN]:
            tell(f"pipeline: {text}")
        if len(document[kind]) > _SHOWN:
            tell(f"pipeline: and {len(document[kind]) - _SHOWN} more; -o json has all of them")
    return Exit.FAILED if summary.problems else Exit.DONE


def _run(config: Config) -> tuple[Summary, str, Output]:
    """The summary of a run, the name of the engine, and the tables as the run left them."""
    from featurelog.config import documents
    from featurelog.engine import OneCore
    from featurelog.run import Run
    from featurelog.tables import NO_DOCUMENTS, Documents, Judging, tables_of

    contents = list(documents(config.documents)) if config.documents else []
    fleet_documents = Documents.of(contents) if config.documents else NO_DOCUMENTS
    at_ms = int(time.time() * 1000)
    clients = None if config.clients is None else _client_settings(config.clients, at_ms)
    # Tables depend on the documents and on the settings for clients too: if these change, the tables are made again
    # even without new files.
    other_inputs = [*([contents] if config.documents else []), *([config.clients] if clients else [])]
    digest = hashlib.sha256(repr(other_inputs).encode()).hexdigest() if other_inputs else ""
    judging = Judging(at_ms=at_ms, clients=None if clients is None else clients.judging)
    settings = replace(config.settings, clients=clients)
    engine_name = ["nothing new"]  # stays so if `start` is not called
    with ExitStack() as stack:

        def start() -> Engine:
            engine_name[0] = f"Spark on {config.spark.master}" if config.spark.enabled else "one core"
            return _on_spark(config, stack) if config.spark.enabled else OneCore()

        derive = partial(tables_of, documents=fleet_documents, judging=judging)
        run = Run(settings, derive, start, progress=_progress(), beside=digest)
        return run(), engine_name[0], run.output


def _client_settings(clients: Clients, at_ms: int) -> ClientSettings:
    """The settings of a run for evidence about clients. Raises CommandFailed for a release that is not known."""
    from featurelog.clients.stage import ClientSettings
    from featurelog.tables import ClientJudging

    targets = client_targets()
    for release in clients.releases:
        if targets.of(release) is None:
            text = f"clients.releases: unknown release {release}; expected one of {', '.join(targets.releases)}"
            raise CommandFailed(text, Exit.USAGE)
    judging = ClientJudging(clients.releases, targets, clients.window_ms, clients.owners)
    return ClientSettings(clients.inputs, judging, at_ms)


def _on_spark(config: Config, stack: ExitStack) -> Engine:
    """The engine on Spark. `stack`: ends the Spark session. Raises CommandFailed if PySpark is not installed."""
    from featurelog import java

    java.check()  # before PySpark is imported, which takes longer and may be missing as well
    try:
        from featurelog.spark.engine import OnSpark
        from featurelog.spark.session import session
    except ModuleNotFoundError as error:
        raise missing(error, "pipeline,spark", ", or set `spark.enabled: false` to read on one core") from None
    if sys.stderr.isatty():
        tell(f"pipeline: starting Spark on {config.spark.master}")
    return OnSpark(stack.enter_context(session(config.spark.master, config.spark.conf)))


def missing(error: ModuleNotFoundError, extras: str, alternative: str = "") -> CommandFailed:
    """The error that names what is not installed and how to install it. `alternative`: text that follows."""
    return CommandFailed(f"{error.name} is not installed: {to_install(extras)}{alternative}", Exit.FAILED)


def _progress() -> Callable[[int, int], None]:
    """A function that prints a line of progress every few seconds, on a terminal only."""
    printed_at = [time.monotonic()]  # a list, so that the inner function can change it

    def progress(done: int, total: int) -> None:
        if sys.stderr.isatty() and time.monotonic() - printed_at[0] > _PROGRESS_EVERY:
            printed_at[0] = time.monotonic()
            tell(f"pipeline: read {_size(done)} of {_size(total)}")

    return progress


def _document(config: Config, summary: Summary, engine: str, seconds: float) -> dict[str, Any]:
    account = summary.account
    return {
        "output": config.settings.output,
        "sequence": summary.sequence,
        "engine": engine,
        "seconds": round(seconds, 3),
        "clusters": summary.clusters,
        "files": summary.files,
        "bytes": account.get("size", 0),
        "clientFiles": summary.client_files,
        "clientBytes": summary.client_bytes,
        "records": {kind: _sum(account, kind, "records") for kind in ("decoded", "kept", "damaged")},
        "damagedBytes": _sum(account, "damaged", "bytes"),
        "problems": summary.problems,
        "doubts": summary.doubts,
        "readAgain": summary.read_again,
    }


def _sum(account: Mapping[str, Any], kind: str, subject: str) -> int:
    return sum(share[subject] for share in account.get(kind, {}).values())


def _line(document: Mapping[str, Any]) -> str:
    """The document of a run as one line for people."""
    clusters = counted(document["clusters"], "cluster")
    evidence = ""
    if document["clientFiles"]:
        files = counted(document["clientFiles"], "file")
        evidence = f", {files} with evidence about clients, {_size(document['clientBytes'])}"
    if not document["files"]:
        return f"pipeline: {evidence.lstrip(', ') or 'nothing new'} in {clusters}; tables in {document['output']}"
    records = document["records"]
    damaged = f", {document['damagedBytes']} bytes damaged{evidence}" if document["damagedBytes"] else evidence
    return (
        f"pipeline: {clusters}, {counted(document['files'], 'file')} with new records, {_size(document['bytes'])}: "
        f"{records['decoded']} decoded, {records['kept']} kept as bytes, {records['damaged']} damaged{damaged}; "
        f"{document['seconds']:.1f} s, {document['engine']}; tables in {document['output']}"
    )


def _size(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
