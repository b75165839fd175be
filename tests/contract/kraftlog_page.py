"""The reference of `kraftlog`: made of what it exports and says of itself, with examples that a test runs."""

from __future__ import annotations

import inspect

import kraftlog
import kraftlog.files  # a module of its own, which the package does not import

FOLDER = "__cluster_metadata-0"
IMAGE = f'''
from pathlib import Path
from kraftlog import Replay, Section, files

folder = Path("{FOLDER}")
snapshot, segments = files.newest(path.name for path in folder.iterdir())
replay = Replay(sections=[Section.REGISTRATIONS, Section.FEATURES])
if snapshot:
    content = (folder / snapshot.name).read_bytes()
    replay.load_snapshot(content, end_offset=snapshot.end_offset, epoch=snapshot.epoch)
for segment in segments:
    replay.append((folder / segment.name).read_bytes(), below=1 << 62)
image = replay.image()
print(image.offset, image.features["metadata.version"], sorted(image.brokers), image.unreadable)
'''
IMAGE_SAYS = "495 28 [1, 2, 3] 0"
WALK = f'''
import mmap
from kraftlog import Damage, Decoded, decode, walk

with open("{FOLDER}/00000000000000000000.log", "rb") as file:
    for found in walk(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)):
        if isinstance(found, Damage):
            print(f"{{found.size}} bytes at {{found.position}}: {{found.reason.value}}")
        elif not found.is_control:
            for record in found.records():
                content = decode(record.value)
                if isinstance(content, Decoded) and content.type.name == "FEATURE_LEVEL_RECORD":
                    print(record.offset, content.data["name"], content.data["featureLevel"])
'''
READING = f'''
from pathlib import Path
from kraftlog import Damage, Decoded, to_json
from kraftlog.reading import Reading
from kraftlog.redaction import redacted

reading = Reading(Path("{FOLDER}/00000000000000000000.log").read_bytes())
for found in reading:
    if isinstance(found, Damage):
        print(f"{{found.size}} bytes at {{found.position}}: {{found.reason.value}}")
    elif isinstance(found.content, Decoded) and found.content.type.name == "FEATURE_LEVEL_RECORD":
        print(found.offset, to_json(redacted(found.content).data))
print(reading.account.is_balanced, sum(one.records for one in reading.account.decoded.values()))
'''
PARTITIONED = """
from pathlib import Path
from kraftlog import Replay, Section, files
from kraftlog.partitions import Replica

folder = Path("__cluster_metadata-0")
snapshot, segments = files.newest(path.name for path in folder.iterdir())
replay = Replay(sections=[Section.PARTITIONS])
if snapshot:
    content = (folder / snapshot.name).read_bytes()
    replay.load_snapshot(content, end_offset=snapshot.end_offset, epoch=snapshot.epoch)
for segment in segments:
    replay.append((folder / segment.name).read_bytes(), below=1 << 62)
found = replay.image().partitions
for chunk in found.chunks:
    in_sync = (chunk.flags & Replica.IN_SYNC != 0).sum(axis=1)
    for row in (in_sync < chunk.replicas.shape[1]).nonzero()[0]:
        topic = found.topics[int(chunk.topic[row])]
        print(f"{topic.name}-{chunk.partition[row]}: {in_sync[row]} of {chunk.replicas[row]} in sync")
"""
ARROW = f'''
from pathlib import Path
import pyarrow.parquet as pq
from kraftlog.arrow import PARQUET, RECORDS, record_batches
from kraftlog.reading import Reading

reading = Reading(Path("{FOLDER}/00000000000000000000.log").read_bytes())
with pq.ParquetWriter("records.parquet", RECORDS, **PARQUET) as file:
    for found in record_batches(reading):
        file.write_batch(found)
print(reading.account.is_balanced, pq.read_metadata("records.parquet").num_rows)
'''
AT = f'''
from contextlib import nullcontext
from pathlib import Path
from kraftlog.restored import image_at

folder = Path("{FOLDER}")
names = [path.name for path in folder.iterdir()]
found = image_at(names, lambda name: nullcontext(memoryview((folder / name).read_bytes())), at=142)
print(found.image.offset, found.image.features["metadata.version"], found.made_of)
'''
AT_SAYS = "142 25 ('00000000000000000000.log',)"
HEAD = """
Reads and writes the metadata logs of KRaft clusters: what lies in `__cluster_metadata-0` on the disk of a controller,
and what a controller sends to whoever follows it. It opens no file and no connection: it is given bytes.

## Installing it alone

The operator's distribution contains it. A program that needs only this library, on a Spark worker for example,
installs it from a clone, with `google-crc32c` as its only dependency:

    pip install ./operator/kraftlog

Partitions (see below) need numpy as well: `pip install './operator/kraftlog[partitions]'`; Arrow columns need numpy and
pyarrow: `pip install './operator/kraftlog[arrow]'`. Install only one of the two distributions in an environment.

## From a directory to an image
"""
AFTER_IMAGE = """
`below` is the first offset that does not count. A node's own files may end with records that are not committed yet, and
that a new leader may truncate: who knows the high watermark gives it.

`kraftlog.restored.image_at` makes the image at any offset of a directory, also inside of a batch, and refuses with
`StateUnknown` what the files do not say: a gap, damage, an offset before the oldest snapshot.

```python{AT}```

    {AT_SAYS}

`kraftlog.history.HistoryReader` takes batches in order and gives what changed: levels, registrations, fencing, voters,
leaders, the migration. Changes of a metadata transaction come at its end.

An image is immutable and can be pickled. Taking one costs nothing, and a change in one of a million keys copies a
few hundred of them. What was not asked for with `sections` is counted and skipped; reading it raises `SectionNotRead`.

## From a file to its records
"""
AFTER_WALK = """
Batches are views of the bytes that were walked over, so they keep them alive; values of records are copies. Do not
map a file that a node may truncate meanwhile: read it, or give `walk` an object with a length that reads its slices on
demand (`kraftlog.batches.Pieces`). Damage is
a value with its position, and the walk continues at the next batch whose CRC-32C holds. A record of a type or version
that the tables do not have is `Raw`, one that contradicts its layout `Unreadable`; both keep their bytes, and `encode`
writes all three back: a decoded record as Kafka writes it, with each number in its shortest form, the others bit for
bit.

The tables have every metadata record of Kafka 3.0 to 4.4, and are generated from the message definitions in Kafka's
jars. Four things in them are not what a reader of the KIPs expects:

- `FEATURE_LEVEL_RECORD`, `USER_SCRAM_CREDENTIAL_RECORD` and `DELEGATION_TOKEN_RECORD` have two layouts under version 0.
  `Decoded.layout` names the releases of the older one (`3.0-3.2`), and is empty for the current one.
- `ZK_MIGRATION_STATE_RECORD`: Kafka 3.5 swapped codes 1 and 2. A 1 written by Kafka 3.4 means pre-migration, and
  later releases read it as migration.
- `PRODUCER_IDS_RECORD`: `nextProducerId` is called `producerIdsEnd` in Kafka 3.0 and 3.1.
- `BROKER_REGISTRATION_CHANGE_RECORD` has key 17, not 15 as in KIP-746. 16 was `REMOVE_FEATURE_LEVEL_RECORD` up to
  Kafka 3.2, and 6 `ACCESS_CONTROL_RECORD` up to 3.4.

Batches that are compressed with snappy, lz4 or zstd are read with pyarrow (`kraftlog[arrow]`), within the bounds that
gzip has. A controller writes none; without pyarrow they are damage that says so (`DamageReason.CODEC`).

## To the last byte, and without secrets

`kraftlog.reading.Reading` walks over a file, yields every record and every `Damage`, and keeps an account: each byte
belongs to a batch header, to a decoded record (by type), to a record that was kept as bytes, or to damage (both by
reason); the records that batches claim to have are counted in the same way. `kraftlog.redaction.redacted` removes the
secrets from a record: SCRAM salts and keys, and the values of configs that Kafka defines as passwords or does not
define at all.

```python{READING}```

## As Arrow columns

`kraftlog.arrow` gives the rows of a segment or snapshot as Arrow record batches, bounded in number and size: every
record in order, and every damage where it was met. `RECORDS` is their schema: where a record lies and when it was
written, its type and version, whether it was `decoded`, `kept` as bytes or `damaged` (with the reason as the account
has it), its body as JSON with Kafka's field names, and what is asked of many records at once as columns: node, epoch,
incarnation, feature and level, fencing, topic, partition, leader, in-sync replicas. Secrets are redacted, and the bytes
of what could not be decoded left out, unless `redact=False`.

```python{ARROW}```

## Clients

`Section.CLIENTS` holds rights, SCRAM credentials (user, mechanism, iterations), delegation tokens, quotas, and the next
producer id; no secret of any. It is read only where it is asked for by name.

`Section.CONFIGS` holds all configs, and SCRAM credentials again with a digest of their secrets: enough to see whether
another store has the same. A config that may be secret is a digest too (`kraftlog.digests`), which only digests that
were made by the same process can be compared with.

## Partitions as columns

`Section.PARTITIONS` holds topics, partitions and what was set of `min.insync.replicas`, in numpy arrays: a million
partitions take 65 MB. It is read only where it is asked for by name.

```python{PARTITIONED}```

Partitions with the same number of replicas share a chunk of at most 4,096 rows. Rows are in no order, and arrays are
shared between images: do not write to them. `kraftlog.partitions` says what each column holds, and
`image.partitions.rows()` gives each partition as a value.

## What an image says

Beside the fields of its sections (`registrations`, `finalized`, `quorum`, `migration`, `partitioned`,
`client_data`, `configured`) an image has
`offset`, `epoch`, `timestamp_ms`, `in_transaction`, `counts` of records by type, and `unreadable`: records that could
not be understood. Above 0 it means that something may be missing. The fields of the sections can be read from the
image itself:

| Field | What it says |
|---|---|
"""
EXPORTS = """
## What it exports

| Name | What it is |
|---|---|
"""


def page(note: str) -> str:
    """The whole page."""
    after_walk = (
        AFTER_WALK.replace("{PARTITIONED}", PARTITIONED).replace("{READING}", READING).replace("{ARROW}", ARROW)
    )
    after_image = AFTER_IMAGE.replace("{AT}", AT).replace("{AT_SAYS}", AT_SAYS)
    shown = f"{HEAD}\n```python{IMAGE}```\n\n    {IMAGE_SAYS}\n{after_image}\n```python{WALK}```\n{after_walk}"
    fields = [_row(name, found) for name, found in vars(kraftlog.Image).items() if isinstance(found, property)]
    exports = [_row(name, getattr(kraftlog, name)) for name in kraftlog.__all__]
    return f"# kraftlog\n\n{note}{shown}" + "\n".join([*fields, EXPORTS.rstrip(), *exports, ""])


def _row(name: str, what: object) -> str:
    """With the first paragraph of its docstring."""
    text = " ".join((inspect.getdoc(what) or "").split("\n\n")[0].split())
    return f"| `{name}` | {text} |"
