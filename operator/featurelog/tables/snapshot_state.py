"""State that a snapshot contains, for `walk`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from featurelog.tables import min_insync
from featurelog.tables.history import Doubt
from featurelog.tables.merged_log import SnapshotFile
from featurelog.tables.scans import KEYS, rows_of
from kraftlog.arrow import DECODED
from kraftlog.errors import ContradictionError
from kraftlog.image import SMALL
from kraftlog.rules import CONTROL_RULES, METADATA_RULES
from kraftlog.schema import table
from kraftlog.state import State

RULES = {key: rule for section in SMALL for key, rule in METADATA_RULES[section].items()}
"""Effects of the records about nodes, levels and the migration, by api key."""


def state_of(file: SnapshotFile) -> tuple[State, Mapping[str, str], int | None, list[Doubt]]:
    """Contents of a snapshot: the state; configs as of `min_insync.value_of`; the time of its last record in ms, None:
    not known; doubts about its records. Of the snapshot at offset 0 only control records count: Kafka reads no others
    from it (see kraftlog's SnapshotReader).
    """
    state, doubts = State(SMALL), []
    configs: dict[str, str] = {}
    for row in rows_of(file.scan.small):
        key = row["api_key"]
        if file.end == 0 and not row["is_control"]:
            continue
        if row["status"] != DECODED:
            if row["is_control"] or row["record_type"] is None or key in KEYS:
                doubts.append(Doubt("not_decoded", f"snapshot {file.scan.source.file}: {row['reason']}"))
            continue
        data = json.loads(row["body"])
        if row["is_control"]:
            CONTROL_RULES[key](state, data)
            continue
        if key == table.CONFIG.key and (config := min_insync.value_of(data)) is not None and config[1] is not None:
            configs[config[0]] = config[1]
        try:
            if key in RULES:
                RULES[key](state, data)
        except ContradictionError as error:
            doubts.append(Doubt("contradiction_in_log", f"snapshot {file.scan.source.file}: {error}"))
    at_ms = state.snapshot_timestamp_ms
    return state, configs, (at_ms if at_ms >= 0 else None), doubts
