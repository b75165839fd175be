"""Mutants of a migration from ZooKeeper; see `mutants.py`."""

from __future__ import annotations

from tests.reliability.mutant import Mutant, of

CORE = "kafkafeatures/core/migration"

MUTANTS: tuple[Mutant, ...] = (
    *of(
        "migration",
        f"{CORE}/checks.py",
        ("differing stores close a door", "    elif asked.compared.differences:\n", "    elif False:\n"),
        ("a comparison is not needed",
         "    if not asked.closes or not needs_comparison(asked.place):\n", "    if True:\n"),
        ("any lag will do", "    elif asked.lag > LARGEST_LAG:\n", "    elif False:\n"),
        ("to finalize takes no consent", "    if ZK_FINALIZE not in asked.consents:\n", "    if False:\n"),
        ("/migration may move", "    if asked.still_for < STILL_FOR:\n", "    if False:\n"),
        ("a pod of a controller is overlooked", 'owner.role != "controllers" or not (owner.pods or owner.replicas):',
         'owner.role != "controllers" or not owner.pods:'),
        ("a broker that is silent is back",
         "if mode not in (BrokerMode.PLAIN, BrokerMode.FLAGGED) and id_ not in asked.flying:",
         "if mode is BrokerMode.KRAFT and id_ not in asked.flying:"),
        ("a voter may be missing", "    for id_ in sorted(voters - (there & registered)):\n",
         "    for id_ in sorted(voters - (there | registered)):\n"),
        ("absent brokers are forgotten", "    for id_ in absent or ():\n", "    for id_ in ():\n"),
    ),
    *of(
        "migration",
        f"{CORE}/registered.py",
        ("brokers may be unregistered",
         "        if node.id not in seen.registered_brokers.value:\n", "        if False:\n"),
        ("brokers in no list are forgotten", "    for id_ in place.facts.absent or ():\n", "    for id_ in ():\n"),
    ),
    *of(
        "migration",
        f"{CORE}/edges.py",
        ("finalized from anywhere",
         "    if desired is Desired.FINALIZED and edge is not FINALIZE:\n", "    if False:\n"),
        ("it turns round half way back", "    if position in (P.NO_CONTROLLER, P.RELEASED):\n", "    if False:\n"),
        ("brokers in KRaft mode lose the quorum", "return MOVE_BROKERS_BACK if in_kraft else STOP_CONTROLLERS",
         "return STOP_CONTROLLERS"),
        ("/migration is left behind",
         "if desired is Desired.ROLLED_BACK and facts.has_progress and position in (P.ZOOKEEPER, P.RELEASED):",
         "if False:"),
    ),
    *of(
        "migration",
        f"{CORE}/positions.py",
        ("a stale /migration is no contradiction", "    if facts.state is S.PRE_MIGRATION and facts.offset > 0:\n",
         "    if False:\n"),
        ("any epoch is the leader's", "return Claim.LEADER if leads and seen.source.epoch == claim.kraft_epoch else",
         "return Claim.LEADER if leads else"),
        ("a controller without the flag is no contradiction",
         "    if unflagged and (facts.state is S.PRE_MIGRATION or (facts.state is S.MIGRATION and in_zookeeper)):\n",
         "    if False:\n"),
    ),
    *of(
        "migration",
        f"{CORE}/release.py",
        ("the epoch is not raised", "highest + 1 if epoch.value <= highest else None", "None"),
        ("partitions of a higher epoch are forgotten", "highest = max(partition_epoch, claim.kraft_epoch,",
         "highest = max(claim.kraft_epoch,"),
        ("what stood in /migration is not kept",
         'migration.text if migration is not None else "", consent,', '"", consent,'),
    ),
    *of(
        "migration",
        f"{CORE}/delete_znodes.py",
        ("a late transaction is believed not done",
         "        if looks.known_for(self.at) < within:\n", "        if False:\n"),
        ("an ensemble that is behind is believed",
         "        if now is not None and now.czxid < life.czxid:\n", "        if False:\n"),
    ),
    *of(
        "migration",
        f"{CORE}/now.py",
        ("dual write is not kept", "        if left <= timedelta(0):\n", "        if True:\n"),
        ("to finalize takes no approval", "return self.wish.desired is Desired.FINALIZED or self.facts",
         "return self.facts"),
        ("a consent is not spent", "return with_spent(status, self._used(decision))", "return status"),
        ("a stamp from the future is new", "not timedelta(0) <= asked.now", "not asked.now"),
    ),
    *of(
        "migration",
        f"{CORE}/kept.py",
        ("a comparison counts for ever", "return self.compared if now - self.compared_at <= COMPARED_WITHIN else None",
         "return self.compared"),
        ("nothing moves", "self.still_since if is_still else now,", "self.still_since or now,"),
    ),
    *of(
        "migration",
        f"{CORE}/restarts.py",
        ("the controller goes with the others",
         "last=claim.node_id if claim is not None and not claim.is_kraft else None,",
         "last=None,"),
    ),
    *of(
        "migration",
        f"{CORE}/place.py",
        ("a node that was not asked is as it should be", "if one.role is role and one.differs}",
         "if one.role is role and isinstance(one.differs, tuple) and one.differs}"),
    ),
)  # fmt: skip
