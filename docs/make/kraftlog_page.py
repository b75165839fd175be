"""Makes docs/reference/kraftlog.md from the names that the library exports and their docstrings, with examples.

Called by `reference.py`. A test runs the examples, and compares what two of them print with `IMAGE_SAYS` and `AT_SAYS`.
In a text, a name in braces, such as {WALK}, stands for an example.
"""

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
`kraftlog` reads and writes the metadata logs of KRaft clusters: the files in `__cluster_metadata-0` on the disk of a
controller, and the batches that a controller sends to its followers. It opens no files and no connections: the caller
gives it bytes.

## Installing it alone

The operator's distribution contains the library. If a program needs only this library, for example on a Spark worker,
install it from a clone. Its only dependency is `google-crc32c`:

    pip install ./operator/kraftlog

Partitions (see below) also need numpy, and Arrow columns need numpy and pyarrow:

    pip install './operator/kraftlog[partitions]'
    pip install './operator/kraftlog[arrow]'

Lines of text, one for each record (`kraftlog.lines`), also need msgspec: `pip install './operator/kraftlog[text]'`.

In one environment, install either the operator or this library, not both.

## From a directory to an image
"""
AFTER_IMAGE = """
`below` is the first offset to ignore. The files of a node may end with records that are not committed yet and that a
new leader may truncate. If you know the high watermark, pass it as `below`.

`kraftlog.restored.image_at` builds the image at any offset of a directory, even inside a batch. It raises
`StateUnknown` if the files do not contain that state: because of a gap or damage, or because the offset is before the
oldest snapshot.

```python{AT}```

    {AT_SAYS}

`kraftlog.history.HistoryReader` takes batches in order and yields the changes: levels, registrations, fencing, voters,
leaders, the migration. It yields the changes of a metadata transaction at the end of the transaction.

An image is immutable and can be pickled. Taking an image costs nothing. A later change of one key among a million
copies a few hundred keys. Records of sections that you did not ask for with `sections` are counted and skipped; reading
such a section raises `SectionNotRead`.

## From a file to its records
"""
AFTER_WALK = """
Batches are views of the bytes that you pass to `walk`, so they keep these bytes in memory; values of records are
copies. Do not map a file that a node may truncate meanwhile. Read the file, or give `walk` an object with a length that
reads its slices on demand (`kraftlog.batches.Pieces`).

Damage is a value with its position. After damage, the walk continues at the next batch whose CRC-32C is correct.

A record whose type or version is not in the tables is `Raw`. A record that contradicts its layout is `Unreadable`. Both
keep their bytes. `encode` writes all three kinds of record back: a decoded record as Kafka writes it, with each number
in its shortest form, and the other two bit for bit.

The tables contain every metadata record of Kafka 3.0 to 4.4, and are generated from the message definitions in Kafka's
jars. Four details differ from what the KIPs lead you to expect:

- `FEATURE_LEVEL_RECORD`, `USER_SCRAM_CREDENTIAL_RECORD` and `DELEGATION_TOKEN_RECORD` have two layouts in version 0.
  `Decoded.layout` names the releases of the older layout (`3.0-3.2`), and is empty for the current layout.
- `ZK_MIGRATION_STATE_RECORD`: Kafka 3.5 swapped codes 1 and 2. A 1 written by Kafka 3.4 means pre-migration, and
  later releases read it as migration.
- `PRODUCER_IDS_RECORD`: `nextProducerId` is called `producerIdsEnd` in Kafka 3.0 and 3.1.
- `BROKER_REGISTRATION_CHANGE_RECORD` has key 17, not 15 as in KIP-746. Key 16 was `REMOVE_FEATURE_LEVEL_RECORD` up to
  Kafka 3.2, and key 6 was `ACCESS_CONTROL_RECORD` up to 3.4.

Batches that are compressed with snappy, lz4 or zstd need pyarrow (`kraftlog[arrow]`), and have the same size limits as
gzip. A controller writes no such batches. Without pyarrow they are reported as damage (`DamageReason.CODEC`).

## To the last byte, and without secrets

`kraftlog.reading.Reading` walks over a file and yields every record and every `Damage`. It also keeps an account of all
bytes. Each byte belongs to a batch header, to a decoded record (by type), to a record that was kept as bytes, or to
damage (both by reason). The number of records that batches claim to contain is accounted for in the same way.

`kraftlog.redaction.redacted` removes the secrets from a record: SCRAM salts and keys, and the values of configs that
Kafka defines as passwords or does not define at all.

```python{READING}```

## As Arrow columns

`kraftlog.arrow` yields the rows of a segment or snapshot as Arrow record batches of limited length and size: every
record in order, and damage at its position. `RECORDS` is their schema:

- where the record is, and when it was written,
- its type and version,
- whether it was `decoded`, `kept` as bytes or `damaged`, with the same reasons as in the account,
- its body as JSON with Kafka's field names,
- columns for what queries over many records need: node, epoch, incarnation, feature and level, fencing, topic,
  partition, leader, in-sync replicas.

Unless you pass `redact=False`, secrets are redacted, and the bytes of records that could not be decoded are left out.

```python{ARROW}```

## Clients

`Section.CLIENTS` contains ACLs, SCRAM credentials (user, mechanism, iterations), delegation tokens, quotas, and the
next producer id, all without their secrets. It is read only if you name it in `sections`.

`Section.CONFIGS` contains all configs, and the SCRAM credentials again with a digest of their secrets, so that you can
see whether another store has the same credentials. A config that may be secret is also a digest (`kraftlog.digests`).
You can compare only digests that the same process made.

## Partitions as columns

`Section.PARTITIONS` contains topics, partitions and the configured values of `min.insync.replicas`, in numpy arrays. A
million partitions take 65 MB. It is read only if you name it in `sections`.

```python{PARTITIONED}```

Partitions with the same number of replicas share chunks of at most 4,096 rows. Rows are in no particular order. Images
share the arrays, so do not write to them. The docstrings of `kraftlog.partitions` describe each column, and
`image.partitions.rows()` yields each partition as a value.

## Fields of an image

Besides a field for each section (`registrations`, `finalized`, `quorum`, `migration`, `partitioned`, `client_data`,
`configured`), an image has `offset`, `epoch`, `timestamp_ms`, `in_transaction`, `counts` (records by type) and
`unreadable` (the number of records that could not be read). If `unreadable` is above 0, something may be missing from
the image. You can read the fields of the sections from the image itself:

| Field | Meaning |
|---|---|
"""
EXPORTS = """
## Exported names

| Name | Meaning |
|---|---|
"""


def page(note: str) -> str:
    """The whole page. `note`: the comment that says that the file is made."""
    after_walk = (
        AFTER_WALK.replace("{PARTITIONED}", PARTITIONED).replace("{READING}", READING).replace("{ARROW}", ARROW)
    )
    after_image = AFTER_IMAGE.replace("{AT}", AT).replace("{AT_SAYS}", AT_SAYS)
    text = f"{HEAD}\n```python{IMAGE}```\n\n    {IMAGE_SAYS}\n{after_image}\n```python{WALK}```\n{after_walk}"
    fields = [_row(name, value) for name, value in vars(kraftlog.Image).items() if isinstance(value, property)]
    exports = [_row(name, getattr(kraftlog, name)) for name in kraftlog.__all__]
    return f"# kraftlog\n\n{note}{text}" + "\n".join([*fields, EXPORTS.rstrip(), *exports, ""])


def _row(name: str, export: object) -> str:
    """The row of an exported name or a field, with the first paragraph of its docstring."""
    text = " ".join((inspect.getdoc(export) or "").split("\n\n")[0].split())
    return f"| `{name}` | {text} |"
