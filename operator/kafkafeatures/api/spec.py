"""The resource as frozen types: what a user may write, and nothing that does nothing.

A field enters here together with the behaviour behind it. `api/document.py` turns a parsed YAML document into these
and words the errors for people. The schema is in `crds/`.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from kafkafeatures.api.names import KRAFT_VERSION, MAX_NAME, METADATA_VERSION, NAME

_KEY = r"^[-._a-zA-Z0-9]+$"
_FEATURE = r"^[a-z][a-z0-9._]*$"
_LEVEL_NAME = r"^[0-9]+\.[0-9]+(-IV[0-9]+)?$"
_CONSENT = r"^([a-z][a-z0-9._]*:[0-9]+->[0-9]+|dynamic-quorum)$"
_HASH = r"^sha256:[0-9a-f]{8,64}$"
PATTERNS = {
    NAME: "a name of a-z, 0-9, '-' and '.', with a letter or digit at both ends",
    _KEY: "a key of a-z, A-Z, 0-9, '-', '_' and '.'",
    _FEATURE: "the name of a feature, such as metadata.version",
    _LEVEL_NAME: 'a release such as "4.1", or a level of it such as "4.1-IV1"',
    _CONSENT: "a consent such as 'group.version:1->0', or dynamic-quorum",
    _HASH: "the hash of a plan, such as sha256:9f3c1b7a51c2",
}
"""What each pattern of a field means to people."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME, pattern=NAME)]
SecretKey = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=_KEY)]
Bootstrap = Annotated[str, StringConstraints(min_length=3, max_length=2048)]

_DURATION = re.compile(r"^([0-9]{1,9})(ms|s|m)$")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_NAMED_LEVEL = re.compile(_LEVEL_NAME)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=False)


class SecretKeyRef(_Frozen):
    """One key of a Secret (or of a ConfigMap) in the namespace of the resource."""

    name: Name
    key: SecretKey = "ca.crt"


class ClientSecretRef(_Frozen):
    """A client certificate with its key, both PEM."""

    name: Name
    cert_key: SecretKey = Field("tls.crt", alias="certKey")
    key_key: SecretKey = Field("tls.key", alias="keyKey")


class TlsSpec(_Frozen):
    """`{}` is TLS with the system's trust."""

    ca_secret_ref: SecretKeyRef | None = Field(None, alias="caSecretRef")
    ca_config_map_ref: SecretKeyRef | None = Field(None, alias="caConfigMapRef")
    client_secret_ref: ClientSecretRef | None = Field(None, alias="clientSecretRef")


class SaslSecretRef(_Frozen):
    """Where user name and password (or token) are."""

    name: Name
    username_key: SecretKey = Field("username", alias="usernameKey")
    password_key: SecretKey = Field("password", alias="passwordKey")


class SaslSpec(_Frozen):
    """One mechanism; its secrets are never in the document itself."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    username: Annotated[str, StringConstraints(max_length=256)] | None = None
    secret_ref: SaslSecretRef = Field(alias="secretRef")


class ListenerSpec(_Frozen):
    """Security of the controllers' listener, if it differs from the brokers'."""

    tls: TlsSpec | None = None
    sasl: SaslSpec | None = None

    @model_validator(mode="after")
    def _hidden(self) -> ListenerSpec:
        _shown_to_nobody(self.tls, self.sasl)
        return self


def _shown_to_nobody(tls: TlsSpec | None, sasl: SaslSpec | None) -> None:
    if tls is None and sasl is not None and not sasl.mechanism.startswith("SCRAM"):
        raise ValueError(
            f"{sasl.mechanism} without TLS would send the secret unencrypted; add 'tls: {{}}', or use SCRAM"
        )


class ClusterSpec(_Frozen):
    """Where the cluster is and how to speak to it."""

    bootstrap_servers: Bootstrap | None = Field(None, alias="bootstrapServers")
    bootstrap_controllers: Bootstrap | None = Field(None, alias="bootstrapControllers")
    cluster_id: Annotated[str, StringConstraints(max_length=64)] | None = Field(None, alias="clusterId")
    request_timeout: str = Field("30s", alias="requestTimeout")
    tls: TlsSpec | None = None
    sasl: SaslSpec | None = None
    controller_listener: ListenerSpec | None = Field(None, alias="controllerListener")

    @model_validator(mode="after")
    def _check(self) -> ClusterSpec:
        if not self.bootstrap_servers and not self.bootstrap_controllers:
            raise ValueError("set bootstrapServers, bootstrapControllers, or both")
        if not 1.0 <= self.request_timeout_seconds <= 300.0:
            raise ValueError("requestTimeout must be between 1s and 5m, such as 30s")
        _shown_to_nobody(self.tls, self.sasl)
        return self

    @property
    def request_timeout_seconds(self) -> float:
        """0 for a text that is no duration; the validator refuses that."""
        match = _DURATION.match(self.request_timeout)
        return int(match[1]) * _UNITS[match[2]] if match else 0.0


def _level(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError('expected an integer from 0 to 32767, or for metadata.version a name in quotes: "4.1-IV1"')
    if isinstance(value, int) and not 0 <= value <= 32767:
        raise ValueError("expected an integer from 0 to 32767")
    return value


class LevelSpec(_Frozen):
    """The exact level of one feature; 0 disables it."""

    name: Annotated[str, StringConstraints(max_length=64, pattern=_FEATURE)]
    level: Annotated[int | str, BeforeValidator(_level)]

    @model_validator(mode="after")
    def _named(self) -> LevelSpec:
        if isinstance(self.level, str) and (self.name != METADATA_VERSION or not _NAMED_LEVEL.match(self.level)):
            raise ValueError(
                f"level: invalid value {self.level!r:.60}; expected an integer; only metadata.version has names, "
                "such as '4.1-IV1'"
            )
        return self


class FeaturesSpec(_Frozen):
    """A feature that is not named is left alone. `levels` win over the bundle of `releaseVersion`."""

    release_version: Annotated[str, StringConstraints(max_length=32, pattern=_LEVEL_NAME)] | None = Field(
        None, alias="releaseVersion"
    )
    levels: Annotated[tuple[LevelSpec, ...], Field(max_length=32, strict=False)] = ()

    @model_validator(mode="after")
    def _once(self) -> FeaturesSpec:
        names = [one.name for one in self.levels]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"levels: duplicate feature {twice[0]}")
        if self.release_version is not None and METADATA_VERSION in names:
            raise ValueError("set metadata.version either through releaseVersion or through levels, not both")
        return self


Consent = Annotated[
    str,
    StringConstraints(max_length=128, pattern=_CONSENT),
]


class ApprovalSpec(_Frozen):
    """Which plans wait for somebody, and the hash of the one that was approved."""

    policy: Literal["Never", "IrreversibleOnly", "Always"] = "IrreversibleOnly"
    plan_hash: Annotated[str, StringConstraints(max_length=71, pattern=_HASH)] | None = Field(None, alias="planHash")


class DriftSpec(_Frozen):
    """What to do about a level that was changed outside KafkaFeatures; how often a resource in sync is checked."""

    on_drift: Literal["Report", "Correct"] = Field("Report", alias="onDrift")
    check_every: str = Field("1m", alias="checkEvery")

    @model_validator(mode="after")
    def _check(self) -> DriftSpec:
        if self.check_every_seconds < LEAST_CHECK_EVERY:
            raise ValueError("checkEvery must be at least 10s, such as 1m")
        return self

    @property
    def check_every_seconds(self) -> float:
        """0 for a text that is no duration; the validator refuses that."""
        match = re.match(r"^([0-9]{1,9})(s|m|h)$", self.check_every)
        return int(match[1]) * {"s": 1.0, "m": 60.0, "h": 3600.0}[match[2]] if match else 0.0


LEAST_CHECK_EVERY = 10


class Spec(_Frozen):
    """What is wanted."""

    mode: Literal["Observe", "Apply"] = "Apply"
    suspend: bool = False
    consents: Annotated[tuple[Consent, ...], Field(max_length=16, strict=False)] = ()
    cluster: ClusterSpec
    features: FeaturesSpec = FeaturesSpec()
    approval: ApprovalSpec = ApprovalSpec()
    drift: DriftSpec = DriftSpec()

    @model_validator(mode="after")
    def _check(self) -> Spec:
        if len(set(self.consents)) < len(self.consents):
            raise ValueError("consents: duplicate consent")
        for one in self.features.levels:
            if one.name == KRAFT_VERSION and one.level != 0 and "dynamic-quorum" not in self.consents:
                raise ValueError(
                    "raising kraft.version makes the quorum dynamic, which is irreversible; "
                    "add 'dynamic-quorum' to consents"
                )
        return self


class Metadata(BaseModel):
    """Names of the resource. Other metadata (labels, annotations) may be there; a file is also an API object."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    name: Name
    namespace: Name = "default"


class KafkaFeatures(_Frozen):
    """The whole resource, without its status."""

    api_version: Literal["kafkafeatures.dev/v1alpha1"] = Field(alias="apiVersion")
    kind: Literal["KafkaFeatures"]
    metadata: Metadata
    spec: Spec
