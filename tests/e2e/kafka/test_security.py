"""Every way to authenticate, on real nodes and through the command line; and rights that are missing."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ResourcePattern, ResourceType

from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kafka.base.errors import Disconnected
from kafkafeatures.kafka.base.settings import Address, OAuthClient, Sasl, Security, parse_addresses
from kafkafeatures.kafka.wire.codec import decode_response, encode_request
from kafkafeatures.kafka.wire.connection import connect
from kafkafeatures.kafka.wire.messages import ApiVersionsRequest, DescribeClusterRequest, R, Request
from kafkafeatures.kafka.wire.pem import Tls
from kafkafeatures.kafka.wire.topic_messages import MetadataRequest
from kafkasim.answers.topics import TOPIC_OPERATIONS, cluster_operations
from tests.e2e.kafka.cli import SELDOM, describe, levels, node, run, write_document
from tests.e2e.rig.asking import asked
from tests.e2e.rig.certificates import Certificates
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.held import admin, drop_rights, finalized, hold_rights, hold_topic
from tests.e2e.rig.listeners import USERS
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST
from tests.e2e.rig.tokens import CLIENT_ID, CLIENT_SECRET, TokenServer
from tests.kafkasim.clusters import world

SASL_AUTHENTICATE = 36


def flags(cluster: Cluster, user: str = "alice") -> tuple[str, ...]:
    """`--config` and `--controller-config`, with files that Kafka's own tools use as well."""
    of_brokers = cluster.client_config(user)
    of_controllers = cluster.client_config(user, kind=cluster.controller_kind)
    return "--config", str(of_brokers), "--controller-config", str(of_controllers)


def assert_no_secret_in(text: str) -> None:
    for secret in (*USERS.values(), CLIENT_SECRET, "PRIVATE KEY", "eyJ"):
        assert secret not in text


def test_describe_shows_the_whole_cluster_with_the_properties_file_of_kafkas_tools(secured: Cluster) -> None:
    features = secured.features()
    for servers, controllers in ((True, True), (True, False), (False, True)):
        document = describe(secured, *flags(secured), servers=servers, controllers=controllers)
        assert document["notRead"] == []
        assert document["source"]["kind"] == "MetadataLog"
        assert {one["id"]: one["state"] for one in document["nodes"] if controllers or one["id"] == 1} == (
            {1: "Live", 3001: "Live"} if controllers else {1: "Live"}
        )
        assert set(features) == set(levels(document))


def secrets(folder: Path, cluster: Cluster, user: str = "alice", password: str | None = None) -> Path:
    """Write the Secrets as the files that Kubernetes would mount."""
    certificate, key = cluster.certificates.client(user)
    files = {
        "ca/ca.crt": cluster.certificates.ca,
        "login/username": user,
        "login/password": password or USERS[user],
        "mtls/tls.crt": certificate,
        "mtls/tls.key": key,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def listener(kind: str) -> dict[str, Any]:
    """The fields `tls` and `sasl` of a document."""
    if kind == "PLAINTEXT":
        return {}
    tls: dict[str, Any] = {"caSecretRef": {"name": "ca"}}
    if kind == "SSL":
        return {"tls": {**tls, "clientSecretRef": {"name": "mtls"}}}
    return {"tls": tls, "sasl": {"mechanism": kind, "secretRef": {"name": "login"}}}


def document_for(path: Path, cluster: Cluster, wanted: dict[str, int | str]) -> Path:
    return write_document(
        path,
        wanted,
        bootstrapServers=cluster.bootstrap_servers,
        bootstrapControllers=cluster.bootstrap_controllers,
        controllerListener=listener(cluster.controller_kind),
        **listener(cluster.kind),
    )


def test_apply_raises_a_level_with_secrets_from_a_folder(secured: Cluster, tmp_path: Path) -> None:
    path = document_for(tmp_path / "levels.yaml", secured, {"metadata.version": 21})
    done = run("apply", "-f", str(path), "--secrets-dir", str(secrets(tmp_path / "secrets", secured)))
    assert done.returncode == 0, done.stderr
    assert finalized(secured, "metadata.version") == 21
    assert_no_secret_in(done.stdout + done.stderr + path.with_suffix(".status.yaml").read_text())


# --- tokens ---


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, TokenServer]]:
    root, certificates = tmp_path_factory.mktemp("tokens"), Certificates()
    with (
        TokenServer(root, certificates) as issuer,
        Cluster(
            root / "kafka",
            NEWEST,
            controllers=1,
            brokers=1,
            kind="OAUTHBEARER",
            controller_kind="PLAIN",
            jwks=issuer.jwks,
            certificates=certificates,
        ) as cluster,
    ):
        yield cluster, issuer


def token_config(cluster: Cluster, issuer: TokenServer, folder: Path, secret: str = CLIENT_SECRET) -> tuple[str, ...]:
    path = folder / "client.properties"
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={cluster.root / 'ca.pem'}\n"
        f"sasl.oauthbearer.token.endpoint.url={issuer.url}\n"
        f'sasl.jaas.config={module} required clientId="{CLIENT_ID}" clientSecret="{secret}";\n'
    )
    return "--config", str(path), "--controller-config", str(cluster.client_config(kind="PLAIN"))


def test_a_token_is_fetched_over_tls_once_for_all_nodes(tokens: tuple[Cluster, TokenServer], tmp_path: Path) -> None:
    cluster, issuer = tokens
    before = issuer.issued
    document = describe(cluster, *token_config(cluster, issuer, tmp_path))
    assert {one["state"] for one in document["nodes"]} == {"Live"}
    assert issuer.issued == before + 1


def test_a_wrong_client_secret_is_reported_and_not_shown(tokens: tuple[Cluster, TokenServer], tmp_path: Path) -> None:
    cluster, issuer = tokens
    config = token_config(cluster, issuer, tmp_path, secret="wrong-5d1e")
    done = run("describe", "--bootstrap-server", cluster.bootstrap_servers, *config)
    assert done.returncode == 5
    assert done.stderr.count("\n") == 1
    assert f"the token endpoint {issuer.url.split('/')[2]} answers 401; check its address" in done.stderr
    assert "wrong-5d1e" not in done.stderr


def test_a_token_for_another_audience_is_refused_by_the_broker(
    tokens: tuple[Cluster, TokenServer], tmp_path: Path
) -> None:
    cluster, issuer = tokens
    token = issuer.token("alice", audience="another")
    (tmp_path / "token").write_text(token)
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        f"ssl.truststore.location={cluster.root / 'ca.pem'}\n"
        f"sasl.oauthbearer.token.endpoint.url={(tmp_path / 'token').as_uri()}\n"
    )
    done = run("describe", "--bootstrap-server", cluster.bootstrap_servers, "--config", str(config))
    assert done.returncode == 5
    assert done.stderr.count("\n") == 1
    assert "OAUTHBEARER" in done.stderr
    assert token not in done.stderr


class Authentications:
    """A recorder of requests that counts those of SASL exchanges."""

    def __init__(self) -> None:
        self.count = 0

    def sent(self, address: Address, frame: bytes) -> None:
        self.count += int.from_bytes(frame[4:6], "big") == SASL_AUTHENTICATE

    def received(self, address: Address, frame: bytes) -> None:
        """Not of interest."""


async def test_a_session_is_authenticated_again_before_its_token_expires(tokens: tuple[Cluster, TokenServer]) -> None:
    """KIP-368: the broker closes a connection when its token expires, unless the client has authenticated again."""
    cluster, issuer = tokens
    (address,) = parse_addresses(cluster.bootstrap_servers, "")
    trust = Tls(ca=cluster.certificates.ca)
    oauth = OAuthClient(issuer.url, CLIENT_ID, CLIENT_SECRET, scope="short", tls=trust)
    security = Security(trust, Sasl("OAUTHBEARER", oauth=oauth))
    authentications = Authentications()
    issuer.lifetime, before = 3.0, issuer.issued
    try:
        renewing = await connect(
            address, security, timeout=10, client_id="t", recorder=authentications, environment=SYSTEM
        )
        sleeping = await connect(
            address, security, timeout=10, client_id="t", environment=Environment(monotonic=lambda: 0.0)
        )
        async with renewing, sleeping, asyncio.timeout(30):
            while not sleeping.closed:  # without a renewal the broker closes the connection
                await renewing.request(ApiVersionsRequest())
                with contextlib.suppress(Disconnected):
                    await sleeping.request(ApiVersionsRequest())
            while authentications.count < 4:
                await renewing.request(ApiVersionsRequest())
    finally:
        issuer.lifetime = 300.0
    assert issuer.issued - before >= 3


# --- rights ---


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("guarded")
    with Cluster(root, NEWEST, brokers=2, kind="SCRAM-SHA-512", authorizer=True, release_version="4.0") as running:
        yield running


@pytest.fixture
def rights(guarded: Cluster) -> Iterator[Callable[..., None]]:
    """Function that grants alice operations on the cluster. They are revoked after the test."""

    def grant(*operations: str) -> None:
        hold_rights(guarded, "alice", *operations)

    yield grant
    drop_rights(guarded)


EVERY_TOPIC = ResourcePattern(ResourceType.TOPIC, "*")
LINE = "--allow-principal User:alice --operation {} --cluster"


def not_read(document: dict[str, Any]) -> dict[str, str]:
    return {gap["what"]: gap["remedy"] for gap in document["notRead"]}


def test_describe_shows_live_nodes_and_names_the_missing_rights_of_a_user_without_any(guarded: Cluster) -> None:
    document = describe(guarded, *flags(guarded), controllers=True)
    assert document["source"]["kind"] == "ApiRequests"
    assert {one["id"]: one["features"]["metadata.version"]["max"] for one in document["nodes"]} == {1: 33, 2: 33}
    for controller in guarded.controllers:  # they answer, but only a list of controllers would have their ids
        reason = next(gap["why"] for gap in document["notRead"] if gap["what"] == f"127.0.0.1:{controller.port}")
        assert reason == "a controller that supports metadata.version 7-33, but its node id is not known"
    assert not_read(document)["metadata log"].endswith(LINE.format("ClusterAction"))
    assert any(remedy.endswith(LINE.format("Alter")) for remedy in not_read(document).values())
    words = "--bootstrap-server", guarded.bootstrap_servers, *flags(guarded)
    checked, unknown = run("check", *words), run("unregister", "--broker", "9", "--yes", *words)
    assert " ".join(checked.stdout.split()).count("DescribeQuorum needs DESCRIBE") == 1
    assert (checked.returncode, unknown.returncode, "9 is registered is unknown" in unknown.stderr) == (5, 5, True)


def test_describe_shows_stopped_nodes_where_the_log_may_not_be_read(
    guarded: Cluster, rights: Callable[..., None]
) -> None:
    rights("DESCRIBE")
    standby = next(n for n in guarded.controllers if n.id != guarded.leader())
    guarded.nodes[2].stop()
    standby.kill()
    try:
        document = describe(guarded, *flags(guarded))
        assert document["source"]["kind"] == "ApiRequests"
        assert node(document, standby.id)["state"] == "Unreachable"
        wait_until(
            "broker 2 is a ghost", lambda: node(describe(guarded, *flags(guarded)), 2)["state"] == "Ghost", step=SELDOM
        )
        document = describe(guarded, *flags(guarded))
        # Only the log has registered ranges. So for each such node it is reported that they are unknown.
        for gone in (2, standby.id):
            assert node(document, gone)["features"] == {}
            assert node(document, gone)["why"]
        assert not_read(document)["metadata log"].endswith(LINE.format("ClusterAction"))
    finally:
        guarded.nodes[2].start()
        standby.start()


def test_without_the_right_alter_apply_names_it_and_describe_works(
    guarded: Cluster, rights: Callable[..., None], tmp_path: Path
) -> None:
    rights("DESCRIBE", "CLUSTER_ACTION")
    before = levels(describe(guarded, *flags(guarded), controllers=True))["metadata.version"]
    path = document_for(tmp_path / "levels.yaml", guarded, {"metadata.version": 26})
    words = "apply", "-f", str(path), "--secrets-dir", str(secrets(tmp_path / "secrets", guarded)), "-o", "json"
    planned, checked = run("plan", *words[1:]), run("check", "--release", "4.4", *words[1:])
    assert (planned.returncode, checked.returncode, LINE.format("DescribeConfigs") in checked.stdout) == (0, 5, True)
    plan = json.loads(planned.stdout)
    assert (plan["verdict"], plan["serverVerdict"]["state"]) == ("Changes", "Unavailable")
    assert "ALTER" in plan["serverVerdict"]["message"]
    refused = run(*words)
    assert (refused.returncode, "timed out" in refused.stderr) == (5, False)
    for text in ("UpdateFeatures needs ALTER on the cluster", LINE.format("Alter"), "nothing was changed"):
        assert text in refused.stderr
    assert "session=" not in refused.stderr  # the message of the controller has its request object
    reasons = {one["type"]: one.get("reason") for one in json.loads(refused.stdout)["status"]["conditions"]}
    assert reasons["Stalled"] == "NotAuthorized"
    assert levels(describe(guarded, *flags(guarded), controllers=True))["metadata.version"] == before
    rights("ALTER")
    granted = run(*words)
    assert granted.returncode == 0, granted.stderr
    assert_no_secret_in(granted.stdout + granted.stderr)


def checked_rights(cluster: Cluster, *words: str, controllers: bool = False) -> tuple[int, dict[str, Any]]:
    """The exit code and the document of `check --rights`."""
    of_controllers = ("--bootstrap-controller", cluster.bootstrap_controllers) if controllers else ()
    servers = "--bootstrap-server", cluster.bootstrap_servers, *of_controllers
    done = run("check", "--rights", *servers, *flags(cluster), *words, "-o", "json")
    assert done.stderr == ""
    assert_no_secret_in(done.stdout)
    document: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, document


def states(document: dict[str, Any], on: str = "the cluster") -> dict[str, str]:
    return {right["right"]: right["state"] for right in document["rights"] if right["on"] == on}


def test_one_command_grants_all_rights_that_a_user_without_any_misses(guarded: Cluster) -> None:
    code, document = checked_rights(guarded, controllers=True)
    assert (code, document["verdict"]) == (5, "Missing")
    assert states(document) == dict.fromkeys(("DESCRIBE", "CLUSTER_ACTION", "ALTER", "DESCRIBE_CONFIGS"), "Missing")
    (line,) = document["commands"]
    every = "Describe --operation ClusterAction --operation Alter --operation DescribeConfigs"
    assert line.endswith(LINE.format(every))
    code, document = checked_rights(guarded)  # brokers do not name the controllers to this user
    assert code == 5
    assert states(document)["CLUSTER_ACTION"] == "Unknown"
    assert states(document)["ALTER"] == "Missing"  # a broker forwards the request to the active controller
    assert document["commands"] == [line]


def test_exactly_the_rights_that_were_granted_are_reported_as_granted(
    guarded: Cluster, rights: Callable[..., None]
) -> None:
    granted: dict[str, str] = {}
    for right in ("DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS"):
        rights(right)
        granted[right] = "Granted"
        code, document = checked_rights(guarded, "--driver", "Manual")
        everything = ("DESCRIBE", "CLUSTER_ACTION", "ALTER", "DESCRIBE_CONFIGS")
        assert states(document) == {**dict.fromkeys(everything, "Missing"), **granted}
        assert code == 5
    assert document["commands"][0].endswith(LINE.format("Alter"))
    assert document["authorizer"].endswith("StandardAuthorizer")
    rights("ALTER")
    code, document = checked_rights(guarded, "--driver", "Manual")
    assert (code, document["verdict"], document["commands"]) == (0, "Granted", [])
    assert set(states(document, "every topic").values()) == {"NotNeeded"}  # the log has the partitions


def test_a_topic_that_is_hidden_from_the_user_is_detected_by_the_disks_of_brokers(
    guarded: Cluster, rights: Callable[..., None]
) -> None:
    hold_topic(guarded, "hidden", {0: [1, 2]})
    rights("DESCRIBE", "CLUSTER_ACTION", "ALTER")
    code, document = checked_rights(guarded, "--mode", "unregister")
    assert code == 5
    assert states(document, "every topic") == {"DESCRIBE": "Missing"}
    assert document["commands"][0].endswith("--allow-principal User:alice --operation Describe --topic '*'")
    hold_rights(guarded, "alice", "DESCRIBE", resource=EVERY_TOPIC)
    code, document = checked_rights(guarded, "--mode", "unregister")
    assert code == 0, document


def test_every_right_is_granted_on_a_cluster_without_an_authorizer(secured: Cluster) -> None:
    code, document = checked_rights(secured, "--driver", "Manual", controllers=True)
    assert code == 0
    assert document["authorizer"] == "none: every user may do everything"
    assert set(states(document).values()) == {"Granted"}


def test_the_simulator_permits_the_operations_that_kafka_permits_without_an_authorizer(secured: Cluster) -> None:
    hold_topic(secured, "orders", {0: [1]})
    port = secured.brokers[0].ports[secured.internal]

    def answer(request: Request[R], version: int) -> R:
        reply = asked(port, encode_request(request, version=version, correlation_id=7, client_id=None))
        decoded: R = decode_response(request.api_key, version, reply)[1]
        return decoded

    def of_topics() -> set[int | None]:
        return {topic.operations for topic in answer(MetadataRequest(True, True), 12).topics}

    assert answer(DescribeClusterRequest(authorized_operations=True), 1).operations == cluster_operations(world())
    wait_until("the broker knows the topic", of_topics)
    assert of_topics() == {TOPIC_OPERATIONS}
    with admin(secured) as client:
        client.delete_topics(["orders"])
