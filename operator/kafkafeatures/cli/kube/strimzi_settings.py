"""Settings of a cluster that Strimzi manages, from its `Kafka` and the Secret of a KafkaUser, with the rights of this
user.

Called by `cli/kube/strimzi.py` for `--strimzi`, and by `cli/cluster/document_settings.py` for a document with
`cluster.strimzi`. Unlike the operator, it needs no label at the Secret.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from kafkafeatures.api.spec import ClusterSpec, KafkaFeatures, StrimziSpec
from kafkafeatures.cli.kube.api import Denied, Kube, connected
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.kube.errors import Forbidden, Gone
from kafkafeatures.kube.secrets import certificates_in, secret_texts
from kafkafeatures.reconcile.credentials import CredentialsInvalid, Reference, material_of, references, settings_of
from kafkafeatures.reconcile.strimzi import StrimziClusters, with_known_fields, with_remedies

_KAFKAS = ("kafkas", "kafka.strimzi.io")
SECRETS = ("secrets", "")
_LISTS = {
    "kafkanodepools": (("kafkanodepools", "kafka.strimzi.io"), "kafka.strimzi.io/v1"),
    "pods": (("pods", ""), "v1"),
    "strimzipodsets": (("strimzipodsets", "core.strimzi.io"), "core.strimzi.io/v1"),
}


class ClusterRequests:
    """The requests of `StrimziClusters` and `StrimziPods`, sent with this user's rights."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    @property
    def answered_at(self) -> datetime:
        return self._kube.answered_at

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
            secret = self._kube.object_of(SECRETS, "v1", name)
        except Denied:
            return None  # the status of the `Kafka` has them too
        return certificates_in(secret, owner)


def settings_of_document(arguments: argparse.Namespace, resource: KafkaFeatures, spec: StrimziSpec) -> ClusterSettings:
    """The settings of a cluster that a document names by `strimzi` (`spec`). Flags for the API server count where the
    command has them; the namespace is that of a flag, of the document, or of the context, as with kubectl. The source
    of the connection that is shown before a change says which Kubernetes has this `Kafka`. Raises CommandFailed.
    """
    defaults: dict[str, Any] = {"context": "", "kubeconfig": None, "as_user": "", "as_groups": [], "namespace": None}
    flags = argparse.Namespace(**{**defaults, **vars(arguments)})
    flags.namespace = flags.namespace or resource.own_namespace or None
    with connected(flags) as kube:
        place = f"the Kafka {spec.name} in the namespace {kube.namespace} at {kube.server}"
        arguments.connection_source = f"{place}, by {arguments.file[0]}"
        return settings_of_strimzi(resource.spec.cluster, spec, kube)


def settings_of_strimzi(cluster: ClusterSpec, spec: StrimziSpec, kube: Kube) -> ClusterSettings:
    """The settings of a cluster. `spec`: its `strimzi`. Raises CommandFailed."""
    with named():

        async def read_secret(reference: Reference) -> Mapping[str, str] | None:
            secret = kube.object_of(SECRETS, "v1", reference.name)
            if secret is None and reference.name == spec.user:  # here it needs no label
                text = f"the Secret of the KafkaUser {spec.user} does not exist in the namespace {kube.namespace}"
                flags = f"--strimzi {spec.name} --strimzi-user {spec.user} -n {kube.namespace}"
                raise CredentialsInvalid(f"{text}; to print a KafkaUser: kafkafeatures init {flags}")
            return None if secret is None else secret_texts(secret)

        clusters = StrimziClusters(ClusterRequests(kube))
        key = ResourceKey(kube.namespace, spec.name)
        located = asyncio.run(clusters.located(key, cluster, spec, read_secret))
        others = (each for each in references(located.cluster) if each not in located.material)
        material = {**located.material, **{each: asyncio.run(read_secret(each)) for each in others}}
        try:
            return with_remedies(settings_of(located.cluster, material_of(material)))
        except CredentialsInvalid as error:
            raise with_known_fields(error, located.name) from None


@contextmanager
def named() -> Iterator[None]:
    """Context in which what is missing in Kubernetes becomes the error of the command."""
    try:
        yield
    except CredentialsInvalid as error:
        raise CommandFailed(str(error), Exit.UNREACHABLE) from None
