"""The command that grants a missing right, with the user and the addresses of this connection."""

from __future__ import annotations

from kafkafeatures.core.facts.readings import Failure, FailureKind, Readings, Role
from kafkafeatures.kafka.base.requester import Requester
from kafkafeatures.kafka.base.rights import ClusterRight, missing
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, Sasl, Security
from kafkafeatures.kafka.wire.pem import Tls
from tests.kafkafeatures.worlds import asked, probe

LACKS = Failure(FailureKind.AUTHORIZATION, "h:1", *missing("DescribeQuorum", ClusterRight.DESCRIBE))
SCRAM = Security(sasl=Sasl("SCRAM-SHA-512", "bob", "secret"))
BROKERS = (Address("b1", 9092), Address("b2", 9092))


def named(settings: ClusterSettings, role: Role = Role.BROKER) -> Failure:
    return Requester(settings).named(LACKS, role)


def test_the_remedy_for_a_missing_right_is_a_command_with_user_and_brokers() -> None:
    found = named(ClusterSettings(bootstrap_servers=BROKERS, brokers=SCRAM, controllers=SCRAM))
    assert found.message == "DescribeQuorum needs DESCRIBE on the cluster, which User:bob does not have"
    assert found.remedy == (
        "kafka-acls.sh --bootstrap-server b1:9092,b2:9092 --command-config admin.properties "
        "--add --allow-principal User:bob --operation Describe --cluster"
    )


def test_the_remedy_without_sasl_and_tls_names_the_anonymous_user_and_no_config_file() -> None:
    found = named(ClusterSettings(bootstrap_controllers=(Address("c1", 9093),)))
    assert found.remedy == (
        "kafka-acls.sh --bootstrap-controller c1:9093 --add --allow-principal User:ANONYMOUS "
        "--operation Describe --cluster"
    )


def test_the_remedy_names_the_user_of_the_listener_and_a_placeholder_for_a_certificate() -> None:
    settings = ClusterSettings(bootstrap_servers=BROKERS, brokers=SCRAM, controllers=Security(tls=Tls()))
    assert "User:NAME" in named(settings, Role.CONTROLLER).remedy
    assert "which this user does not have" in named(settings, Role.CONTROLLER).message
    assert "User:bob" in named(settings).remedy


def test_a_user_name_with_blanks_or_quotes_is_quoted_for_the_shell() -> None:
    security = Security(sasl=Sasl("PLAIN", "al ice's", "secret"))
    remedy = named(ClusterSettings(bootstrap_servers=BROKERS, brokers=security)).remedy
    assert """--allow-principal 'User:al ice'"'"'s' --operation""" in remedy


def test_a_failure_that_is_no_missing_right_is_unchanged() -> None:
    silent = Failure(FailureKind.UNREACHABLE, "h:1", "this user does not answer", "start it")
    assert Requester(ClusterSettings()).named(silent, Role.BROKER) is silent


def readings(controllers: Failure, *, brokers: Failure | None = None) -> Readings:
    return Readings(probe(asked(1, brokers), asked(3001, controllers)), controllers)


def test_credentials_refused_only_by_controllers_lead_to_the_remedy_of_own_listener_settings() -> None:
    requester = Requester(ClusterSettings(bootstrap_servers=BROKERS, brokers=SCRAM, controllers=SCRAM))
    for kind in (FailureKind.AUTHENTICATION, FailureKind.TLS, FailureKind.NOT_KAFKA, FailureKind.DISCONNECTED):
        found = requester.of_readings(readings(Failure(kind, "h:3001", "refused", "check the credentials")))
        assert isinstance(found.log, Failure)
        assert "--controller-config" in found.log.remedy
        assert "spec.cluster.controllerListener" in found.probe.nodes[1].answer.remedy  # type: ignore[union-attr]


def test_credentials_refused_by_brokers_too_or_configured_for_controllers_keep_their_remedy() -> None:
    refused = Failure(FailureKind.AUTHENTICATION, "h:3001", "refused", "check the credentials")
    same = Requester(ClusterSettings(bootstrap_servers=BROKERS, brokers=SCRAM, controllers=SCRAM))
    apart = Requester(ClusterSettings(bootstrap_servers=BROKERS, brokers=SCRAM))
    assert same.of_readings(readings(refused, brokers=refused)).log == refused
    assert apart.of_readings(readings(refused)).log == refused


def test_disconnects_of_controllers_without_a_quorum_do_not_blame_their_listener() -> None:
    gone = Failure(FailureKind.DISCONNECTED, "h:3001", "the connection ended", "see its log")
    without = Readings(probe(asked(1), asked(3001, gone), quorum=gone), gone)
    assert Requester(ClusterSettings(bootstrap_servers=BROKERS)).of_readings(without).log == gone


def test_a_controller_that_does_not_listen_does_not_blame_its_listener_settings() -> None:
    silent = Failure(FailureKind.NOT_LISTENING, "h:3001", "connection refused", "start it")
    same = Requester(ClusterSettings(bootstrap_servers=BROKERS))
    assert same.of_readings(readings(silent)).log == silent
