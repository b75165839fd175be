"""Passwords without TLS: the code does what the pages and the CRD say about them."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from kafkafeatures.api.references import LoginSecretRef
from kafkafeatures.api.spec import ClusterSpec, ListenerSpec, ZooKeeperSpec
from kafkafeatures.cli.cluster.zookeeper_config import PASSWORD, USER, read_access
from kafkafeatures.reconcile.credentials import ensemble_of

ROOT = Path(__file__).parents[2]
LOGIN = LoginSecretRef(name="login")
PAGES = (
    "SECURITY.md",
    "docs/explanation/what-it-never-does.md",
    "docs/how-to/connect.md",
    "crds/kafkafeatures.yaml",
)

EXCEPTION = re.compile(
    r"(digest.{0,150}without `?tls|without tls.{0,90}digest).{0,150}\bsent in plain text", re.IGNORECASE
)


def test_a_digest_for_zookeeper_is_allowed_without_tls() -> None:
    tls, digest = read_access({USER: "kafka", PASSWORD: "its-secret"}, "f")
    assert tls is None
    assert digest is not None
    cluster = ClusterSpec(
        bootstrap_servers="kafka:9092", zookeeper=ZooKeeperSpec(connect="zk:2181", digest_secret_ref=LOGIN)
    )
    ensemble = ensemble_of(cluster, lambda *_: "its-secret")
    assert ensemble is not None
    assert ensemble.tls is None
    assert ensemble.digest is not None


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_a_password_or_a_token_of_a_kafka_user_is_refused_without_tls(mechanism: str) -> None:
    sasl = {"mechanism": mechanism, "secret_ref": {"name": "login"}}
    with pytest.raises(msgspec.ValidationError, match="without TLS sends the secret in clear text"):
        msgspec.convert({"sasl": sasl}, ListenerSpec)


@pytest.mark.parametrize("page", PAGES)
def test_each_page_about_passwords_names_the_exception_for_zookeeper(page: str) -> None:
    assert EXCEPTION.search(re.sub(r"\s+", " ", (ROOT / page).read_text()))
