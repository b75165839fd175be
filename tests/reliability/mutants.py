"""Mutants: small faults of the product, each chosen before anything was run against it, and what they would mean.

A catalogue, and nothing else: `mutating.py` tries them and says which programme kills each. The words of a mutant are
in its file exactly once, which `test_mutants.py` holds: who changes that line takes the new words over here, with what
the fault means now, or takes another fault of the same rule where the line is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """`file`: below `operator/`. `old`: words that are in it exactly once, and `new`: what stands there instead."""

    name: str
    area: str
    file: str
    old: str
    new: str


AREAS = ("levels", "rolls", "adapters", "pipeline")

_Change = tuple[str, str, str]


def _of(area: str, file: str, *changes: _Change) -> Iterator[Mutant]:
    for name, old, new in changes:
        yield Mutant(name, area, file, old, new)


MUTANTS: tuple[Mutant, ...] = (
    # --- levels ---
    *_of(
        "levels",
        "kafkafeatures/core/decide.py",
        ("a third correction is made within an hour", "MOST_CORRECTIONS = 2\n", "MOST_CORRECTIONS = 3\n"),
        ("suspend is ignored", "if wanted.suspend:\n        return Held(", "if False:\n        return Held("),
        ("another cluster is taken for ours", "if pinned and observation.cluster_id.value != pinned:", "if False:"),
        ("a status that lost its cluster takes any", "if lost and not pinned:", "if False:"),
        (
            "the cluster of the document is not read",
            "_wrong_cluster(observation, wanted.cluster_id or memory.cluster_id",
            '_wrong_cluster(observation, memory.cluster_id or ""',
        ),
        ("no approval is waited for", "        or _not_approved(wanted, proposal)\n        or owned",
         "        or owned"),
        ("neither soak nor window is waited for", "or _not_yet(wanted, observation, proposal, soak)", "or None"),
        (
            "drift is corrected whatever the document says",
            "if not proposal.drifted or proposal.changes != proposal.drifted:",
            "if True:",
        ),
        (
            "an approval of another plan holds nothing",
            "return any(not plan.is_approved_by(frozenset({one})) for one in given)",
            "return False",
        ),
        (
            "drift is corrected irreversibly without an approval",
            "return any(undo_of(change) is Undo.IMPOSSIBLE for change in proposal.changes",
            "return any(False for change in proposal.changes",
        ),
        ("lossy changes need no approval", "undo_of(change) is not Undo.SAFE and (",
         "undo_of(change) is Undo.IMPOSSIBLE and ("),
        ("ready without a quorum", "if leaderless and not observation.in_zookeeper_mode:", "if False:"),
        ("ready while a node reports another level", "    if behind:\n", "    if False:\n"),
        (
            "what is open holds nothing back",
            "_unsettled(unsettled, why_open) if unsettled else",
            "_unsettled(unsettled, why_open) if unsettled and isinstance(unsettled[0], UnknownStep) else",
        ),
        ("a rejected dry run is none", "if isinstance(verdict, DryRunRejected):", "if False:"),
        ("no verdict is a yes", "if isinstance(verdict, DryRunUnavailable) or verdict is None:", "if False:"),
    ),
    *_of(
        "levels",
        "kafkafeatures/core/plan.py",
        ("an old approval approves again", '"changeCount": changed_before,', '"changeCount": 0,'),
        ("a hash in the status is believed", "if stands.hash == standing.hash and", "if True and"),
        ("a plan that was withdrawn has the same hash", "if hash_of(standing.stages, change_count) == standing.hash:",
         "if False:"),
        ("dependents are downgraded last", "return (0 if change.is_downgrade else 2), change.feature",
         "return 2, change.feature"),
        ("kraft.version goes first", 'return 3, ""', 'return -1, ""'),
        ("a single digit approves", "len(one) >= SHORTEST_HASH and", "True and"),
    ),
    *_of(
        "levels",
        "kafkafeatures/core/memory.py",
        ("a consent of what may have happened comes back", "Result.SUPERSEDED, Result.UNVERIFIED)",
         "Result.SUPERSEDED)"),
        ("a fight is forgotten after a minute", "CONFLICT_WINDOW = timedelta(hours=1)",
         "CONFLICT_WINDOW = timedelta(minutes=1)"),
        ("one ended act closes every intent", "if one != ended.to_intent())", "if False)"),
        ("a lost cluster is not missed", "return not status.cluster_id and any(", "return False and any("),
        ("corrections are not counted", "if ended.corrects_drift and", "if False and"),
    ),
    *_of(
        "levels",
        "kafkafeatures/core/soak.py",
        ("the soak of other targets counts", "if not set(changes) <= set(before.changes):", "if False:"),
        ("a restart between two looks is nothing to a soak", "if now and now != known:", "if False:"),
        ("a soak goes on over any gap", "if monotonic - before.looked > LONGEST_GAP:", "if False:"),
        ("a soak is over when it begins", "return self.left <= timedelta(0)", "return self.started_at is not None"),
        ("restarts do not touch a soak", "any(intent.kind != UpdateFeature.kind for intent", "any(False for intent"),
    ),
    *_of(
        "levels",
        "kafkafeatures/core/steps.py",
        ("settled without a quorum that works", "or not worked_between(before, after):", "or False:"),
        ("a broker keeps nothing", "(BROKER_KEEPS if sent.via is Via.BROKER else sent.on_its_way)", "sent.on_its_way"),
        ("nobody else has it on its way", "else sent.on_its_way)", "else timedelta(0))"),
        ("a yes is forgotten", "if sent.accepted:  # two", "if False:  # two"),
        (
            "undone is believed without the log",
            "if nothing_was_moved_since(sent.offset, after) else",
            "if sent.offset is not None else",
        ),
        ("a foreign level is an outcome of ours", "if level != self.before:", "if False:"),
    ),
    *_of(
        "levels",
        "kafkafeatures/core/checks.py",
        ("a consent is used twice", " and consent not in question.spent)", ")"),
        ("a migration hides nothing", "elif mode.value is MetadataMode.MIGRATING:", "elif False:"),
        ("old controllers make a quorum dynamic", "elif found.value.max < KRAFT_VERSION_RAISABLE:", "elif False:"),
        ("there is no floor", "return floor if floor is not None and change.after < floor else None", "return None"),
        ("nothing depends on anything", "if proposed.get(needed, 0) < least and (", "if False and ("),
        ("a dry run vouches for a contradiction", " or found.why.kind is FailureKind.STALE:", ":"),
        ("one registered voter vouches for all", "return all(voter.id in registered for",
         "return any(voter.id in registered for"),
        ("no range is too small", "elif change.after not in found.value:", "elif False:"),
    ),
    *_of(
        "levels",
        "kafkafeatures/core/quorum.py",
        ("a mark that stands still proves a quorum", "after.high_watermark > before.high_watermark",
         "after.high_watermark >= before.high_watermark"),
        ("two leaders are one", "if before.leader_epoch != after.leader_epoch:", "if False:"),
    ),
    *_of(
        "levels",
        "kafkafeatures/core/observe.py",
        ("the log of another leader counts", "if log is not None and log.leader_id != leader:", "if False:"),
        ("nodes that disagree agree", "if any(one != levels[0] for one in levels):", "if False:"),
    ),
    # --- rolls ---
    *_of(
        "rolls",
        "kafkafeatures/core/roll.py",
        ("brokers go beside a controller",
         "if any(question.is_controller(one.step.node_id) for one in question.in_flight):", "if False:"),
        ("a controller goes beside brokers", "return waiting(question) if question.in_flight else _next_controller(",
         "return _next_controller("),
        ("an unavailable broker goes", "if id_ not in question.unavailable and admission.allows(id_):",
         "if admission.allows(id_):"),
        ("partitions allow every broker", " and admission.allows(id_):\n            why_not", ":\n            why_not"),
        ("an unsent intent is forgotten", "    if unsent:\n", "    if False:\n"),
        ("an old intent is sent though nobody wants it", "if one.step.is_not_wanted(question.seen):", "if False:"),
        ("a decided restart is not asked again", "refused = refusal(FOR_ONE_DECIDED, question)", "refused = None"),
        ("who is away is not counted for a quorum", "down = (question.flying | question.unavailable) - {id_}",
         "down = frozenset[int]()"),
        ("a stuck node goes whatever it holds", "    if _nothing_is_led(question.seen):\n        return True",
         "    if True:\n        return True"),
        ("a stuck node goes to what halted the roll", "if not is_halted_for(question, id_) and _stuck_may_go(",
         "if _stuck_may_go("),
    ),
    *_of(
        "rolls",
        "kafkafeatures/core/restarts.py",
        ("back before it is in sync", "        if count:\n            some", "        if False:\n            some"),
        ("a fenced broker is back", "        if node.state is NodeState.FENCED:\n", "        if False:\n"),
        ("a controller that is behind is back", "if node.is_voter and not is_caught_up(",
         "if False and not is_caught_up("),
        ("the old process is a new one", "return node.broker_epoch == self.broker_epoch", "return False"),
        ("stable at once", "sent.stable is not None and sent.stable >= sent.stable_for", "sent.stable is not None"),
        ("the same life is overtaken",
         "if pod is None or pod.uid == self.pod_uid or pod.terminating or not pod.waiting:",
         "if pod is None or pod.terminating or not pod.waiting:"),
        ("it is never another's turn", "or self._is_anothers_turn(seen)", "or False"),
    ),
    *_of(
        "rolls",
        "kafkafeatures/core/restart_checks.py",
        ("no roll is halted in time", "patient = (Phase.BACK,", "patient = (*Phase,"),
        ("a node is restarted twice for one reason",
         "if id_ not in question.flying and _restarted_before(question, id_):", "if False:"),
        ("a binary holds every level", "if level in held or not level:", "if True:"),
        ("restarts go on beside a reassignment", "    if not count:\n", "    if True:\n"),
        ("restarts go on below min.insync.replicas", "        if count:\n", "        if False:\n"),
        ("a window is always open", "    if opens is None:\n", "    if True:\n"),
        ("maxParallel is not kept", "    if not question.is_full:\n", "    if True:\n"),
        ("single replicas need no consent", "    if not never:\n", "    if True:\n"),
        ("a pod that is not known is not waited for", "    if not unknown:\n", "    if True:\n"),
    ),
    *_of(
        "rolls",
        "kafkafeatures/core/restart_question.py",
        ("partitions do not know who is away", "down = (self.flying | self.unavailable) - but",
         "down = self.flying - but"),
        ("partitions do not know who is in flight", "(self.flying | self.unavailable) - but", "self.unavailable - but"),
        ("maxParallel counts our own restarts alone", "len(self.flying) + len(self.gone) >= self.cap",
         "len(self.flying) >= self.cap"),
        ("a node that answers is stuck", "self.fleet.needing.keys() - live if", "self.fleet.needing.keys() if"),
    ),
    *_of(
        "rolls",
        "kafkafeatures/core/excuses.py",
        ("a consent of an earlier roll is used", " or SINGLE_REPLICA_TOPICS in memory.spent:", ":"),
    ),
    *_of(
        "rolls",
        "kafkafeatures/core/crashes.py",
        ("a crash is over once the container runs", "return pod.started_at is None or", "return bool(pod.waiting) and"),
        ("a crash counts for ever", "or now - pod.started_at < STEADY_AFTER", "or True"),
        ("a crash on what is being left halts", "pod.revision == owner.update_revision and _crashed(", "_crashed("),
    ),
    *_of(
        "rolls",
        "kafkafeatures/core/roll.py",
        ("brokers go without a voter", "    too_few = voters_allow(question)\n", "    too_few = None\n"),
        ("controllers go without another voter", "    too_few = voters_allow(question, id_)\n", "    too_few = None\n"),
        ("a crash after the roll keeps no level", "return bool(question.crashes) and any(", "return False and any("),
    ),
    *_of(
        "rolls",
        "kafkafeatures/core/replication.py",
        ("who is away is in sync", "== _IN_SYNC) & ~gone\n", "== _IN_SYNC)\n"),
        ("who is being removed counts", "self.flags & (_IN_SYNC | _REMOVING) == _IN_SYNC",
         "self.flags & _IN_SYNC == _IN_SYNC"),
        ("one less than min.insync.replicas will do", "_count(counted) - self.least < counted",
         "_count(counted) - self.least + 1 < counted"),
        ("what is moved forbids nothing", "(gone | ~self.in_sync).any(axis=0) | self.moving",
         "(gone | ~self.in_sync).any(axis=0)"),
        ("min.insync.replicas of a topic is not read", "least[number] = _as_count(configured[topic.name])", "pass"),
    ),
    *_of(
        "rolls",
        "kafkafeatures/core/quorum.py",
        ("a controller that is behind is of the majority", "if len(staying - behind) >= required:",
         "if len(staying) >= required:"),
        ("half of the voters are a majority", "required = len(voters) // 2 + 1", "required = len(voters) // 2"),
        ("the leader goes first", "key=lambda id_: (id_ == quorum.leader_id,",
         "key=lambda id_: (id_ != quorum.leader_id,"),
        ("who fetches has caught up", " and voter.last_caught_up_timestamp >= since", ""),
    ),
    *_of(
        "rolls",
        "kafkafeatures/core/pods.py",
        ("a pod that waits for a moment cannot run", "(pod.restarts >= _CRASHES and waits >= _BACK_OFF)", "True"),
        ("an old revision is believed", "return owner.observed and bool(owner.update_revision)",
         "return bool(owner.update_revision)"),
        ("a pod that is drained stays", "pod.terminating or pod.draining or", "pod.terminating or"),
        ("two drivers evict", "        if one.conflict:\n", "        if False:\n"),
        ("two nodes are in one pod", "            if len(several) > 1:\n", "            if False:\n"),
    ),
    *_of(
        "rolls",
        "kafkafeatures/core/budgets.py",
        ("a budget is not asked", "one.disruptions_allowed <= 0", "one.disruptions_allowed < 0"),
    ),
    # --- adapters ---
    *_of(
        "adapters",
        "kafkafeatures/kafka/features.py",
        ("a broken answer means not sent", "OutcomeUnknown(self._told(error)) if error.sent else", ""),
        ("every way is the direct one", "Via.CONTROLLER if self._role is Role.CONTROLLER else Via.BROKER",
         "Via.CONTROLLER"),
        ("every error is a no", "    if code in _NO:\n", "    if code != 0:\n"),
        ("the next stop is tried as well", "way.stops()[: 1 if way.controller else None]", "way.stops()"),
        ("a downgrade is an upgrade", "SAFE_DOWNGRADE if c.after < c.before else UPGRADE", "UPGRADE"),
    ),
    *_of(
        "adapters",
        "kafkafeatures/kafka/metadata_log.py",
        ("what is not committed counts", "below=response.high_watermark)", "below=1 << 62)"),
        ("an old leader's records stay", '            self._tail = b""  # what', '            pass  # what'),
        ("a single voter is a majority", "if len(current) > len(response.voters) // 2:", "if current:"),
    ),
    *_of(
        "adapters",
        "kafkafeatures/kafka/leaders.py",
        ("any leader will do", "sorted(done, key=_epoch_named, reverse=True)", "list(done)"),
        ("a leader of before is one", " or leader.epoch < at_least:", ":"),
    ),
    *_of(
        "adapters",
        "kafkafeatures/kube/client.py",
        ("a restored etcd is not noticed", "restored = 0 < version < newest", "restored = False"),
        ("any life of a pod is evicted", '"deleteOptions": {"preconditions": {"uid": uid}},', '"deleteOptions": {},'),
    ),
    *_of(
        "adapters",
        "kafkafeatures/kube/workloads/stateful_sets.py",
        ("an eviction without an answer is a no", "return OutcomeUnknown(str(error))",
         "return Rejected(TOO_MANY_REQUESTS, str(error))"),
        ("two resources roll one StatefulSet", "conflict=_manager(metadata) or self._rival(name)",
         "conflict=_manager(metadata)"),
    ),
    *_of(
        "adapters",
        "kafkafeatures/reconcile/evaluate.py",
        ("another cluster settles", "if again is None or not is_ours(resource, again):", "if again is None:"),
        ("a plan that is over is not counted", "if proposal.plan.change_count != remembered.change_count:",
         "if False:"),
        ("used consents come back at each look", "one for one in remembered.spent_consents if one in wanted.consents",
         "one for one in remembered.spent_consents if not wanted.consents"),
    ),
    *_of(
        "adapters",
        "kafkafeatures/reconcile/act.py",
        ("a consent is not spent first", 'sorted({*status.spent_consents, step.consent} - {""})',
         "sorted(status.spent_consents)"),
        ("a yes is not kept", "accepted = replace(sent, accepted=True).to_intent()", "accepted = sent.to_intent()"),
        ("the last question is not asked", "    if withdrawn is not None:\n", "    if False:\n"),
    ),
    *_of(
        "adapters",
        "kafkafeatures/reconcile/last_second.py",
        ("a changed resource is not seen at the end",
         "if (now.generation, now.wanted) != (before.generation, before.wanted):", "if False:"),
        ("a restart is not decided on anew", "case Wait() | Stalled() | Held() as refused:\n            return refused",
         "case Wait() | Stalled() | Held():\n            return None"),
        ("the picture may be old", "if read_at is not None and context.monotonic() - read_at > FRESH:", "if False:"),
        ("who ends goes on", "if context.is_stopping() or (task is not None and task.cancelling()):", "if False:"),
        ("an owner that turned up is not asked for", "        if owned is not None:\n            return owned\n", ""),
    ),
    *_of(
        "adapters",
        "kafkafeatures/reconcile/ages.py",
        ("a stamp is believed", "return timedelta(seconds=self._monotonic() - met)", "return self.of(stamp, now)"),
    ),
    *_of(
        "adapters",
        "kafkafeatures/reconcile/claims.py",
        ("nobody is older", "return min(older)[1] if older else None", "return None"),
        ("a step of another one holds nobody", "step.until > now and life != us",
         "step.until > now and life == us"),
    ),
    *_of(
        "adapters",
        "kafkafeatures/reconcile/operators.py",
        ("a second operator is a hand-over", "if writer.manager != self._us.manager or wrote > HAND_OVER:",
         "if False:"),
        ("a hand-over takes no time", "elif self.hand_over_ends_in > 0:", "elif False:"),
    ),
    *_of(
        "adapters",
        "kafkafeatures/reconcile/kubernetes_store.py",
        ("fields that are dropped are kept", "        _check(dropped, status)\n", ""),
        ("a lost id is not found out", '"spentConsents": [], "clusterId": ""', '"spentConsents": []'),
    ),
    *_of(
        "adapters",
        "kafkafeatures/reconcile/controller.py",
        ("a process that is stopped acts on", "if self._operators.handed_over:", "if False:"),
        ("what is at rest is not looked at", "still = await settled.cluster.unchanged() and (", "still = True and ("),
        ("versions of before a restore count", "replace(known, written=set(), last=LastStatus())", "replace(known)"),
    ),
    # --- pipeline ---
    *_of(
        "pipeline",
        "featurelog/gate.py",
        ("half of the voters will do", "if 2 * len(copied) <= len(voters):", "if 2 * len(copied) < len(voters):"),
        ("one copy will do", "if len(ids) < FEWEST_COPIES:", "if False:"),
        ("a clock ahead is no doubt", "if last > at_ms + CLOCKS_DIFFER_MS:", "if False:"),
        ("nothing is too old", "    if at_ms > until:\n", "    if False:\n"),
        ("one ready cluster makes all ready", "return Verdict.READY if found == {Verdict.READY} else",
         "return Verdict.READY if Verdict.READY in found else"),
        ("doubts about folders are none", "why = [*doubts, *_age(row, at_ms)]", "why = [*_age(row, at_ms)]"),
    ),
    *_of(
        "pipeline",
        "featurelog/tables/merging.py",
        ("the lower epoch has it", "key=lambda run: (-run.epoch, run.place))",
         "key=lambda run: (run.epoch, run.place))"),
        ("records that differ agree", "if run is not best and not one.between(begin, end).equals(",
         "if False and not one.between(begin, end).equals("),
        ("an overwritten end comes back", "        if best.epoch < floor:\n", "        if False:\n"),
    ),
    *_of(
        "pipeline",
        "featurelog/tables/history.py",
        ("half of the voters commit", "held[len(held) // 2]", "held[(len(held) - 1) // 2]"),
        ("static voters are kept over a gap", "        self.static_voters = None\n", ""),
        ("an aborted transaction takes effect", "        elif takes_effect:\n", "        elif True:\n"),
        ("a former process is fenced since", "now.value.fenced_since if is_same and was_fenced else",
         "now.value.fenced_since if was_fenced else"),
    ),
    *_of(
        "pipeline",
        "featurelog/tables/upgrade_readiness.py",
        ("a voter that never registered supports it", "for id_ in sorted(voters - registered):", "for id_ in ():"),
        ("a registration that may be undone counts", "for id_ in sorted((voters & registered) - surely):",
         "for id_ in ():"),
        ("an old log is as good", "elif judging.at_ms - history.end_ms > judging.valid_for_ms:", "elif False:"),
        ("a level that may be undone counts", " or not one.is_committed(self._below))\n", ")\n"),
        ("controllers below 3.7 are not asked", "        if version < CONTROLLER_REGISTRATION:\n",
         "        if False:\n"),
        ("what stays depends on nothing", "and (feature in changes or needed in changes)", "and feature in changes"),
    ),
    *_of(
        "pipeline",
        "featurelog/ledger.py",
        ("a part that was not final stays", "if kept and not kept[-1].is_final:", "if False:"),
        ("no time is the same time", "is_as_large and file.modified and file.modified == entry.modified",
         "is_as_large and file.modified == entry.modified"),
        ("voters of before stay", ", log.voters\n", ", log.voters or fits[0].voters\n"),
    ),
    *_of(
        "pipeline",
        "featurelog/manifest.py",
        ("who reads loses the manifest before", "if (manifest.root / FOLDER / name(manifest.sequence - 1)).exists():",
         "if False:"),
    ),
)  # fmt: skip
