"""Each defect that prevents a migration from ZooKeeper: the change that causes it, and the message and remedy of its
finding.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.migration.copied.entries import Kind
from kafkafeatures.core.migration.copied.findings import ZnodeFinding
from kafkafeatures.core.migration.positions import Position
from tests.kafkafeatures.core.preflights import (
    ACLS,
    BROKER,
    CONTROLLER,
    Change,
    as_one,
    finalized,
    registered,
    secret,
    settings,
    with_node,
    with_observation,
    with_settings,
    with_survey,
    with_znodes,
)
from tests.kafkafeatures.ensembles import claimed, progress
from tests.kafkafeatures.worlds import NEW, SILENT, answer, known

WITHOUT_CONTROLLERS, WITH_CONTROLLERS = Position.PRE_MIGRATION, Position.COPIED
"""The end of the edge before which the preflight runs: before the controllers are started, and while they run."""
BOTH = (WITHOUT_CONTROLLERS, WITH_CONTROLLERS)
OPA = "org.openpolicyagent.kafka.OpaAuthorizer"
DENIED = Failure(FailureKind.AUTHORIZATION, "znode /migration", "not authorized to read it", "grant READ on it")
DAMAGED = Failure(FailureKind.REJECTED, "znode /migration", "cannot be read: Expecting value", "look at it")
NO_MAJORITY = Failure(FailureKind.TIMED_OUT, "ZooKeeper zk1:2181", "connected, but no session within 10 s")
REFUSED = Failure(
    FailureKind.AUTHORIZATION, "b2:9092", "reading log.dirs requires DescribeConfigs", "grant it to User:ann"
)
NO_CONFIGS = Failure(FailureKind.UNSUPPORTED, "b2:9092", "does not tell its configs")
CONTROLLERS = (3001, 3002)


class Case(NamedTuple):
    """One defect, the kind, message and remedy of its finding, and `ends`: ends of the edges before
    which it is found.
    """

    change: Change
    kind: BlockerKind
    says: str
    remedy: str
    ends: tuple[Position, ...] = (WITH_CONTROLLERS,)


S, Z, N = BlockerKind.SETTING, BlockerKind.ZOOKEEPER, BlockerKind.NODE_UNKNOWN
OLD_ANSWER = replace(answer({}, levels={}), apis={18: VersionRange(0, 3)})

CASES = {
    # nodes
    "broker that is silent": Case(
        with_node(2, answer=Unknown(SILENT), proved_at="", settings={}),
        N, "broker 2 did not say who it is: connection refused", "start it", BOTH,
    ),
    "broker without proof": Case(
        with_node(2, proved_at="", settings={}), N, "broker 2 did not say who it is", "grant DESCRIBE_CONFIGS", BOTH
    ),
    "broker that may not be asked for its settings": Case(
        with_node(2, proved_at="", unproved=REFUSED, settings={}),
        N, "broker 2 did not say who it is: reading log.dirs requires DescribeConfigs", "grant it to User:ann", BOTH,
    ),
    "broker that gives no settings": Case(
        with_node(2, proved_at="", unproved=NO_CONFIGS, settings={}),
        N, "broker 2 did not say who it is: does not tell its configs", "upgrade it", BOTH,
    ),
    "controller without proof": Case(
        with_node(3002, proved_at="", settings={}), N, "controller 3002 did not say", "super.users of each controller"
    ),
    "setting that is not given": Case(
        with_settings((2,), log__dirs=None), N, "broker 2 did not give log.dirs", "runs Kafka 3.9", BOTH
    ),
    "broker that was not asked": Case(
        with_znodes(brokers={1: registered(1), 2: registered(2), 9: registered(9)}),
        N, "broker 9 is registered in ZooKeeper", "bootstrapServers", BOTH,
    ),
    "no brokers": Case(with_observation(nodes=()), N, "no broker is known", "bootstrapServers", BOTH),
    "no controllers": Case(
        lambda case: with_observation(nodes=case.brokers)(case), N, "no controller is known", "bootstrapControllers"
    ),
    "old Kafka": Case(
        with_node(2, answer=known(OLD_ANSWER)),
        BlockerKind.NODE_RANGE, "broker 2 runs a Kafka release before 3.9", "upgrade Kafka on broker 2 to 3.9 first",
        BOTH,
    ),
    "Kafka without ZooKeeper": Case(
        with_node(3001, answer=known(answer(NEW))),
        BlockerKind.NODE_RANGE, "controller 3001 runs Kafka 4.0 or newer", "run Kafka 3.9 on controller 3001",
    ),
    "protocol unset": Case(
        with_settings((2,), inter__broker__protocol__version=settings()["inter.broker.protocol.version"]),
        S, "broker 2 does not set inter.broker.protocol.version; it follows the binary, and is 3.9-IV0 now",
        "set inter.broker.protocol.version=3.9 on broker 2", BOTH,
    ),
    "protocol that differs": Case(
        with_settings((2,), inter__broker__protocol__version="3.8"),
        S, "broker 2 has inter.broker.protocol.version 3.8, and other brokers have 3.9-IV0",
        "set the same on all brokers: inter.broker.protocol.version=3.9", BOTH,
    ),
    "protocol before migrations": Case(
        with_settings((1, 2), inter__broker__protocol__version="3.4"),
        S, "inter.broker.protocol.version 3.4; a migration starts from 3.6-IV1", "inter.broker.protocol.version=3.9",
        BOTH,
    ),
    "protocol that is not known": Case(
        with_settings((1, 2), inter__broker__protocol__version="2.8"),
        S, "inter.broker.protocol.version 2.8; a migration starts from", "inter.broker.protocol.version=3.9", BOTH,
    ),
    "generated id": Case(
        with_settings((2,), broker__id=settings()["broker.id"]),
        S, "broker 2 has a generated id: broker.id is not set", "set broker.id to the id that it has, and restart",
        BOTH,
    ),
    "generated id above the reserved ones": Case(
        as_one(
            with_settings((2,), broker__id=settings()["broker.id"], reserved__broker__max__id="1"),
        ),
        S, "broker 2 has a generated id", "and broker.id.generation.enable=false, as it is above", BOTH,
    ),
    "id above the reserved ones": Case(
        with_settings((2,), reserved__broker__max__id="1"),
        S, "broker 2 has an id above reserved.broker.max.id", "set broker.id.generation.enable=false on broker 2", BOTH,
    ),
    "several log dirs": Case(
        as_one(
            with_settings((1, 2), inter__broker__protocol__version="3.7-IV1"),
            with_settings((2,), log__dirs="/a, /b"),
        ),
        S, "broker 2 has several log dirs, which need inter.broker.protocol.version 3.7-IV2", "raise", BOTH,
    ),
    "ids that clash": Case(
        with_node(3001, roles=(CONTROLLER, BROKER)),
        S, "the id of node 3001 is also the id of a broker", "format the controllers with other ids",
    ),
    "id of a broker that is gone": Case(
        with_survey(assigned={1: "orders-0", 3001: "orders-1"}),
        S, "the id of controller 3001 is also the id of a broker", "no replica is assigned to",
    ),
    "combined node": Case(
        with_settings((3001,), process__roles="broker,controller"),
        S, "controller 3001 is broker and controller in one process", "as separate nodes",
    ),
    "quorum of another protocol": Case(
        with_observation(finalized=known({"metadata.version": 20})),
        S, "broker 1 has inter.broker.protocol.version 3.9, and the controllers have metadata.version 3.8-IV0",
        "format them with --release-version",
    ),
    "quorum that is not known": Case(
        with_observation(finalized=Unknown(SILENT)),
        BlockerKind.QUORUM, "the finalized metadata.version is not known: connection refused", "start it",
    ),
    # controllers
    "listener that brokers lack": Case(
        with_settings((3001,), inter__broker__listener__name="PLAINTEXT"),
        S, "controller 3001 has inter.broker.listener.name PLAINTEXT, which is not a listener of brokers 1, 2",
        "set inter.broker.listener.name=INTERNAL on controller 3001",
    ),
    "listener that is not set": Case(
        with_settings((3001,), inter__broker__listener__name=settings()["process.roles"]),
        S, "controller 3001 has inter.broker.listener.name PLAINTEXT, which is not a listener of brokers 1, 2",
        "set inter.broker.listener.name=INTERNAL on controller 3001",
    ),
    "listener of one broker": Case(
        with_znodes(brokers={1: registered(1), 2: registered(2, "REPLICATION")}),
        S, "which is not a listener of brokers 2: they could not register", "inter.broker.listener.name=INTERNAL",
    ),
    "protocol of the listener": Case(
        with_settings((3002,), listener__security__protocol__map="INTERNAL:PLAINTEXT,CONTROLLER:SSL"),
        S, "controller 3002 has PLAINTEXT for listener INTERNAL, and brokers 1, 2 speak another protocol",
        "listener.security.protocol.map of controller 3002",
    ),
    "chroot of controllers": Case(
        with_settings((3001,), zookeeper__connect="zk1:2181,zk2:2181"),
        S, "controller 3001 has zookeeper.connect zk1:2181,zk2:2181, and the brokers have zk1:2181,zk2:2181/kafka",
        "set the brokers' zookeeper.connect on controller 3001",
    ),
    "ensemble of controllers": Case(
        with_settings((3001,), zookeeper__connect="other:2181/kafka"),
        S, "another ensemble, or another chroot, would be copied", "set the brokers' zookeeper.connect",
    ),
    "ACLs of znodes": Case(
        with_settings((1, 2), zookeeper__set__acl="true"),
        S, "controller 3001 has zookeeper.set.acl false, and the brokers have true",
        "the brokers' zookeeper.* settings",
    ),
    "passwords": Case(
        as_one(
            with_survey(passwords=("/config/brokers/1", "/config/brokers/2")),
            with_settings((3002,), password__encoder__secret=secret()),
        ),
        S, "controller 3001 does not set password.encoder.secret, and ZooKeeper has passwords in configs of brokers "
        "(/config/brokers/1 and 1 more)", "the brokers' password.encoder.secret",
    ),
    "tokens": Case(
        as_one(
            with_survey(counts={Kind.TOKEN: 2}),
            with_settings((3002,), delegation__token__master__key=secret()),
        ),
        S, "controller 3001 does not set delegation.token.secret.key, and there are delegation tokens",
        "the brokers' delegation.token.secret.key",
    ),
    "policy": Case(
        with_settings((1, 2), create__topic__policy__class__name="org.example.Naming"),
        S, "controller 3001 has create.topic.policy.class.name unset, and the brokers have org.example.Naming",
        "set the same create.topic.policy.class.name on all nodes",
    ),
    "default": Case(
        with_settings((3002,), num__partitions="6"),
        S, "controller 3002 has num.partitions 6, and the brokers have 1", "set the same num.partitions on all nodes",
    ),
    "brokers that differ among themselves": Case(
        with_settings((1,), default__replication__factor="3"),
        S, "controller 3001 has default.replication.factor 1, and the brokers have 1 or 3", "set the same",
    ),
    "no super users": Case(
        ACLS, S, "controller 3001 has an authorizer without super.users",
        "add the principals of the brokers, of the controllers and of KafkaFeatures to super.users",
    ),
    "what no ACL speaks of": Case(
        as_one(
            ACLS, with_settings(CONTROLLERS, super__users=secret()),
            with_settings((1, 2), allow__everyone__if__no__acl__found=secret()),
        ),
        S, "controller 3001 does not set allow.everyone.if.no.acl.found, and the brokers set it", "set the same value",
    ),
    "more than brokers allow": Case(
        as_one(ACLS, with_settings(CONTROLLERS, allow__everyone__if__no__acl__found=secret())),
        S, "controller 3001 sets allow.everyone.if.no.acl.found, and the brokers do not set it", "remove it on",
    ),
    "SCRAM for controllers": Case(
        with_settings(
            (3001,), controller__listener__names="controller, OTHER",
            sasl__mechanism__controller__protocol="SCRAM-SHA-512",
            listener__security__protocol__map="INTERNAL:SSL,CONTROLLER:SASL_SSL",
        ),
        S, "controller 3001 has sasl.mechanism.controller.protocol SCRAM-SHA-512 for listener CONTROLLER, and no "
        "controller knows a SCRAM credential before the copy", "use PLAIN or client certificates",
    ),
    "principals": Case(
        with_settings((1, 2), principal__builder__class="org.example.Principals"),
        S, "controller 3001 has principal.builder.class org.example.DefaultKafkaPrincipalBuilder, and the brokers have "
        "org.example.Principals", "set the same principal.builder.class on all nodes",
    ),
    "lifetime of tokens": Case(
        with_settings((1, 2), delegation__token__max__lifetime__ms="1000"),
        S, "controller 3001 has delegation.token.max.lifetime.ms 604800000, and the brokers have 1000", "set the same",
    ),
    "window of quotas": Case(
        with_settings((1, 2), controller__quota__window__size__seconds="5"),
        S, "controller 3001 has controller.quota.window.size.seconds 1, and the brokers have 5", "set the same",
    ),
    "custom authorizer": Case(
        with_settings((1, 2), authorizer__class__name=OPA),
        S, f"the brokers have the authorizer {OPA}, and controller 3001 has authorizer.class.name unset",
        f"set authorizer.class.name={OPA}",
    ),
    # znodes
    "ensemble without majority": Case(
        lambda case: replace(case, znodes=NO_MAJORITY), Z, "no session within 10 s", "majority of the ensemble", BOTH
    ),
    "znode that may not be read": Case(
        with_znodes(migration=DENIED), Z, "znode /migration: not authorized to read it", "grant READ on it", BOTH
    ),
    "damaged /migration": Case(
        with_znodes(migration=DAMAGED), Z, "the controllers would wait forever", "delete /migration", BOTH
    ),
    "another cluster": Case(
        with_znodes(cluster_id="other"), Z, "is the ensemble of cluster other", "chroot of the brokers'", BOTH
    ),
    "no cluster id": Case(with_znodes(cluster_id=None), Z, "has no znode /cluster/id", "chroot", BOTH),
    "controllers of another cluster": Case(
        with_observation(cluster_id=Unknown(Failure(FailureKind.WRONG_CLUSTER, "h:1", "belongs to cluster x"))),
        S, "belongs to cluster x", "format the controllers with the id in /cluster/id", BOTH,
    ),
    "cluster id that is not known": Case(
        with_observation(cluster_id=Unknown(SILENT)), N, "connection refused", "start it", BOTH
    ),
    "no controller": Case(with_znodes(controller=None), Z, "/controller is absent", "log of the brokers", BOTH),
    "KRaft id in /controller": Case(
        with_znodes(controller=claimed(3009)), Z, "/controller names the KRaft controller 3009 at epoch 3",
        "go back to ZooKeeper mode first", BOTH,
    ),
    "no epoch": Case(with_znodes(controller_epoch=None), Z, "/controller_epoch is absent", "restart one", BOTH),
    "stale /migration": Case(
        with_znodes(migration=progress(409)), Z, "/migration is left from an earlier migration (offset 409)",
        "start no controller", (WITHOUT_CONTROLLERS,),
    ),
    "no /migration after a minute": Case(
        with_znodes(migration=None), Z, "and have not created /migration: they cannot use ZooKeeper", "NoAuth"
    ),
    "no /migration yet": Case(
        lambda preflight: replace(with_znodes(migration=None)(preflight), controllers_for=timedelta(seconds=59)),
        BlockerKind.MIGRATION, "have not created /migration yet", "up to 1 min",
    ),
    "feature": Case(
        with_znodes(feature=finalized(foo=2)), Z, "/feature has finalized features, which Kafka does not copy: foo",
        "remove the entries", BOTH,
    ),
    "deletions": Case(
        with_znodes(deletions=("a", "b", "c", "d")), Z, "4 topics in /admin/delete_topics: a, b, c and 1 more",
        "a broker with a replica is away", BOTH,
    ),
    "reassignment": Case(
        with_znodes(reassigning=True), Z, "/admin/reassign_partitions has a reassignment", "--cancel", BOTH
    ),
    "replica on a broker that is gone": Case(
        with_survey(assigned={1: "orders-0", 7: "orders-1"}), BlockerKind.NODE_UNKNOWN,
        "broker 7 has replicas, of orders-1 for example", "start broker 7; if it no longer exists, move", BOTH,
    ),
    "finding of the copy": Case(
        with_survey(findings=(ZnodeFinding("/config/users/u", "the quota x is not a number", "remove it"),)),
        Z, "znode /config/users/u: the quota x is not a number", "remove it", BOTH,
    ),
    "znode that the copy cannot read": Case(
        with_survey(failures=(replace(DENIED, location="znode /config/users/u"),)),
        Z, "znode /config/users/u: not authorized", "grant READ", BOTH,
    ),
    "no dry run": Case(
        lambda case: replace(case, survey=NO_MAJORITY), Z, "no session within 10 s", "majority of the ensemble", BOTH
    ),
}  # fmt: skip
