"""Fields of a document about client evidence: no secret is sent without TLS, and no pattern takes long to match."""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.api.document import InvalidDocument, read_document
from tests.kafkafeatures.api.test_document import FULL

EVIDENCE: dict[str, Any] = FULL["spec"]["clientEvidence"]
"""Valid evidence: an https URL of Prometheus with tls, tokenSecretRef, brokerLabel and brokerPattern; a ConfigMap; and
the target 4.1.
"""


@pytest.mark.parametrize(
    ("of_prometheus", "problem"),
    [
        ({"url": "http://prometheus:9090", "tls": None}, "the secret would be sent unencrypted; use a URL that starts"),
        ({"url": "http://prometheus:9090", "tokenSecretRef": None}, "tls needs a URL that starts with https://"),
        ({"basicAuthSecretRef": {"name": "b"}}, "set tokenSecretRef or basicAuthSecretRef, not both"),
        ({"brokerLabel": ""}, "brokerPattern needs brokerLabel"),
        ({"url": "https://user:secret@prometheus:9090"}, "expected a URL such as https://prometheus.monitoring:9090"),
        ({"url": "https://prometheus:9090/?token=secret"}, "expected a URL such as https://prometheus.monitoring:9090"),
        ({"url": "ftp://prometheus"}, "expected a URL such as https://prometheus.monitoring:9090"),
        ({"brokerPattern": "(a+)+"}, "expected plain text around ([0-9]+)"),
        ({"brokerPattern": "(.*)*([0-9]+)"}, "expected plain text around ([0-9]+)"),
    ],
    ids=[
        "token without TLS", "tls without https", "two secrets", "pattern without a label", "password in the URL",
        "token in the URL", "no http", "nested repetition", "repetition before the id",
    ],
)  # fmt: skip
def test_an_insecure_prometheus_url_and_a_slow_or_useless_pattern_are_refused(
    of_prometheus: dict[str, Any], problem: str
) -> None:
    evidence = {**EVIDENCE, "prometheus": {**EVIDENCE["prometheus"], **of_prometheus}}
    with pytest.raises(InvalidDocument) as refused:
        read_document({**FULL, "spec": {**FULL["spec"], "clientEvidence": evidence}})
    assert problem in str(refused.value)
    assert "secret@" not in str(refused.value)
    assert "token=" not in str(refused.value)


@pytest.mark.parametrize(
    ("sources", "is_valid"),
    [
        ({"prometheus": None, "configMapRef": None}, False),
        ({"prometheus": None}, True),
        ({"configMapRef": None}, True),
        ({}, True),
    ],
    ids=["neither", "ConfigMap", "Prometheus", "both"],
)
def test_evidence_about_clients_needs_a_prometheus_or_a_config_map(sources: dict[str, Any], is_valid: bool) -> None:
    document = {**FULL, "spec": {**FULL["spec"], "clientEvidence": {**EVIDENCE, **sources}}}
    if is_valid:
        assert read_document(document).spec.client_evidence is not None
    else:
        with pytest.raises(InvalidDocument, match="clientEvidence: set prometheus, configMapRef, or both"):
            read_document(document)


def test_evidence_about_clients_needs_a_release_which_may_be_that_of_the_levels() -> None:
    evidence = {name: value for name, value in EVIDENCE.items() if name != "target"}
    of_levels = read_document({**FULL, "spec": {**FULL["spec"], "clientEvidence": evidence}})
    assert of_levels.spec.clients_target == "4.1"
    features = {"levels": FULL["spec"]["features"]["levels"]}
    with pytest.raises(InvalidDocument, match="set its target, or features"):
        read_document({**FULL, "spec": {**FULL["spec"], "features": features, "clientEvidence": evidence}})


@pytest.mark.parametrize(
    ("consent", "is_valid"),
    [
        ("client-breaks:Produce:2", True),
        ("client-breaks:Produce", False),
        ("client-breaks:Produce:2:3", False),
        ("client-breaks:produce:2", False),
        ("client-breaks:*:2", False),
    ],
)
def test_a_consent_to_break_clients_names_one_version_of_one_api(consent: str, is_valid: bool) -> None:
    document = {**FULL, "spec": {**FULL["spec"], "consents": [consent]}}
    if is_valid:
        assert read_document(document).spec.consents == (consent,)
    else:
        with pytest.raises(InvalidDocument, match="consents"):
            read_document(document)
