"""The part of a spec that asks for evidence about clients.

The types belong to those of `api/spec.py`. The CRD has the meaning of each field.
"""

from typing import Annotated, Literal

from msgspec import Struct

from kafkafeatures.api.references import ConfigMapRef, LoginSecretRef, TlsSpec, TokenSecretRef
from kafkafeatures.api.schema import Text
from kafkafeatures.api.texts import BrokerPattern, KafkaRelease, Url


class PrometheusSpec(Struct, frozen=True, kw_only=True):
    """A Prometheus that scrapes every broker, and the series of this cluster in it."""

    url: Url
    selector: Annotated[str, Text(1024)] = ""
    broker_label: Annotated[str, Text(128, 0, r"^([a-zA-Z_][a-zA-Z0-9_]*)?$", "the name of a label")] = ""
    broker_pattern: BrokerPattern = ""
    tls: TlsSpec | None = None
    token_secret_ref: TokenSecretRef | None = None
    basic_auth_secret_ref: LoginSecretRef | None = None

    def __post_init__(self) -> None:
        has_secret = self.token_secret_ref is not None or self.basic_auth_secret_ref is not None
        if self.token_secret_ref is not None and self.basic_auth_secret_ref is not None:
            raise ValueError("set tokenSecretRef or basicAuthSecretRef, not both")
        if self.broker_pattern and not self.broker_label:
            raise ValueError("brokerPattern needs brokerLabel")
        if has_secret and not self.url.startswith("https://"):
            raise ValueError("the secret would be sent unencrypted; use a URL that starts with https://")
        if self.tls is not None and not self.url.startswith("https://"):
            raise ValueError("tls needs a URL that starts with https://")


def _days(value: object) -> int:
    """Check `clientEvidence.windowDays`. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 366:
        raise ValueError("expected a number of days from 1 to 366")
    return value


class ClientEvidenceSpec(Struct, frozen=True, kw_only=True):
    """Evidence of the API versions that clients use, and its effect on a roll. `target`: the release that clients have
    to work with; None: that of `features.releaseVersion`. `config_map_ref`: scrapes, if there is no Prometheus, and
    files that name the clients.
    """

    prometheus: PrometheusSpec | None = None
    config_map_ref: ConfigMapRef | None = None
    target: KafkaRelease | None = None
    window_days: Annotated[int, _days] = 35
    policy: Literal["Report", "Gate"] = "Report"

    def __post_init__(self) -> None:
        if self.prometheus is None and self.config_map_ref is None:
            raise ValueError("set prometheus, configMapRef, or both")
