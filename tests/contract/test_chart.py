"""The chart, as far as it can be read without helm. With helm: tests/e2e/kubernetes/chart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkafeatures import __version__
from kafkafeatures.core.roll.drivers import DRIVERS, Driver
from kafkafeatures.kube.workloads.adapters import adapter_of
from kafkafeatures.kube.workloads.rights import KubernetesRight
from tests.contract.test_crd import CRD, SCHEMA, misfits

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "charts" / "kafka-features-operator"
CHART = yaml.safe_load((FOLDER / "Chart.yaml").read_text())
VALUES = yaml.safe_load((FOLDER / "values.yaml").read_text())
VALUES_SCHEMA = json.loads((FOLDER / "values.schema.json").read_text())
TEMPLATES = {path.name: path.read_text() for path in (FOLDER / "templates").rglob("*.*")}


def test_the_chart_has_the_version_of_the_operator() -> None:
    assert CHART["appVersion"] == CHART["version"] == __version__
    images = yaml.safe_load(CHART["annotations"]["artifacthub.io/images"])
    repositories = (VALUES["image"]["repository"], VALUES["pipeline"]["image"]["repository"])
    assert [one["image"] for one in images] == [f"{one}:{__version__}" for one in repositories]


def test_the_spark_application_has_the_version_of_spark_of_the_image() -> None:
    (locked,) = re.findall(r"(?m)^pyspark==(\S+)", (ROOT / "requirements" / "pipeline.lock").read_text())
    assert re.findall(r'sparkVersion: "(.+?)"', TEMPLATES["pipeline.yaml"]) == [locked]


def test_the_annotations_of_the_chart_describe_the_crd_as_it_is() -> None:
    listed_crds = yaml.safe_load(CHART["annotations"]["artifacthub.io/crds"])
    assert [(one["kind"], one["name"], one["version"]) for one in listed_crds] == [
        (CRD["spec"]["names"]["kind"], CRD["metadata"]["name"], CRD["spec"]["versions"][0]["name"])
    ]
    for example in yaml.safe_load(CHART["annotations"]["artifacthub.io/crdsExamples"]):
        assert list(misfits(example["spec"], SCHEMA["spec"])) == []


def test_helm_finds_no_crd_to_install_once_and_never_upgrade() -> None:
    """Helm installs what is in the folder `crds` once, and never upgrades it. So the CRD is a template instead."""
    assert not (FOLDER / "crds").exists()


def test_the_templates_of_the_chart_have_its_name_in_their_names() -> None:
    """All charts of a release share the names of templates: if two define `labels`, that of the parent chart wins."""
    every = "".join(TEMPLATES.values())
    defined = re.findall(r'define "(.+?)"', every)
    assert len(defined) == len(set(defined))
    assert [one for one in defined if not one.startswith(f"{CHART['name']}.")] == []
    assert set(re.findall(r'(?:include|template) "(.+?)"', every)) == set(defined)


# --- values ---


def leaves(values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The paths of all values. A mapping that is empty, or whose keys the user chooses, counts as one value."""
    for name, value in values.items():
        here = f"{path}.{name}" if path else name
        if isinstance(value, dict) and value and name not in ("labels", "requests", "limits"):
            yield from leaves(value, here)
        else:
            yield here


def closed(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The paths of all values in the schema, also of those in objects whose fields it lists."""
    for name, inner in schema["properties"].items():
        here = f"{path}.{name}" if path else name
        if "properties" in inner:
            assert inner["additionalProperties"] is False, here
            yield from closed(inner, here)
        else:
            yield here


def test_the_schema_of_the_chart_has_exactly_its_values() -> None:
    assert VALUES_SCHEMA["additionalProperties"] is False
    assert set(closed(VALUES_SCHEMA)) - {"global"} == set(leaves(VALUES))  # `global` is Helm's own, for parent charts


def test_the_readme_of_the_chart_lists_exactly_its_values() -> None:
    listed = re.findall(r"^\| `([\w.]+)` \|", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(_listed())


def _listed() -> set[str]:
    return {re.sub(r"\bresources\..+", "resources", one) for one in leaves(VALUES)}


def test_every_value_is_used_and_every_value_that_is_used_exists() -> None:
    used = set(re.findall(r"\.Values\.([\w.]+)", "".join(TEMPLATES.values())))
    used |= {f"monitoring.{one}" for one in re.findall(r"\$monitoring\.([\w.]+)", TEMPLATES["monitoring.yaml"])}
    of_images = re.findall(r"\$image\.(\w+)", TEMPLATES["_helpers.tpl"])
    used |= {f"{image}.{one}" for image in ("image", "pipeline.image") for one in of_images}
    # These are no values of their own: three are mappings, and the user chooses what is in `pipeline.config`.
    not_listed = {"monitoring", "image", "pipeline.image", "pipeline.config.inputs", "pipeline.config.output"}
    assert used - not_listed == _listed()


def test_the_deployment_sets_every_variable_that_the_operator_reads() -> None:
    flags = ROOT / "operator" / "kafkafeatures" / "cli" / "kube"
    source = (flags / "run.py").read_text() + (flags / "notify_flags.py").read_text()
    read = set(re.findall(r'(?:environ\.get|_networks_in|_size_in|_namespaces_in|one_of)\("(\w+)"', source))
    given = set(re.findall(r"\{name: ([A-Z_]+),", TEMPLATES["deployment.yaml"]))
    assert given == read
    kept = VALUES_SCHEMA["properties"]["extraEnv"]["items"]["properties"]["name"]["not"]["enum"]
    assert given == set(kept)


# --- rights of drivers ---


@pytest.mark.parametrize("driver", [one for one in DRIVERS if one.reads_pods], ids=lambda one: one.name)
def test_the_chart_grants_exactly_the_rights_that_a_driver_requires(driver: Driver) -> None:
    name = driver.name[0].lower() + driver.name[1:]
    definition = rf'define "{CHART["name"]}\.{name}Rules" -}}}}\n(.*?){{{{- end'
    (granted,) = re.findall(definition, TEMPLATES["rbac.yaml"], re.DOTALL)
    rules = {
        KubernetesRight(group, resource, verb)
        for rule in yaml.safe_load(granted)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert rules == set(adapter_of(driver).RIGHTS)
    assert TEMPLATES["rbac.yaml"].count(f'include "{CHART["name"]}.{name}Rules"') == 1
