"""TLS contexts: their trusted certificates, the thread that makes them, and their lifetime."""

from __future__ import annotations

import asyncio
import gc
import ssl
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import TlsFailed
from kafkafeatures.kafka.base.settings import OAuthClient, Sasl, Security
from kafkafeatures.kafka.wire import tls
from kafkafeatures.kafka.wire.connection import connect
from kafkafeatures.kafka.wire.contexts import Contexts
from kafkafeatures.kafka.wire.pem import Tls
from tests.e2e.rig.certificates import Certificates
from tests.kafkafeatures.kafka.wire.servers import Server, api_versions, serving

CERTIFICATES = Certificates()
NAMED = Tls(ca=CERTIFICATES.ca)
CLIENT = dict(zip(("certificate", "key"), CERTIFICATES.client("alice"), strict=True))


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trusted certificates of each context that was made: the bundle of the system, or the configured ones."""
    found: list[str] = []
    system, named = ssl.SSLContext.load_default_certs, ssl.SSLContext.load_verify_locations

    def load_default_certs(made: ssl.SSLContext, *rest: Any) -> None:
        found.append("system")
        system(made, *rest)

    def load_verify_locations(made: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        found.append("bundle" if cafile else "folder" if capath else "named")
        named(made, cafile, capath, cadata)

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", load_default_certs)
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", load_verify_locations)
    return found


@pytest.fixture
def trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A system of its own: `bundle.pem` and the folder `hashed`, both empty."""
    (tmp_path / "hashed").mkdir()
    (tmp_path / "bundle.pem").write_text("")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "bundle.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "hashed"))
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    tls._system.cache_clear()
    tls._folder_of_trust.cache_clear()


def test_the_system_trust_is_not_loaded_if_a_ca_is_configured(loaded: list[str]) -> None:
    assert tls.context(NAMED).cert_store_stats()["x509_ca"] == 1
    assert loaded == ["named"]


def test_a_context_with_a_client_certificate_loads_system_cas_on_demand(trust: Path, loaded: list[str]) -> None:
    """The CAs of the system are found one by one, where the system has them so: 13 KB in place of 0.8 MiB each."""
    (trust / "bundle.pem").write_text(CERTIFICATES.ca)
    (trust / "hashed" / "0123abcd.0").write_text(CERTIFICATES.ca)
    assert tls.context(Tls(**CLIENT)).cert_store_stats()["x509"] == 0
    assert loaded == ["folder"]


def test_a_ca_that_only_the_system_bundle_has_is_trusted(trust: Path, loaded: list[str]) -> None:
    """Another bundle was put in place of the image's."""
    (trust / "bundle.pem").write_text(CERTIFICATES.ca + CERTIFICATES.other_ca)
    (trust / "hashed" / "0123abcd.0").write_text(CERTIFICATES.ca)
    assert tls.context(Tls(**CLIENT)).cert_store_stats()["x509_ca"] == 2
    assert loaded == ["system"]


def test_settings_with_system_trust_only_share_one_tls_context(trust: Path) -> None:
    (trust / "bundle.pem").write_text(CERTIFICATES.ca)
    assert tls.context(Tls()) is tls.context(Tls())


async def test_a_tls_context_is_created_once_per_cluster_outside_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[int] = []
    context = tls.context

    def watched(settings: Tls) -> ssl.SSLContext:
        threads.append(threading.get_ident())
        return context(settings)

    monkeypatch.setattr(tls, "context", watched)
    security = Security(NAMED)
    async with serving(Server({18: api_versions()})) as server:  # it speaks no TLS; the context is needed all the same
        tries = (
            connect(server.address, one, timeout=5, client_id="us", environment=SYSTEM)
            for one in (security, replace(security)) * 20
        )
        assert all(isinstance(one, TlsFailed) for one in await asyncio.gather(*tries, return_exceptions=True))
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_checked_tls_settings_are_not_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    client = OAuthClient("https://h/token", "us", "s", tls=replace(NAMED, **CLIENT))
    security = Security(NAMED, Sasl("OAUTHBEARER", oauth=client))
    security.check()
    monkeypatch.delattr(tls, "context")
    assert await security.contexts.context(NAMED) is await replace(security).contexts.context(NAMED)
    assert isinstance(await security.contexts.context(client.tls), ssl.SSLContext)


def test_a_tls_context_is_freed_with_its_cluster() -> None:
    """Two hundred clusters with a CA each would push one another out of any cache, and the secrets would stay in it."""
    security = Security(replace(NAMED, **CLIENT))
    assert security.tls is not None
    kept = weakref.ref(security.contexts.create(security.tls))
    assert kept() is not None
    del security
    gc.collect()
    assert kept() is None


async def test_invalid_tls_settings_are_reported_each_time() -> None:
    contexts = Contexts()
    for _ in range(2):
        with pytest.raises(TlsFailed, match="not a PEM certificate"):
            await contexts.context(Tls(ca="no pem"))
