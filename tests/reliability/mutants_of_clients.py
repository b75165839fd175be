"""Mutants of what holds a roll that would break clients (rule P8): evidence, its verdict, its age, and consents; see
`mutants.py`.
"""

from __future__ import annotations

from tests.reliability.mutant import Mutant, of

MUTANTS: tuple[Mutant, ...] = (
    *of(
        "clients",
        "kafkafeatures/core/roll/breaking_clients.py",
        ("Kafka 4.0 removed nothing", ">= FIRST_REMOVALS", "> FIRST_REMOVALS"),
        ("a release that is not known removes nothing", "if not release or (_removed_versions(release)",
         "if release and (_removed_versions(release)"),
        ("a release that is not known is the target", "    if other_release is not None:\n",
         "    if other_release:\n"),
        ("what is not known is ready", "if standing.reason is Reason.NO_BLOCKING_CLIENTS:",
         "if standing.reason is not Reason.BLOCKING_CLIENTS:"),
        ("a stuck node needs no evidence", "if id_ in inputs.flying and id_ not in inputs.stuck:",
         "if id_ in inputs.flying or id_ in inputs.stuck:"),
        ("a stuck node that is restarted again needs no evidence",
         "if id_ in inputs.flying and id_ not in inputs.stuck:", "if id_ in inputs.flying:"),
        ("a node of any 4.x loses nothing", "return releases_with(node.answer.value.supported) == (release,)",
         "return any(map(_removed_versions, releases_with(node.answer.value.supported)))"),
        ("an annotation that was left is believed", "if _has_old_annotation(owner) and", "if False and"),
        ("what a pod reports is not believed before its tag", " and inputs.binaries.reported_by(owner.name) is None",
         ""),
        ("a consent counts on the way of a migration", "    if inputs.permit.is_granted:\n        return usable",
         "    if False:\n        return usable"),
        ("a consent that one revision used is good for all", "bool(targets) and all(\n", "any(\n"),
        ("a consent to break clients is never used up", "is ConsentState.GIVEN or is_of_this_roll:",
         "is not ConsentState.MISSING:"),
    ),
    *of(
        "clients",
        "kafkafeatures/core/roll/revisions.py",
        ("a consent is good after its roll", "entry.client_breaks if remaining else ()", "entry.client_breaks"),
        ("a change that is not processed yet ends a consent", "return replace(entry, since=None)  # a level",
         "return replace(entry, since=None, client_breaks=())  # a level"),
    ),
    *of(
        "clients",
        "kafkafeatures/core/facts/client_standing.py",
        ("a broker that says nothing refuses old versions", "    if supported is None:\n        return False",
         "    if supported is None:\n        return True"),
        ("evidence of a shorter window counts",
         "(check.release, check.window.length) != (release, round(window.total_seconds() * 1000))",
         "check.release != release"),
    ),
    *of(
        "clients",
        "kafkafeatures/core/clients/reading.py",
        ("where one broker refuses all do", "    if not accepting:\n", "    if refusing:\n"),
    ),
    *of(
        "clients",
        "kafkafeatures/core/clients/verdict.py",
        ("a consent covers every version of its API", "is not UseKind.REMOVED or use.api_version not in consented",
         "is not UseKind.REMOVED or use.api_version.api not in {version.api for version in consented}"),
        ("a consent covers a use that is not certain", "use.kind is not UseKind.REMOVED or use.api_version not in",
         "use.api_version not in"),
        ("brokers that are not known are covered", "if uses or coverage is None or not is_known or "
         "any(broker.gaps for broker in coverage):",
         "if uses or not is_known or any(broker.gaps for broker in coverage or ()):"),
        ("a cluster without a broker to cover is covered", "_coverage(evidence, known, window, all_refuse)) or None",
         "_coverage(evidence, known, window, all_refuse))"),
        ("a use that may be from before the window is", "if use.until <= window.begin or",
         "if use.after < window.begin or"),
    ),
    *of(
        "clients",
        "kafkafeatures/core/clients/coverage.py",
        ("a few minutes of Kafka 4.x are no gap", " and gap.cause is not GapCause.MAY_REFUSE]", "]"),
        ("many short gaps are none", "short if sum(gap.length for gap in short) <= MAX_UNSEEN else []", "short"),
        ("what followed the last scrape is no gap", "yield EvidenceGap(covered_until, window.end, GapCause.STALE)",
         "yield EvidenceGap(window.end, window.end, GapCause.STALE)"),
        ("what the first scrape shows was sent to nobody", "count - counts.get(key, 0)\n",
         "count - counts.get(key, count)\n"),
    ),
    *of(
        "clients",
        "kafkafeatures/reconcile/client_evidence.py",
        ("evidence is as young as its last answer", "began - age, None", "now - age, None"),
        ("evidence is as young as its reading", "began - age, None", "began, None"),
        ("evidence of another Prometheus counts", "evidence.required != required:",
         "(evidence.required.config_map, evidence.required.release, evidence.required.days) != "
         "(required.config_map, required.release, required.days):"),
        ("evidence of another ConfigMap counts", "evidence.required != required:",
         "(evidence.required.prometheus, evidence.required.release, evidence.required.days) != "
         "(required.prometheus, required.release, required.days):"),
        ("evidence is old only once a reading has failed",
         "if evidence.reading is not None and self._environment.monotonic() - evidence.read_at <= VALID_FOR:",
         "if evidence.reading is not None and (\n"
         "            evidence.failure is None or self._environment.monotonic() - evidence.read_at <= VALID_FOR\n"
         "        ):"),
    ),
    *of(
        "clients",
        "kafkafeatures/reconcile/client_reading.py",
        ("the processes of all brokers count once one broker refuses", "all_refuse=brokers.all_refuse)",
         "all_refuse=brokers.all_refuse or bool(brokers.exempt))"),
        ("scrapes of any age count", "    if job.now - evidence.newest > VALID_FOR * 1000:\n", "    if False:\n"),
        ("scrapes count beside a Prometheus", "    if refused := scrape_entries(files.entries or ()):",
         "    if refused := scrape_entries(()):"),
    ),
    *of(
        "clients",
        "kafkafeatures/client_files/config_map.py",
        ("a scrape of tomorrow counts", "elif name.time > now + MAX_GAP:", "elif False:"),
        ("a damaged scrape is not the newest", "max((name.time for name in names.values()), default=0),",
         "max((scrape.time for scrape in _scrapes(names, entries, [])), default=0),"),
    ),
    *of(
        "clients",
        "kafkafeatures/core/clients/evidence.py",
        ("a counter that was not read is missing", "-1 if later.is_whole else count", "-1"),
    ),
    *of(
        "clients",
        "kafkafeatures/prometheus/api.py",
        ("a part of an answer is the whole", "        if decoded.warnings:\n", "        if False:\n"),
    ),
    *of(
        "clients",
        "kafkafeatures/prometheus/operator_source.py",
        ("brokers are guessed whatever the document says",
         "BrokerLabel(settings.broker_label, settings.broker_pattern) if settings.broker_label else None", "None"),
    ),
)  # fmt: skip
