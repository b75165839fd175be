"""A document that moves a Kafka on Kubernetes from ZooKeeper to KRaft or back; the test plays Git. What must hold is
judged by the words of others than the operator: the API server's audit log, Kafka's own tools, and an observer on
Kafka's own client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from kafkafeatures.api.names import API_VERSION, KIND
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.report.events import PHASE_CHANGED
from tests.e2e.kubernetes.resources import Resources
from tests.e2e.kubernetes.rolls.rolling import BOTH, STATEFUL_SETS
from tests.e2e.rig.kubernetes.migrating import MigratingPods
from tests.e2e.rig.kubernetes.observer import Observer
from tests.e2e.rig.kubernetes.operator import USER as OPERATOR
from tests.e2e.rig.kubernetes.operator import Operator
from tests.e2e.rig.kubernetes.racks import PASSWORD, USER, USER_PORT
from tests.e2e.rig.process import wait_until

TOPIC, NAME = "orders", "orders"
PATIENCE = 300.0
"""Seconds for a phase; no promise, a machine may be busy with other things."""
CONFIGS, TOPICS = "kafka.admin.ConfigCommand", "org.apache.kafka.tools.TopicCommand"
ACLS, TOKENS = "kafka.admin.AclCommand", "org.apache.kafka.tools.DelegationTokenCommand"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN_OF_OPERATOR = {"mechanism": "SCRAM-SHA-256", "secretRef": {"name": "login"}}
ROLLOUT = {"stableFor": "3s", "nodeTimeout": "120s"}
LOGIN = f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config={SCRAM} required username="{USER}" password="{PASSWORD}";
"""


class MigratingResource(Resources):
    """See the prologue. `kills`: the operator, by SIGKILL, as soon as it has evicted a pod; `killed`: at how
    many evictions. `replaced`: pods of controllers that ended by themselves when they were new, see `_replace_new`.
    """

    def __init__(self, kafka: MigratingPods, observer: Observer | None, operator: Operator) -> None:
        super().__init__(kafka.plane, namespace=kafka.namespace)
        self.pods, self.observer, self.operator = kafka, observer, operator
        self._audit, self._seen = kafka.plane.audit.mark(), observer.mark() if observer is not None else 0
        self.kills = False
        self.killed = 0
        self.replaced: list[str] = []

    def wants(self, desired: str, *consents: str, **spec: Any) -> None:
        """Git says where to go."""
        body: dict[str, Any] = {
            "cluster": {
                "bootstrapServers": self.pods.addresses("brokers", USER_PORT),
                "bootstrapControllers": self.pods.addresses("controllers"),
                "zookeeper": {"connect": self.pods.ensemble},
                "requestTimeout": "5s",
                "sasl": LOGIN_OF_OPERATOR,
                "controllerListener": {},
            },
            "workload": BOTH,
            "rollout": ROLLOUT,
            "consents": list(consents),
            "migration": {"desired": desired, "holdDualWriteFor": "0m"},
        }
        self._writes(body | spec)

    def wants_ibp(self, ibp: str) -> None:
        """Git says which `inter.broker.protocol.version` the brokers are to use."""
        cluster = {
            "bootstrapServers": self.pods.addresses("brokers", USER_PORT),
            "zookeeper": {"connect": self.pods.ensemble},
            "requestTimeout": "5s",
            "sasl": LOGIN_OF_OPERATOR,
        }
        self._writes(
            {
                "cluster": cluster,
                "workload": {"driver": "StatefulSet", "statefulSet": {"brokers": ["brokers"]}},
                "rollout": ROLLOUT,
                "interBrokerProtocolVersion": ibp,
            }
        )

    def _writes(self, spec: dict[str, Any]) -> None:
        metadata = {"name": NAME, "namespace": self.namespace}
        self.plane.apply({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec})

    def restarts_operator(self) -> None:
        """The operator is killed, and started again."""
        self.operator.kill()
        self.operator.start()

    def topic(self, made: str, deleted: str = "") -> None:
        """A topic is made in this phase, and that of the one before is deleted."""
        where = self.pods.servers_of_tools
        many = ("--partitions", "2", "--replication-factor", "3")
        self.pods.tool(TOPICS, *where, "--create", "--topic", made, *many)
        if deleted:
            self.pods.tool(TOPICS, *where, "--delete", "--topic", deleted)

    def topics(self) -> set[str]:
        """All that Kafka lists, but for its own."""
        listed = self.pods.tool(TOPICS, *self.pods.servers_of_tools, "--list", "--exclude-internal")
        return set(listed.split())

    def approve(self, desired: str, *consents: str) -> None:
        """Git approves the plan that is shown, by its hash."""
        self.until(NAME, "ApprovalRequired", "MigrationFinalize")
        self.wants(desired, *consents, approval={"planHash": self.status(NAME)["plan"]["hash"]})

    # --- what the status says ---

    @property
    def phase(self) -> str:
        """The phase of the migration, as the status has it."""
        return str((self.status(NAME).get("migration") or {}).get("phase", ""))

    def ready(self) -> tuple[str, str]:
        """Reason and message, of this generation; empty before."""
        found = self.condition(NAME, "Ready")
        return str(found.get("reason", "")), str(found.get("message", ""))

    def until_asked(self, *words: str) -> str:
        """Wait until Git is asked for this."""
        return self._until(lambda: True, "WaitingForGit", *words)

    def until_done(self, *words: str) -> str:
        """Wait until nothing is left to do, and this is said."""
        return self._until(lambda: True, "InSync", *words)

    def until_said(self, word: str) -> None:
        """Wait until the message of Ready has this in it."""
        wait_until(f"{word} is said", lambda: word in self.ready()[1], PATIENCE, step=0.3)

    def until_evicted(self, many: int) -> None:
        """Wait until so many pods were evicted."""
        wait_until(f"{many} pods are evicted", lambda: len(self.evicted) >= many, PATIENCE, step=0.1)

    def until_in_sync(self, phase: str) -> None:
        """Wait until the migration is at the phase that is wanted, and an Event and the metrics say so."""
        self._until(lambda: self.phase == phase, "InSync")
        wait_until(f"an Event says {phase}", lambda: self._is_in_events(phase), PATIENCE, step=0.3)
        wait_until(f"the metric says {phase}", lambda: self._is_in_metrics(phase), PATIENCE, step=0.3)

    def _is_in_events(self, phase: str) -> bool:
        notes = (note for _, reason, note in self.events(NAME) if reason == PHASE_CHANGED)
        return any(f"-> {phase}; " in note for note in notes)

    def _is_in_metrics(self, phase: str) -> bool:
        """All brokers have a mode, and no other phase is the one that holds."""
        name, of = "kafkafeatures_migration_phase", {"name": NAME, "namespace": self.namespace}
        modes = self.operator.metric("kafkafeatures_migration_brokers", **of)
        held = (self.operator.metric(name, **of), self.operator.metric(name, **of, phase=phase))
        return held == (1, 1) and modes == len(self.pods.pods_of("brokers"))

    def _until(self, holds: Callable[[], bool], reason: str, *words: str) -> str:
        found = [""]

        def there() -> bool:
            if self.kills and len(self.evicted) > self.killed:
                self.killed = len(self.evicted)
                self.restarts_operator()
            if not self.evicted:
                self._replace_new()
            said, found[0] = self.ready()
            return said == reason and all(word in found[0] for word in words) and holds()

        try:
            wait_until(f"{NAME} says {reason} {words}", there, PATIENCE, step=0.3)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says {self.progress()}; {self.last_words()}") from None
        return found[0]

    def _replace_new(self) -> None:
        """Follow the operator's remedy for a controller whose container ended by itself before the operator has evicted
        any pod, in the first seconds of the quorum: delete the pod. Kafka 3.9.2 was seen to do that once, on a busy
        machine. The last words are printed, as pytest shows them if the test fails.
        """
        for name, words in self.last_words().items():
            if name in self.pods.pods_of("controllers") and name not in self.replaced:
                print(f"{name} ended by itself:\n{words}")
                self.replaced.append(name)
                self.pods.delete(name)

    def progress(self) -> dict[str, Any]:
        """What a report of a failure needs of the status."""
        status = self.status(NAME)
        conditions = [(c["type"], c["status"], c["reason"], c["message"]) for c in status.get("conditions", ())]
        kept = {key: status.get(key) for key in ("migration", "rollout", "workloads", "intents", "blockers", "plan")}
        return {"conditions": conditions, **kept}

    # --- what must hold ---

    @property
    def created(self) -> Counter[str]:
        """How often the StatefulSet controller made a pod since the operator began."""
        wanted = {"verb": "create", "resource": "pods", "subresource": "", "user": STATEFUL_SETS, "code": 201}
        return Counter(row.name for row in self.plane.audit.rows(self._audit, **wanted))

    @property
    def evicted(self) -> list[str]:
        """Pods that the API server evicted for the operator, in order."""
        wanted = {"verb": "create", "resource": "pods", "subresource": "eviction", "user": OPERATOR}
        rows = sorted(self.plane.audit.rows(self._audit, **wanted), key=lambda row: row.at)
        return [row.name for row in rows if row.code in (200, 201)]

    def no_client_was_harmed(self) -> None:
        """No record refused, none lost, and no broker reports too few replicas in sync."""
        assert self.observer is not None
        assert self.observer.complaints(self._seen) == []
        verified = self.observer.verified()
        assert (verified["lost"], verified["unseen"]) == ([], [])
        assert verified["acknowledged"] > 0


def held(kafka: MigratingPods) -> None:
    """What Kafka copies: a topic with a config, users, rights (one of them DENY), quotas; and the operator's user."""
    where = kafka.servers_of_tools
    kafka.tool(
        TOPICS, *where, "--create", "--topic", TOPIC, "--partitions", "6", "--replication-factor", "3",
        "--config", "retention.ms=604800001",
    )  # fmt: skip
    kafka.admits()
    for entity, config in (
        (("users", "--entity-name", "alice"), "SCRAM-SHA-512=[password=secret-8f22]"),
        (("users", "--entity-name", "alice"), "producer_byte_rate=1048576"),
        (("clients", "--entity-default"), "request_percentage=150"),
        (("brokers", "--entity-default"), "log.retention.ms=7200000"),
        (
            ("brokers", "--entity-name", str(kafka.id_of("brokers-0"))),
            f'listener.name.users.plain.sasl.jaas.config=[{PLAIN} required username="a" password="secret-8f23";]',
        ),
    ):
        kafka.tool(CONFIGS, *where, "--alter", "--entity-type", *entity, "--add-config", config)
    for who, operations, resource in (
        (f"--allow-principal=User:{USER}", ("Describe", "DescribeConfigs", "ClusterAction"), "--cluster"),
        (f"--allow-principal=User:{USER}", ("Describe", "DescribeConfigs"), "--topic=*"),
        ("--deny-principal=User:mallory", ("Write",), f"--topic={TOPIC}"),
    ):
        words = [word for one in operations for word in ("--operation", one)]
        kafka.tool(ACLS, *where, "--add", who, *words, resource)
    kafka.tool(TOKENS, *_logged_in(kafka), "--create", "--max-life-time-period", "-1")


def _logged_in(kafka: MigratingPods) -> tuple[str, ...]:
    """A token is made and listed by the user that it is of."""
    login = kafka.node.folder / "login.properties"
    login.write_text(LOGIN)
    return ("--bootstrap-server", kafka.addresses("brokers", USER_PORT), "--command-config", str(login))


def shown_by_tools(kafka: MigratingPods) -> dict[str, str]:
    """What Kafka copies, as its own tools print it. Leaders and in-sync replicas of topics change with each restart."""
    where = kafka.servers_of_tools
    found = {
        "acls": "\n".join(sorted(map(str.strip, kafka.tool(ACLS, *where, "--list").splitlines()))),
        "topics": "\n".join(
            line.split("\tLeader:")[0] + line.partition("\tReplicas:")[2].partition("\tIsr:")[0]
            for line in kafka.tool(TOPICS, *where, "--describe", "--topic", TOPIC).splitlines()
        ),
    }
    for kind in ("users", "clients"):
        found[kind] = "\n".join(sorted(kafka.tool(CONFIGS, *where, "--describe", "--entity-type", kind).splitlines()))
    found["brokers"] = kafka.tool(CONFIGS, *where, "--describe", "--entity-type", "brokers", "--entity-default")
    one = ("--entity-type", "brokers", "--entity-name", str(kafka.id_of("brokers-0")))
    found["a broker"] = kafka.tool(CONFIGS, *where, "--describe", *one)
    found["tokens"] = kafka.tool(TOKENS, *_logged_in(kafka), "--describe")
    return found


def of(shape: Shape) -> str:
    """How a message asks Git for a shape of nodes."""
    return f"must become {shape.value}"
