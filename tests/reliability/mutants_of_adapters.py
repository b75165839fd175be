"""Mutants of what speaks Kafka and Kubernetes, and the operator around it; see `mutants.py`."""

from __future__ import annotations

from tests.reliability.mutant import Mutant, of

MUTANTS: tuple[Mutant, ...] = (
    *of(
        "adapters",
        "kafkafeatures/api/records.py",
        ("nested fields of another release are dropped", "return replace(made, **changes) if changes else made",
         "return made"),
    ),
    *of(
        "adapters",
        "kafkafeatures/kafka/requests/features.py",
        ("a broken answer means not sent", "OutcomeUnknown(self._described(error)) if error.sent else", ""),
        ("every way is the direct one", "Via.CONTROLLER if self._role is Role.CONTROLLER else Via.BROKER",
         "Via.CONTROLLER"),
        ("the level of the connection is not asked", "    if level == change.before:\n", "    if True:\n"),
        ("a level that is not shown yet is not asked for", "if not change.is_downgrade or", "if True or"),
        ("what the kernel keeps goes on", "lease.connection.end_by_reset(DELIVERED_WITHIN.total_seconds())", "pass"),
        ("every error is a no", "    if code in _NO:\n", "    if code != 0:\n"),
        ("the next stop is tried as well", "way.stops()[: 1 if way.controller else None]", "way.stops()"),
        ("a downgrade is an upgrade", "SAFE_DOWNGRADE if c.after < c.before else UPGRADE", "UPGRADE"),
    ),
    *of(
        "adapters",
        "kafkafeatures/kafka/log/follower.py",
        ("a log of an older epoch is asked for what it cannot have", "if end.epoch > self._leader.epoch:", "if False:"),
        ("every leader has a majority", "if quorum_of(response).has_majority:", "if True:"),
    ),
    *of(
        "adapters",
        "kafkafeatures/kafka/log/held.py",
        ("what is not committed counts", "below=high_watermark)", "below=1 << 62)"),
    ),
    *of(
        "adapters",
        "kafkafeatures/kafka/log/leaders.py",
        ("any leader will do", "sorted(done, key=_epoch_named, reverse=True)", "list(done)"),
        ("a leader of before is one", " or leader.epoch < at_least:", ":"),
    ),
    *of(
        "adapters",
        "kafkafeatures/kube/client.py",
        ("a restored etcd is not noticed", "restored = 0 < version < newest", "restored = False"),
    ),
    *of(
        "adapters",
        "kafkafeatures/kube/workloads/answers.py",
        ("a restart without an answer is a no", "return OutcomeUnknown(str(error))",
         "return Rejected(TOO_MANY_REQUESTS, str(error))"),
    ),
    *of(
        "adapters",
        "kafkafeatures/kube/workloads/stateful_sets.py",
        ("any life of a pod is evicted", '"deleteOptions": {"preconditions": {"uid": step.pod_uid}},',
         '"deleteOptions": {},'),
        ("two resources roll one StatefulSet", "conflict=_manager(metadata) or self._rival(name)",
         "conflict=_manager(metadata)"),
    ),
    *of(
        "adapters",
        "kafkafeatures/reconcile/evaluate.py",
        ("another cluster settles", "if again is None or not is_ours(resource, again) or", "if again is None or"),
        ("a plan that is over is not counted", "replace(remembered, change_count=proposal.plan.change_count)",
         "remembered"),
        ("used consents come back at each look", "one for one in remembered.spent_consents if one in given",
         "one for one in remembered.spent_consents if not wanted.consents"),
    ),
    *of(
        "adapters",
        "kafkafeatures/reconcile/act.py",
        ("a consent is not spent first", 'sorted({*status.spent_consents, step.consent} - {""})',
         "sorted(status.spent_consents)"),
        ("a yes is not kept", "accepted = replace(sent, accepted=True).to_intent()", "accepted = sent.to_intent()"),
        ("the last question is not asked", "    if withdrawn is not None:\n", "    if False:\n"),
        ("what is late is sent", "(took := context.monotonic() - began) > within:", "(took := 0.0) > within:"),
    ),
    *of(
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
    *of(
        "adapters",
        "kafkafeatures/reconcile/ages.py",
        ("a stamp is believed", "return timedelta(seconds=self.monotonic() - met)", "return self.of(stamp, now)"),
    ),
    *of(
        "adapters",
        "kafkafeatures/reconcile/claims.py",
        ("nobody is older", "return min(older)[1] if older else None", "return None"),
        ("a step of another one holds nobody", "step.until > now and life != us",
         "step.until > now and life == us"),
    ),
    *of(
        "adapters",
        "kafkafeatures/reconcile/operators.py",
        ("a second operator is a hand-over", "if writer.manager != self._us.manager or wrote > HAND_OVER:",
         "if False:"),
        ("a hand-over takes no time", "elif self.hand_over_ends_in > 0:", "elif False:"),
    ),
    *of(
        "adapters",
        "kafkafeatures/reconcile/kubernetes_store.py",
        ("fields that are dropped are kept", "        _check(dropped, status)\n", ""),
        ("a lost id is not found out", '"unverifiedConsents": [], "clusterId": ""', '"unverifiedConsents": []'),
    ),
    *of(
        "adapters",
        "kafkafeatures/reconcile/controller.py",
        ("a process that is stopped acts on", "if self._operators.handed_over:", "if False:"),
        ("what is at rest is not looked at", "still = await settled.cluster.unchanged() and (", "still = True and ("),
        ("versions of before a restore count", "replace(known, written=set(), last=LastStatus())", "replace(known)"),
    ),
)  # fmt: skip
