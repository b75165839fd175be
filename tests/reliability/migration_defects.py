"""Defects of migrations that `calibration.py` puts back; each is found by histories about migrations."""

from __future__ import annotations

from tests.reliability.defect import Defect

CORE = "kafkafeatures.core.migration"

MIGRATION_DEFECTS = (
    Defect(
        "stores-differ",
        "a way back closes although ZooKeeper lacks metadata that the log has",
        f"{CORE}.losses",
        (
            (
                "    if needs_comparison(progress) and compared is not None and compared.differences:\n",
                "    if False:\n",
            ),
        ),
        of_migrations=True,
    ),
    Defect(
        "not-compared",
        "a way back closes although the two stores were not compared",
        f"{CORE}.checks",
        (("    if not inputs.closes or not needs_comparison(inputs.progress):\n", "    if True:\n"),),
        of_migrations=True,
    ),
    Defect(
        "last-comparison",
        "the cluster is given back to ZooKeeper although the last comparison does not show that it has everything",
        f"{CORE}.losses",
        (("    lacking = consent_to_loss(inputs.progress, inputs.equality)\n", "    lacking = None\n"),),
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
        (("    if ZK_FINALIZE not in consents:\n", "    if False:\n"),),
        of_migrations=True,
    ),
    Defect(
        "finalize-not-approved",
        "a plan that finalizes needs no approval",
        f"{CORE}.state",
        (("return self.wish.desired is Desired.FINALIZED or self.facts", "return self.facts"),),
        of_migrations=True,
    ),
    Defect(
        "dual-write-not-kept",
        "dual write is not kept for as long as the document says",
        f"{CORE}.finalize",
        (("not is_in_dual_write(progress) or remaining <= timedelta(0):", "not is_in_dual_write(progress) or True:"),),
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
        (
            ('        migration.text if migration is not None else "",\n', '        "",\n'),
            ("znode_content=migration.text", 'znode_content=""'),
        ),
        of_migrations=True,
    ),
    Defect(
        "controller-first",
        "the broker that is controller gets the flag before others",
        f"{CORE}.restarts",
        (("last=claim.node_id if claim is not None and not claim.is_kraft else None,", "last=None,"),),
        of_migrations=True,
    ),
    Defect(
        "finalizes-by-position",
        "what protects dual write ends as soon as one controller has lost the flag, whoever took it",
        f"{CORE}.finalize",
        (
            (
                "    return progress.facts.state is ZkMigrationState.MIGRATION and not progress.is_finalizing\n",
                '    return progress.position.name == "DUAL_WRITE"\n',
            ),
        ),
        of_migrations=True,
    ),
    Defect(
        "unasked-controller",
        "nodes are restarted while a controller that lost the flag by accident may end the migration",
        f"{CORE}.finalize",
        (
            ("    if is_in_dual_write(progress) and not may_begin:\n", "    if False:\n"),
            (
                "    reasons = [blocker.message for blocker in "
                "without_the_flag(progress.observation, progress.facts.unflagged)]\n",
                "    reasons = list[str]()\n",
            ),
        ),
        of_migrations=True,
    ),
    Defect(
        "consent-taken-back",
        "controllers that were asked to lose the flag count as asked although the consent was removed",
        f"{CORE}.finalize",
        (
            (
                "    is_begun = ZK_FINALIZE in spent_on_plan(migration, plan, consents, desired)\n",
                "    is_begun = True\n",
            ),
        ),
        of_migrations=True,
    ),
    Defect(
        "hold-outlives-a-return",
        "dual write counts as kept although a broker has registered anew since",
        f"{CORE}.finalize",
        (
            (
                "    if previous is not None and previous.offset == dual_write.offset:\n",
                "    if previous is not None:\n",
            ),
            ("migration.dual_write_offset == dual_write.offset and migration", "migration"),
        ),
        of_migrations=True,
    ),
    Defect(
        "another-ensemble",
        "what stands in the ensemble of another cluster counts, and is deleted there",
        "kafkafeatures.core.facts.znodes",
        (("    if ensemble_id == cluster_id:\n", "    if True:\n"),),
        of_migrations=True,
    ),
    Defect(
        "voters-not-counted",
        "znodes are deleted although a voter that no document names still runs",
        f"{CORE}.voters",
        (
            (
                "        and not (id_ in proven and shared[voter.address] == 1 "
                "and _refuses(observation, voter.address))\n",
                "        and False\n",
            ),
            (
                "address for address, failure in observation.former_controllers.items() if failure is None",
                "address for address in ()",
            ),
        ),
        of_migrations=True,
    ),
    Defect(
        "consent-to-more",
        "a consent to lose metadata is for differences that were never shown",
        f"{CORE}.consents",
        (
            (
                " and (request.about == self.about or bool(includes_parts))",
                "",
            ),
        ),
        of_migrations=True,
    ),
    Defect(
        "consent-before-it-was-asked-for",
        "that the controllers have stopped is believed because the document said so before they were asked about",
        f"{CORE}.consents",
        (("    if not any(map(consentable.is_for, requested)):\n", "    if False:\n"),),
        of_migrations=True,
    ),
    Defect(
        "broker-lost-with-metadata",
        "a consent to lose metadata is one to lose the records of a broker that runs in KRaft mode",
        f"{CORE}.losses",
        (
            (
                "    for id_, blocker in _not_in_zookeeper_mode(progress, with_znode, _absent_by_znodes(progress)):\n",
                "    for id_, blocker in () if ZK_ROLLBACK_LOSSY in inputs.consents else _not_in_zookeeper_mode(\n"
                "        progress, with_znode, _absent_by_znodes(progress)\n    ):\n",
            ),
        ),
        of_migrations=True,
    ),
    Defect(
        "hold-by-wall-clock",
        "dual write counts as kept by a clock that was set forward",
        f"{CORE}.finalize",
        (
            ("    log_time = min(registration.read_at, current_time)\n", "    log_time = current_time\n"),
            (
                "    since = registration.at + (log_delay if log_delay > CLOCK_JUMP else timedelta(0))\n",
                "    since = registration.at\n",
            ),
        ),
        of_migrations=True,
    ),
)
