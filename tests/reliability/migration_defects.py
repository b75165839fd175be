"""Defects of migrations that `calibration.py` puts back; each is found by histories about migrations."""

from __future__ import annotations

from tests.reliability.defect import Defect

CORE = "kafkafeatures.core.migration"

MIGRATION_DEFECTS = (
    Defect(
        "stores-differ",
        "a way back closes although ZooKeeper lacks metadata that the log has",
        f"{CORE}.checks",
        (("    elif asked.compared.differences:\n", "    elif False:\n"),),
        of_migrations=True,
    ),
    Defect(
        "not-compared",
        "a way back closes although the two stores were not compared",
        f"{CORE}.checks",
        (("    if not asked.closes or not needs_comparison(asked.place):\n", "    if True:\n"),),
        of_migrations=True,
    ),
    Defect(
        "last-comparison",
        "the cluster is given back to ZooKeeper although the last comparison does not show that it has everything",
        f"{CORE}.checks",
        (("    lacking = what_is_lacking(asked.place, asked.equality)\n", "    lacking = None\n"),),
        of_migrations=True,
    ),
    Defect(
        "level-meanwhile",
        "a cluster that is migrating is taken for one in KRaft mode, and its levels are changed",
        "kafkafeatures.core.facts.observe",
        (
            ("from_log(MetadataMode.MIGRATING)", "from_log(MetadataMode.KRAFT)"),
            ("Known(MetadataMode.MIGRATING, Source", "Known(MetadataMode.KRAFT, Source"),
        ),
        of_migrations=True,
    ),
    Defect(
        "finalized-unasked",
        "a migration is finalized without its consent",
        f"{CORE}.finalize",
        (("    if ZK_FINALIZE not in asked.consents:\n", "    if False:\n"),),
        of_migrations=True,
    ),
    Defect(
        "finalize-not-approved",
        "a plan that finalizes needs no approval",
        f"{CORE}.now",
        (("return self.wish.desired is Desired.FINALIZED or self.facts", "return self.facts"),),
        of_migrations=True,
    ),
    Defect(
        "dual-write-not-kept",
        "dual write is not kept for as long as the document says",
        f"{CORE}.finalize",
        (("not holds(place) or left <= timedelta(0):", "not holds(place) or True:"),),
        of_migrations=True,
    ),
    Defect(
        "finalized-from-anywhere",
        "a document that asks for Finalized too early leads through all phases at once",
        f"{CORE}.edges",
        (("    if desired is Desired.FINALIZED and edge is not FINALIZE:\n", "    if False:\n"),),
        of_migrations=True,
    ),
    Defect(
        "quorum-stopped-first",
        "on the way back the controllers are stopped while brokers run in KRaft mode",
        f"{CORE}.edges",
        (("return MOVE_BROKERS_BACK if in_kraft else STOP_CONTROLLERS", "return STOP_CONTROLLERS"),),
        of_migrations=True,
    ),
    Defect(
        "epoch-not-raised",
        "the epoch of the controller stays below that of partitions (KAFKA-20488)",
        f"{CORE}.release",
        (("highest + 1 if epoch.value <= highest else None", "None"),),
        of_migrations=True,
    ),
    Defect(
        "progress-not-kept",
        "/migration is deleted before its content is saved",
        f"{CORE}.release",
        (('migration.text if migration is not None else "", consent,', '"", consent,'),),
        of_migrations=True,
    ),
    Defect(
        "controller-first",
        "the broker that is controller gets the flag before others",
        f"{CORE}.restarts",
        (("last=claim.node_id if claim is not None and not claim.is_kraft else None,", "last=None,"),),
        of_migrations=True,
    ),
)
