"""Problems of a document are reported in our own words: the path, the value, and the expected values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields

from kafkafeatures.api.document import InvalidDocument, read_document
from kafkafeatures.api.schema import Text, as_json
from kafkafeatures.api.spec import KafkaFeatures

REF = {"name": "orders", "key": "ca.crt"}
SASL = {
    "mechanism": "SCRAM-SHA-512",
    "username": "u",
    "secretRef": {"name": "s", "usernameKey": "u", "passwordKey": "p"},
}
TLS = {"caSecretRef": REF, "caConfigMapRef": REF, "clientSecretRef": {"name": "s", "certKey": "c", "keyKey": "k"}}
FULL: dict[str, Any] = {
    "apiVersion": "kafkafeatures.dev/v1alpha1",
    "kind": "KafkaFeatures",
    "metadata": {"name": "orders", "namespace": "kafka"},
    "spec": {
        "mode": "Apply",
        "suspend": False,
        "consents": ["group.version:1->0"],
        "cluster": {
            "bootstrapServers": "a:1",
            "bootstrapControllers": "b:1",
            "zookeeper": {
                "connect": "zk-1:2181,zk-2:2181/kafka",
                "tls": TLS,
                "digestSecretRef": {"name": "z", "usernameKey": "u", "passwordKey": "p"},
            },
            "clusterId": "x",
            "requestTimeout": "30s",
            "tls": TLS,
            "sasl": SASL,
            "controllerListener": {"tls": TLS, "sasl": SASL},
        },
        "workload": {
            "driver": "StatefulSet",
            "statefulSet": {"brokers": ["orders-broker"], "controllers": ["orders-controller"], "container": "kafka"},
            "pods": {
                "selector": "app=kafka",
                "versionAnnotation": "example.com/version",
                "version": "7",
                "container": "kafka",
            },
        },
        "features": {
            "releaseVersion": "4.1",
            "finalizeAfter": "24h",
            "levels": [{"name": "group.version", "level": 1}],
        },
        "migration": {"desired": "PreMigration", "holdDualWriteFor": "24h"},
        "approval": {"policy": "Always", "planHash": "sha256:01234567"},
        "rollout": {
            "maxParallel": "10%",
            "availability": "RespectMinISR",
            "stableFor": "1m",
            "nodeTimeout": "30m",
            "windows": [{"schedule": "0 22 * * 1-5", "duration": "6h", "timeZone": "Europe/Berlin"}],
        },
        "drift": {"onDrift": "Report", "checkEvery": "1m"},
        "clientEvidence": {
            "prometheus": {
                "url": "https://prometheus:9090/p",
                "selector": 'namespace="kafka"',
                "brokerLabel": "pod",
                "brokerPattern": "broker-([0-9]+)",
                "tls": TLS,
                "tokenSecretRef": {"name": "t", "key": "token"},
                "basicAuthSecretRef": None,
            },
            "configMapRef": {"name": "clients"},
            "target": "4.1",
            "windowDays": 35,
            "policy": "Gate",
        },
    },
}
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8), st.just("x" * 5000),
    st.just("\ud800"),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=50,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a document."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


PLACES = [path for path in places(FULL) if path]


def changed(path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of the valid document with another value at this path."""
    document = json.loads(json.dumps(FULL))
    inner = document
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return document


def problems(document: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidDocument) as caught:
        read_document(document)
    return caught.value.problems


def test_the_full_example_document_is_valid() -> None:
    read_document(FULL)


WRONG: list[tuple[str, Any, str]] = [
    ("spec.mode", "Aply", "spec.mode: invalid value 'Aply'; expected 'Observe' or 'Apply'"),
    ("spec.suspend", "true", "spec.suspend: invalid value 'true'; expected true or false"),
    ("spec.features.releaseVersion", 4.2, 'invalid value 4.2; expected text; write it in quotes: "4.2"'),
    ("spec.features.releaseVersion", "four", "invalid value 'four'; expected a release such as \"4.1\""),
    ("spec.features.releaseVersion", True, "invalid value true; expected text; write it in quotes"),
    ("spec.features.levels", {"a": 1}, "spec.features.levels: invalid value (a mapping); expected a list"),
    ("spec.features.levels", [{"name": f"f{i}", "level": 1} for i in range(33)], "expected at most 32 items"),
    ("spec.features.levels.0.level", 4.2, "level: invalid value 4.2; expected an integer from 0 to 32767, or"),
    ("spec.features.levels.0.level", 40000, "level: invalid value 40000; expected an integer from 0 to 32767"),
    ("spec.features.levels.0.level", "1", "level: invalid value '1'; expected an integer from 0 to 32767; only"),
    ("spec.features.levels.0.level", "\ud800", "level: invalid value"),
    ("spec.features.levels.0.name", "A", "expected the name of a feature, such as metadata.version"),
    ("spec.features.levels.0.int", 1, "spec.features.levels[0].int: unknown field; valid fields: level, name"),
    ("spec.features.level", 1, "unknown field; did you mean 'levels'? valid fields: finalizeAfter, levels"),
    ("spec.consents.0", "all", "spec.consents[0]: invalid value 'all'; expected a consent such as"),
    ("spec.clientEvidence", {"target": "4.1"}, "spec.clientEvidence: set prometheus, configMapRef, or both"),
    ("spec.clientEvidence.configMapRef", {}, "spec.clientEvidence.configMapRef.name: required field is missing"),
    ("spec.cluster", None, "spec.cluster: invalid value null; expected a mapping"),
    ("spec.cluster.bootstrapServers", "a", "invalid value 'a'; expected at least 3 characters"),
    ("spec.cluster.sasl.username", 7, "sasl.username: invalid value; expected text; write it in quotes"),
    ("spec.cluster.sasl.secretRef", {}, "spec.cluster.sasl.secretRef.name: required field is missing"),
    ("spec.cluster.requestTimeout", "1h", "invalid value '1h'; expected a duration in ms, s or m, such as 500ms"),
    ("spec.drift.checkEvery", "20000ms", "invalid value '20000ms'; expected a duration in s, m or h, such as 90s"),
    ("spec.cluster.zookeeper.connect", "zk", "invalid value 'zk'; expected at least 3 characters"),
    ("spec.cluster.zookeeper", {}, "spec.cluster.zookeeper.connect: required field is missing"),
    ("spec.cluster.zookeeper", None, "spec: migration needs cluster.zookeeper; set its connect to the brokers'"),
    ("spec.cluster.zookeeper.digestSecretRef", {}, "zookeeper.digestSecretRef.name: required field is missing"),
    ("spec.cluster.zookeeper.digest", {}, "unknown field; valid fields: connect, digestSecretRef, tls"),
    ("spec.interBrokerProtocolVersion", "3.9", "cannot be set together with a migration, during which it must not"),
    ("spec.interBrokerProtocolVersion", "3.9.2", "invalid value '3.9.2'; expected a release such as"),
    ("spec.migration", {}, "spec.migration.desired: required field is missing"),
    ("spec.migration.desired", "KRaft", "invalid value 'KRaft'; expected 'None', 'PreMigration', 'DualWrite', "),
    ("spec.migration.holdDualWriteFor", "30s", "invalid value '30s'; expected a duration in m or h, such as 90m or 4h"),
    ("spec.migration.holdDualWriteFor", "8761h", "spec.migration: holdDualWriteFor must be at most 8760h"),
    ("spec.workload.driver", 1, "spec.workload.driver: invalid value 1; expected text"),
    ("spec.workload.statefulSet.brokers", [], "brokers: invalid value (a list); expected at least 1 item"),
    ("spec.workload.statefulSet.brokers", ["a", "a"], "spec.workload.statefulSet: brokers: duplicate StatefulSet"),
    ("spec.workload.statefulSet.brokers.0", "A", "invalid value 'A'; expected the name of a StatefulSet in the"),
    ("spec.workload.statefulSet.controllers", ["c"] * 9, "expected at most 8 items"),
    ("spec.workload.pods", {}, "spec.workload.pods.selector: required field is missing"),
    ("spec.workload.pods.selector", "", "spec.workload.pods.selector: invalid value ''; expected at least 1 character"),
    ("spec.workload.pods.selector", "kafka", "expected a label selector such as app=kafka,kafka_cr=orders, of parts"),
    ("spec.workload.pods.selector", "app!=kafka", "pods.selector: invalid value 'app!=kafka'; expected a label"),
    ("spec.workload.pods.selector", "app=kafka,", "pods.selector: invalid value 'app=kafka,'; expected a label"),
    ("spec.workload.pods.versionAnnotation", None, "spec.workload.pods: version needs versionAnnotation"),
    ("spec.workload.pods.versionAnnotation", "my version", "expected the name of an annotation of pods"),
    ("spec.workload.statefulSet.container", "", "container: invalid value ''; expected at least 1 characters"),
    ("spec.features.finalizeAfter", "1d", "invalid value '1d'; expected a duration in s, m or h, such as 90s"),
    ("spec.features.finalizeAfter", "8761h", "spec.features: finalizeAfter must be at most 8760h"),
    ("spec.features.finalizeAfter", "9" * 17 + "h", "expected at most 16 characters"),
    ("spec.rollout.maxParallel", 0, "invalid value 0; expected a number from 1 to 256 or a percentage from 1% to"),
    ("spec.rollout.maxParallel", 257, "expected a number from 1 to 256 or a percentage from 1% to 39%"),
    ("spec.rollout.maxParallel", "40%", "invalid value '40%'; expected a number from 1 to 256 or a percentage"),
    ("spec.rollout.maxParallel", "2", "invalid value '2'; expected a number from 1 to 256 or a percentage"),
    ("spec.rollout.maxParallel", True, "invalid value true; expected a number from 1 to 256 or a percentage"),
    ("spec.rollout.availability", "None", "expected 'NoUnderReplicated' or 'RespectMinISR'"),
    ("spec.rollout.stableFor", "1h", "invalid value '1h'; expected a duration in s or m, such as 30s or 2m"),
    ("spec.rollout.stableFor", "99999999m", "spec.rollout: stableFor must be at most 8760h"),
    ("spec.rollout.nodeTimeout", "0s", "spec.rollout: nodeTimeout must be between 1s and 8760h"),
    ("spec.rollout.windows.0.duration", "0h", "spec.rollout.windows[0]: duration must be between 1m and 8760h"),
    ("spec.rollout.windows.0.duration", "30s", "invalid value '30s'; expected a duration in m or h, such as 90m or 4h"),
    ("spec.rollout.windows.0.start", "22:00", "spec.rollout.windows[0].start: unknown field"),
    ("spec.rollout.windows.0", {}, "spec.rollout.windows[0].schedule: required field is missing"),
    ("metadata.name", "Orders", "metadata.name: invalid value 'Orders'; expected a name of a-z"),
    ("spec", [], "spec: invalid value (a list); expected a mapping"),
]  # fmt: skip


def document_with(path: str, value: Any) -> Any:
    """Return the valid document with another value at this path, such as spec.consents.0."""
    return changed(tuple(int(part) if part.isdigit() else part for part in path.split(".")), value)


@pytest.mark.parametrize(("path", "value", "message"), WRONG)
def test_an_error_message_has_the_path_the_value_and_the_expected_values(path: str, value: Any, message: str) -> None:
    reported = problems(document_with(path, value))
    assert any(message in problem for problem in reported), reported


RIGHT: list[tuple[str, Any]] = [
    ("spec.clientEvidence", {"target": "4.1", "configMapRef": {"name": "clients"}}),
    ("spec.clientEvidence.configMapRef", None),
    ("spec.workload", {}),
    ("spec.workload", {"driver": "Manual"}),
    ("spec.workload", {"driver": "None", "statefulSet": {"brokers": ["a"]}}),
    ("spec.workload.statefulSet", {"brokers": [f"broker-{number}" for number in range(32)]}),
    ("spec.workload.statefulSet.controllers", ["orders-broker"]),
    ("spec.workload.pods", {"selector": "app=kafka,example.com/role in (broker, controller)"}),
    ("spec.consents", ["single-replica-topics", "group.version:1->0"]),
    ("spec.consents", ["zk-finalize", "zk-rollback-lossy"]),
    ("spec.migration", {"desired": "RolledBack"}),
    ("spec.migration", {"desired": "Finalized", "holdDualWriteFor": "0m"}),
    ("spec.cluster.zookeeper", {"connect": "a:1"}),
    ("spec.cluster.zookeeper.tls", {}),
    ("spec.features.finalizeAfter", "0s"),
    ("spec.features.finalizeAfter", "8760h"),
    ("spec.rollout.maxParallel", 1),
    ("spec.rollout.maxParallel", 256),
    ("spec.rollout.maxParallel", "1%"),
    ("spec.rollout.maxParallel", "39%"),
    ("spec.rollout.stableFor", "0s"),
    ("spec.rollout.nodeTimeout", "1s"),
    ("spec.rollout.windows", []),
    ("spec.rollout.windows.0.duration", "1m"),
    ("spec.rollout", {}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value"), RIGHT)
def test_values_that_are_optional_or_at_a_limit_of_the_schema_are_accepted(path: str, value: Any) -> None:
    read_document(document_with(path, value))


MESSAGE = re.compile(
    r".*?: (invalid value.*; expected .|required field is missing$|unknown field; .*valid fields: "
    r"|set bootstrapServers|set metadata.version|[a-zA-Z]+ must be |[a-z]+: duplicate "
    r"|raising kraft.version|migration needs |interBrokerProtocolVersion (needs|cannot) |[A-Z]+ without TLS"
    r"|level: invalid value)",
    re.DOTALL,
)


def problems_of(document: Any) -> tuple[str, ...]:
    try:
        read_document(document)
    except InvalidDocument as error:
        return error.problems or ("nothing",)
    return ()


@given(st.sampled_from(PLACES), VALUES, st.text(max_size=10))
def test_any_document_is_accepted_or_refused_with_readable_error_messages(
    path: tuple[Any, ...], value: Any, key: str
) -> None:
    for document in (changed(path, value), changed((*path[:-1], key), value) if isinstance(path[-1], str) else FULL):
        reported = problems_of(document)
        assert all(MESSAGE.match(problem) for problem in reported), reported


def texts(hint: Any) -> Iterator[Text]:
    """Yield the rules for texts of all fields of a type."""
    if get_origin(hint) is Annotated:
        yield from (rule for rule in get_args(hint) if isinstance(rule, Text))
    for inner in get_args(hint):
        yield from texts(inner)
    for field in fields(hint) if isinstance(hint, type) and issubclass(hint, Struct) else ():
        yield from texts(field.type)


def test_every_pattern_of_a_field_has_a_description_of_its_meaning() -> None:
    with_pattern = {rule for rule in texts(KafkaFeatures) if rule.pattern}
    assert len(with_pattern) == 19  # all patterns of the schema were found
    assert all(rule.meaning for rule in with_pattern)


def test_a_document_that_wants_no_migration_needs_no_zookeeper_ensemble() -> None:
    document = changed(("spec", "migration"), {"desired": "None"})
    del document["spec"]["cluster"]["zookeeper"]
    read_document(document)
    del document["spec"]["migration"]
    read_document(document)


def test_an_inter_broker_protocol_version_needs_the_zookeeper_ensemble() -> None:
    document = changed(("spec", "migration"), {"desired": "None"})
    document["spec"]["interBrokerProtocolVersion"] = "3.9"
    assert read_document(document).spec.wants_ensemble
    del document["spec"]["cluster"]["zookeeper"]
    (problem,) = problems(document)
    assert "interBrokerProtocolVersion needs cluster.zookeeper" in problem


@pytest.mark.parametrize("value", ["orders\n", "\norders", "orders x", "Orders", "-orders", ""])
def test_an_invalid_name_is_refused_also_if_a_part_of_it_is_valid(value: str) -> None:
    assert problems(changed(("metadata", "name"), value))[0].startswith("metadata.name: invalid value")


def test_all_problems_are_reported_at_once() -> None:
    document = changed(("spec", "mode"), "Aply") | {"kind": "Kafka"}
    document["spec"]["cluster"].pop("bootstrapServers")  # no problem: bootstrapControllers is there
    document["spec"]["cluster"]["sasl"] = {"mechanism": "PLAIN"}
    assert [problem.split(":")[0] for problem in problems(document)] == [
        "kind", "spec.mode", "spec.cluster.sasl.secretRef"
    ]  # fmt: skip


def test_a_document_is_written_with_all_defaults_and_also_kept_as_it_was_written() -> None:
    """A state file has a digest of the form with all defaults."""
    resource = read_document(FULL)
    absent = {"interBrokerProtocolVersion": None, "cluster": {**FULL["spec"]["cluster"], "strimzi": None}}
    assert as_json(resource.spec) == {**FULL["spec"], **absent}  # what excludes other fields of the example
    assert resource.raw_spec == FULL["spec"]
    least = read_document({**FULL, "spec": {"cluster": {"bootstrapServers": "a:1"}}})
    assert as_json(least.spec) == {
        "mode": "Apply",
        "suspend": False,
        "consents": [],
        "cluster": {
            "strimzi": None,
            "bootstrapServers": "a:1",
            "bootstrapControllers": None,
            "zookeeper": None,
            "clusterId": None,
            "requestTimeout": "30s",
            "tls": None,
            "sasl": None,
            "controllerListener": None,
        },
        "workload": {"driver": None, "statefulSet": None, "pods": None},
        "features": {"releaseVersion": None, "finalizeAfter": "0s", "levels": []},
        "interBrokerProtocolVersion": None,
        "migration": None,
        "approval": {"policy": "IrreversibleOnly", "planHash": None},
        "rollout": {
            "maxParallel": 1,
            "availability": "NoUnderReplicated",
            "stableFor": "30s",
            "nodeTimeout": "15m",
            "windows": [],
        },
        "drift": {"onDrift": "Report", "checkEvery": "1m"},
        "clientEvidence": None,
    }
    assert least.raw_spec == {"cluster": {"bootstrapServers": "a:1"}}


def test_an_error_message_repeats_no_password_that_is_part_of_a_field_name_or_an_address() -> None:
    """YAML reads `password:hunter2`, without a space, as the name of a field."""
    reported = problems(changed(("spec", "cluster", "sasl", "password:hunter2"), None))
    assert "hunter2" not in "".join(reported)
    assert any(problem.startswith("spec.cluster.sasl.password: unknown field") for problem in reported)
    addresses = changed(("spec", "cluster", "bootstrapServers"), "orders:hunter2@kafka-1:9092," * 100)
    assert problems(addresses) == ("spec.cluster.bootstrapServers: invalid value; expected at most 2048 characters",)


@pytest.mark.parametrize("path", [("spec", "suspend"), ("metadata", "name"), ("spec", "cluster", "sasl", "username")])
def test_a_number_of_thousands_of_digits_is_reported_in_words(path: tuple[str, ...]) -> None:
    """Python refuses to write such a number in digits."""
    (problem,) = problems(changed(path, 1 << 20_000))
    assert "expected" in problem
    assert len(problem) < 200


@pytest.mark.parametrize("path", [("sasl", "username"), ("sasl", "passwordKey"), ("zookeeper", "digestSecretRef")])
def test_an_error_message_repeats_no_value_that_may_be_a_password(path: tuple[str, ...]) -> None:
    document = changed(("spec", "cluster", *path), {"hunter2": 1})
    assert "hunter2" not in "".join(problems(document))
