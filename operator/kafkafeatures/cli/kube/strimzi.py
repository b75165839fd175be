"""A cluster that Strimzi manages, from a shell: found by its `Kafka` and the Secret of a KafkaUser, with the rights of
the kubeconfig's user.

Called by `describe` and `init` for `--strimzi`. Unlike the operator, it needs no label at the Secret.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, cast

from kafkafeatures.api.names import API_VERSION, CREDENTIALS, KIND
from kafkafeatures.api.spec import ClusterSpec, KafkaFeatures, StrimziSpec
from kafkafeatures.api.values import replace
from kafkafeatures.cli.cluster.connect import look, on_cluster
from kafkafeatures.cli.cluster.connection_sources import connection_flags_of
from kafkafeatures.cli.kube.api import Denied, Kube, connected
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.facts.inferred import with_inferred_releases
from kafkafeatures.core.facts.observation import Known, Observation, SourceKind
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.releases import bundle
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkafeatures.core.roll.drivers import STRIMZI
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.kube.api import ResourceKey, WorkloadsApi
from kafkafeatures.kube.errors import Forbidden, Gone
from kafkafeatures.kube.workloads.strimzi import StrimziPods
from kafkafeatures.reconcile.credentials import CredentialsInvalid, Reference, material_of, references, settings_of
from kafkafeatures.reconcile.strimzi import (
    SCRAM,
    TLS,
    Kafka,
    StrimziClusters,
    listener_of,
    login_of,
    with_known_fields,
    with_remedies,
)

_KAFKAS = ("kafkas", "kafka.strimzi.io")
_SECRETS = ("secrets", "")
_LISTS = {
    "kafkanodepools": (("kafkanodepools", "kafka.strimzi.io"), "kafka.strimzi.io/v1"),
    "pods": (("pods", ""), "v1"),
    "strimzipodsets": (("strimzipodsets", "core.strimzi.io"), "core.strimzi.io/v1"),
}
_INTERNAL = (
    "this listener is inside the Kubernetes cluster: run the command in the operator's pod (kubectl exec), or name "
    "a listener that is reached from here with --strimzi-listener"
)


class _Api:
    """The requests of `StrimziClusters` and `StrimziPods`, sent with this user's rights."""

    answered_at: datetime | None = None

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def listed(self, path: str, query: Mapping[str, str] | None = None) -> AsyncGenerator[dict[str, Any]]:
        _, _, plural = path.rpartition("/")
        if plural not in _LISTS:
            return  # a description does not say what Strimzi's Events say
        try:
            for item in self._kube.objects_of(*_LISTS[plural], (query or {}).get("labelSelector", "")):
                yield item
        except Denied as denied:
            raise Forbidden(str(denied)) from None

    async def get(self, path: str) -> dict[str, Any]:
        kafka = self._kube.object_of(_KAFKAS, "kafka.strimzi.io/v1", path.rpartition("/")[2])
        if kafka is None:
            raise Gone(path)
        return kafka

    async def certificates(self, namespace: str, name: str, owner: str) -> dict[str, str] | None:
        try:
            secret = self._kube.object_of(_SECRETS, "v1", name)
        except Denied:
            return None  # the status of the `Kafka` has them too
        owners = [] if secret is None else secret["metadata"].get("ownerReferences") or []
        if secret is None or owner not in [reference.get("uid") for reference in owners]:
            return None
        return {key: text for key, text in _texts(secret).items() if key.endswith(".crt")}


def observed(arguments: argparse.Namespace) -> Observation:
    """Read the cluster that `--strimzi` names, and its pods, for controllers that may not be asked. Raises
    CommandFailed.
    """
    spec = _spec_of(arguments)
    with connected(arguments) as kube:
        settings = settings_of_strimzi(ClusterSpec(strimzi=spec), spec, kube)
        settings = replace(settings, request_timeout=arguments.request_timeout)
        workloads = pods_of_strimzi(spec, kube)
    with _explained(settings):
        observation = on_cluster(look(settings))
    if isinstance(workloads, WorkloadsReading):
        fact = Known(workloads, SourceKind.KUBERNETES, "", workloads.at)
        return with_inferred_releases(replace(observation, workloads=fact))
    return observation


def pods_of_strimzi(spec: StrimziSpec, kube: Kube) -> WorkloadsReading | Failure:
    """The pods of the cluster. Failure where this user may not list them, among others."""
    rollout = Rollout(driver=STRIMZI.name, managed_by=spec.name)
    api = cast("WorkloadsApi", _Api(kube))  # a reading sends no change
    return asyncio.run(StrimziPods(api, kube.namespace, rollout, SYSTEM.clock).read())


def settings_of_document(arguments: argparse.Namespace, resource: KafkaFeatures, spec: StrimziSpec) -> ClusterSettings:
    """The settings of a cluster that a document names by `strimzi` (`spec`). Flags for the API server count where the
    command has them; the namespace is that of the document unless a flag names one. Raises CommandFailed.
    """
    defaults: dict[str, Any] = {"context": "", "kubeconfig": None, "as_user": "", "as_groups": [], "namespace": None}
    flags = argparse.Namespace(**{**defaults, **vars(arguments)})
    flags.namespace = flags.namespace or resource.metadata.namespace
    with connected(flags) as kube:
        return settings_of_strimzi(resource.spec.cluster, spec, kube)


def settings_of_strimzi(cluster: ClusterSpec, spec: StrimziSpec, kube: Kube) -> ClusterSettings:
    """The settings of a cluster. `spec`: its `strimzi`. Raises CommandFailed."""
    with _named():

        async def read_secret(reference: Reference) -> Mapping[str, str] | None:
            secret = kube.object_of(_SECRETS, "v1", reference.name)
            return None if secret is None else _texts(secret)

        clusters = StrimziClusters(_Api(kube))
        key = ResourceKey(kube.namespace, spec.name)
        located = asyncio.run(clusters.located(key, cluster, spec, read_secret))
        others = (each for each in references(located.cluster) if each not in located.material)
        material = {**located.material, **{each: asyncio.run(read_secret(each)) for each in others}}
        try:
            return with_remedies(settings_of(located.cluster, material_of(material)))
        except CredentialsInvalid as error:
            raise with_known_fields(error, located.name) from None


@contextmanager
def _explained(settings: ClusterSettings) -> Iterator[None]:
    """Context in which the cluster is read: an address inside of Kubernetes that is not reached is named as one."""
    try:
        yield
    except CommandFailed as failed:
        hosts = [address.host for address in settings.bootstrap_servers]
        is_internal = any(".svc." in f"{host}." for host in hosts)
        if failed.code is not Exit.UNREACHABLE or not is_internal:
            raise
        raise CommandFailed(f"{failed}; {_INTERNAL}", failed.code, remedy=_INTERNAL) from None


def documents_for(arguments: argparse.Namespace) -> Iterator[str]:
    """The documents that `init --strimzi` prints, as YAML: a KafkaUser where its Secret is missing, and a
    KafkaFeatures in mode Observe. Raises CommandFailed.
    """
    spec = _spec_of(arguments)
    with connected(arguments) as kube, _named():
        namespace = kube.namespace
        kafka = asyncio.run(StrimziClusters(_Api(kube)).kafka(namespace, spec.name))
        secret = kube.object_of(_SECRETS, "v1", spec.user)
        if secret is None:
            yield _user(kafka, spec, namespace)
        else:
            listener_of(kafka, spec, login_of(_texts(secret), spec.user))
            if (secret["metadata"].get("labels") or {}).get(CREDENTIALS) != "true":
                yield (
                    f"# The operator may not read the Secret {spec.user} yet: "
                    f"kubectl -n {namespace} label kafkauser {spec.user} {CREDENTIALS}=true\n"
                )
    yield _document(arguments.name or spec.name, kafka, spec, namespace)


def _document(name: str, kafka: Kafka, spec: StrimziSpec, namespace: str) -> str:
    more = "".join(
        f", {key}: {value}"
        for key, value, default in (("user", spec.user, StrimziSpec(name=name).user), ("listener", spec.listener, None))
        if value != default
    )
    release = ".".join((kafka.spec.kafka.version or "").split(".")[:2])
    features = f'{{releaseVersion: "{release}"}}' if bundle(release) is not None else "{}"
    return (
        f"apiVersion: {API_VERSION}\nkind: {KIND}\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n"
        f"  mode: Observe  # only reads; to raise the levels: Apply\n"
        f"  cluster: {{strimzi: {{name: {spec.name}{more}}}}}\n  features: {features}\n"
    )


def _user(kafka: Kafka, spec: StrimziSpec, namespace: str) -> str:
    """The KafkaUser for the first listener that fits; with ACLs only where the `Kafka` has simple authorization, as the
    User Operator refuses them elsewhere.
    """
    login = TLS
    try:
        listener_of(kafka, spec, TLS)
    except CredentialsInvalid:
        listener_of(kafka, spec, SCRAM)
        login = SCRAM
    authorization = kafka.spec.kafka.authorization
    acls = (
        "  authorization:\n    type: simple\n    acls:\n    - resource: {type: cluster}\n"
        "      operations: [Describe, DescribeConfigs, ClusterAction, Alter]\n"
    )
    return (
        f"apiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\nmetadata:\n  name: {spec.user}\n  namespace: {namespace}\n"
        f'  labels: {{strimzi.io/cluster: {spec.name}, {CREDENTIALS}: "true"}}  # the operator may read its Secret\n'
        f"spec:\n  authentication: {{type: {login}}}\n"
        f"{acls if authorization is not None and authorization.type == 'simple' else ''}---\n"
    )


def _spec_of(arguments: argparse.Namespace) -> StrimziSpec:
    if excluded := connection_flags_of(arguments):
        raise CommandFailed(f"--strimzi finds the cluster; give it without {excluded[0]}", Exit.USAGE)
    return StrimziSpec(name=arguments.strimzi, user=arguments.strimzi_user, listener=arguments.strimzi_listener or None)


@contextmanager
def _named() -> Iterator[None]:
    """Context in which what is missing in Kubernetes becomes the error of the command."""
    try:
        yield
    except CredentialsInvalid as error:
        raise CommandFailed(str(error), Exit.UNREACHABLE) from None


def _texts(secret: Mapping[str, Any]) -> dict[str, str]:
    data = secret.get("data") or {}
    return {key: base64.b64decode(text).decode("utf-8", "replace") for key, text in data.items()}
