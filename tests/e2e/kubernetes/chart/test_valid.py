"""Rendered objects have only fields that Kubernetes knows, in the oldest release that the chart supports and in the
newest one.

A real API server, of a release between the two, takes the same objects in the tests beside this one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

import pytest
import yaml

from tests.contract.test_chart import VALUES, leaves
from tests.e2e.kubernetes.chart.every_value import RENDERINGS
from tests.e2e.kubernetes.chart.rendering import CHART, NAME, NS, ROOT, Values, helm
from tests.e2e.kubernetes.chart.test_pipeline import SPARK_OPERATOR
from tests.e2e.rig.kubernetes.binaries import module
from tests.e2e.rig.kubernetes.schemas import Schemas

OLDEST, NEWEST = "1.29.6", "1.37.2"
PROMETHEUS_OPERATOR = "0.85.0"
_NO_POLICY: Values = {"enabled": False}
OVERRIDES: Mapping[str, Values] = {OLDEST: {"approvalPolicy": _NO_POLICY, "podPatchPolicy": _NO_POLICY}, NEWEST: {}}
"""Values that leave out what a release lacks: the oldest has no ValidatingAdmissionPolicy, and the chart refuses it
there (`test_approval.py`).
"""


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Schemas:
    """Schemas of both releases, and of the kinds that the chart can make for us and for two other operators."""
    made = Schemas(tmp_path_factory.mktemp("schemas"), (OLDEST, NEWEST))
    prometheus = module("github.com/prometheus-operator/prometheus-operator", PROMETHEUS_OPERATOR)
    spark = module("github.com/kubeflow/spark-operator/v2", SPARK_OPERATOR)
    made.add_crds(
        ROOT / "crds" / "kafkafeatures.yaml",
        prometheus / "example" / "prometheus-operator-crd" / "monitoring.coreos.com_servicemonitors.yaml",
        prometheus / "example" / "prometheus-operator-crd" / "monitoring.coreos.com_prometheusrules.yaml",
        spark / "config" / "crd" / "bases" / "sparkoperator.k8s.io_scheduledsparkapplications.yaml",
    )
    return made


@cache
def rendered(rendering: str, kubernetes: str) -> str:
    return helm_output(kubernetes, "template", NAME, str(CHART), "-n", NS, rendering=rendering)


def helm_output(kubernetes: str, *arguments: str, rendering: str) -> str:
    """The output of a helm command that must succeed."""
    values = {**RENDERINGS[rendering], **OVERRIDES[kubernetes]}
    done = helm(*arguments, "--kube-version", kubernetes, values=values)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def at(values: Values, path: str) -> Any:
    """The value at a path with dots; None where none is given."""
    found: Any = values
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def test_some_rendering_sets_each_value_to_another_than_its_default() -> None:
    missing = [
        path
        for path in leaves(VALUES)
        if all(at(values, path) in (None, at(VALUES, path)) for values in RENDERINGS.values())
    ]
    assert missing == []


def test_the_checked_versions_begin_at_that_of_the_chart_and_end_at_that_of_the_client() -> None:
    oldest, newest = (one.rpartition(".")[0] for one in (OLDEST, NEWEST))
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"] == f">={oldest}-0"
    assert newest == f"1.{version('kubernetes').partition('.')[0]}"
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    assert f"against the APIs of Kubernetes {oldest} and {newest}" in page


@pytest.mark.parametrize("kubernetes", OVERRIDES)
@pytest.mark.parametrize("rendering", RENDERINGS)
def test_helm_lint_has_no_findings_and_each_object_has_the_fields_of_its_kind(
    schemas: Schemas, rendering: str, kubernetes: str
) -> None:
    helm_output(kubernetes, "lint", "--strict", str(CHART), rendering=rendering)
    manifests = rendered(rendering, kubernetes)
    done = schemas.check(manifests, kubernetes)
    assert done.returncode == 0, done.stdout + done.stderr
    number = len([one for one in yaml.load_all(manifests, yaml.CSafeLoader) if one])
    assert f"Valid: {number}, Invalid: 0, Errors: 0, Skipped: 0" in done.stdout


FIELD, FOUND = ("serviceAccountName:", "serviceAcountName:"), "additional properties 'serviceAcountName' not allowed"


@pytest.mark.parametrize(
    ("kubernetes", "rendering", "replacement", "message"),
    [
        (OLDEST, "no value", FIELD, FOUND),
        (NEWEST, "no value", FIELD, FOUND),
        (OLDEST, "no value", ("containerPort: 8080", "containerPort: http"), "got string, want integer"),
        (OLDEST, "no value", ("replicas: 1", "replicas: 1\n  replicas: 2"), 'key "replicas" already set'),
        (OLDEST, "no value", ("apiVersion: apps/v1", "apiVersion: apps/v2"), "could not find schema for Deployment"),
        (OLDEST, "every value", ("honorLabels:", "honourLabels:"), "'honourLabels' not allowed"),
        (OLDEST, "every value", ("bootstrapServers:", "bootstrapServer:"), "'bootstrapServer' not allowed"),
        (OLDEST, "what those exclude", ("memoryOverhead:", "memoryOverheads:"), "'memoryOverheads' not allowed"),
    ],
    ids=str,
)
def test_a_wrong_field_or_value_of_an_object_is_reported(
    schemas: Schemas, kubernetes: str, rendering: str, replacement: tuple[str, str], message: str
) -> None:
    manifests = rendered(rendering, kubernetes)
    assert replacement[0] in manifests
    done = schemas.check(manifests.replace(*replacement), kubernetes)
    assert done.returncode == 1
    assert message in done.stdout + done.stderr


def test_a_kind_that_the_oldest_kubernetes_does_not_have_is_reported(schemas: Schemas) -> None:
    manifests = rendered("every value", NEWEST)
    assert schemas.check(manifests, NEWEST).returncode == 0
    done = schemas.check(manifests, OLDEST)
    missing = re.findall(r"could not find schema for (\w+)", done.stdout)
    assert sorted(set(missing)) == ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]
