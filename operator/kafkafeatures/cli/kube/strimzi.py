"""A cluster that Strimzi manages, from a shell: found by its `Kafka` and the Secret of a KafkaUser, with the rights of
the kubeconfig's user.

Called by `describe` and `init` for `--strimzi`. Unlike the operator, it needs no label at the Secret.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from kafkafeatures.api.names import API_VERSION, CREDENTIALS, KIND
from kafkafeatures.api.spec import ClusterSpec, StrimziSpec
from kafkafeatures.api.values import replace
from kafkafeatures.cli.cluster.connect import look, on_cluster
from kafkafeatures.cli.cluster.connection_sources import connection_flags_of
from kafkafeatures.cli.kube.api import Kube, connected
from kafkafeatures.cli.kube.strimzi_settings import SECRETS, ClusterRequests, named, settings_of_strimzi
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
from kafkafeatures.kube.api import WorkloadsApi
from kafkafeatures.kube.secrets import secret_texts
from kafkafeatures.kube.workloads.strimzi import StrimziPods
from kafkafeatures.reconcile.credentials import CredentialsInvalid
from kafkafeatures.reconcile.strimzi import SCRAM, TLS, Kafka, StrimziClusters, listener_of, login_of

_INTERNAL = (
    "this listener is inside the Kubernetes cluster: run the command in the operator's pod (kubectl exec), or name "
    "a listener that is reached from here with --strimzi-listener"
)


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
    api = cast("WorkloadsApi", ClusterRequests(kube))  # a reading sends no change
    return asyncio.run(StrimziPods(api, kube.namespace, rollout, SYSTEM.clock).read())


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
    with connected(arguments) as kube, named():
        namespace = kube.namespace
        kafka = asyncio.run(StrimziClusters(ClusterRequests(kube)).kafka(namespace, spec.name))
        secret = kube.object_of(SECRETS, "v1", spec.user)
        if secret is None:
            yield _user(kafka, spec, namespace)
        else:
            listener_of(kafka, spec, login_of(secret_texts(secret), spec.user))
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
