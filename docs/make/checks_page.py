"""Makes docs/reference/impossible-records.md, about Kafka's own checks on the records of a log, from the table by which
the commands judge. Called by `reference.py`.
"""

from __future__ import annotations

from kraftlog.checks import CHECKS, SOURCE, ReplayCheck

_HEAD = f"""\
A record can be well-formed and still be impossible: a change for another broker epoch, a topic twice, a partition
without a topic. Kafka checks this when it replays the log. A controller that meets such a record exits, and exits again
at every start. A broker, if the check is one of its own, logs the error, counts it in `metadata-load-error-count`, and
continues without the record.

`kafkafeatures log verify`, `decode`, `timeline` and `state` name every such record with its offset and Kafka's method,
and exit with 1. In the tables of the pipeline it is a row `contradiction_in_log` of
[data_quality](pipeline-tables.md#data_quality). Only what Kafka itself checks is reported. If the log before a record
is missing (no snapshot, a gap, damage, a record that was not decoded), it is not known what was there, and no record is
reported because of it.

Not in the table, because they depend on the release that reads the log: a finalized level that the binaries do not
support, and types or versions of records that they do not know.

The files are in `{SOURCE}` of Kafka's repository. *Image* is the code of brokers and controllers, *controller* that of
controllers alone. Where no release is named, every release since 3.3 checks it.
For a partition without a topic, the image has no check of its own: it throws a NullPointerException in `TopicDelta`.
"""


def page(note: str) -> str:
    """The whole page. `note`: the comment that says that the file is made."""
    head = [
        "# Records at which Kafka stops",
        "",
        note,
        _HEAD,
        "| Record | Kafka stops if | Image | Controller | Files | Releases |",
    ]
    return "\n".join([*head, "|---|---|---|---|---|---|", *map(_row, CHECKS), ""])


def _row(check: ReplayCheck) -> str:
    records = ", ".join(f"`{record}`" for record in check.records)
    methods = (f"`{method}`" if method else "-" for method in (check.image, check.controller))
    files = ", ".join(f"`{file}`" for file in check.files)
    return f"| {records} | {check.condition} | {' | '.join(methods)} | {files} | {check.releases or '-'} |"
