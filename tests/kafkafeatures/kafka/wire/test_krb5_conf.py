"""A krb5.conf out of a Secret: what of it reaches the Kerberos library."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.kafka.base.settings import Address, Realms
from kafkafeatures.kafka.wire.krb5_conf import krb5_conf, read_krb5_conf

TEXT = """
# as an administrator hands it out
[logging]
    default = FILE:/etc/passwd
[libdefaults]
    default_realm = EXAMPLE.COM
    dns_lookup_kdc = true
    udp_preference_limit = 1
    default_keytab_name = /etc/shadow
    plugin_base_dir = /tmp
[realms]
    EXAMPLE.COM = {
        kdc = kdc-1.example.com
        kdc = kdc-2.example.com:8888
        kdc = [fd00::1]:88
        admin_server = kdc-1.example.com
        auth_to_local_names = {
            alice = root
        }
    }
    OTHER.COM = {
        kdc* = kdc.other.com
    }*
[domain_realm]
    .example.com = EXAMPLE.COM
    other.com = OTHER.COM
[plugins]
    clpreauth = {
        module = evil:/tmp/evil.so
    }
"""


def test_only_kdcs_domains_and_plain_options_are_taken_over() -> None:
    assert read_krb5_conf(TEXT) == Realms(
        "EXAMPLE.COM",
        {
            "EXAMPLE.COM": (
                Address("kdc-1.example.com", 88),
                Address("kdc-2.example.com", 8888),
                Address("fd00::1", 88),
            ),
            "OTHER.COM": (Address("kdc.other.com", 88),),
        },
        {".example.com": "EXAMPLE.COM", "other.com": "OTHER.COM"},
        {"udp_preference_limit": "1"},
    )


def test_the_library_gets_the_permitted_addresses_and_no_name_from_dns() -> None:
    realms = read_krb5_conf(TEXT)
    (first, *_) = realms.kdcs["EXAMPLE.COM"]
    text = krb5_conf(realms, {first: (Address("10.0.0.1", 88), Address("fd00::2", 88))})
    assert re.findall("(?m)^kdc = (.*)", text) == ["10.0.0.1:88", "[fd00::2]:88"]
    for name in ("dns_lookup_kdc", "dns_lookup_realm", "dns_canonicalize_hostname", "rdns"):
        assert f"{name} = false" in text
    for never in ("plugin", "evil", "shadow", "passwd", "true"):
        assert never not in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("# as", "include /etc/krb5.conf\n# as"), "line 2: include is not supported: write all of it in this file"),
        (("# as", "module /tmp/x.so:y\n# as"), "line 2: module is not supported"),
        (("# as", "default_realm = X\n# as"), "line 2: expected [section], name = value, or name = {"),
        (("default_realm = EXAMPLE.COM", ""), "[libdefaults] has no default_realm"),
        (("default_realm = EXAMPLE.COM", "default_realm = NONE.COM"), "[realms] has no kdc of NONE.COM"),
        (("default_realm = EXAMPLE.COM", "default_realm = A B"), "invalid realm or domain 'A B'"),
        (("kdc-1.example.com\n", "https://kdc/KdcProxy\n"), "kdc: a proxy is not supported"),
        (("kdc-1.example.com\n", "/run/kdc.sock\n"), "kdc: invalid address"),
        (("kdc-1.example.com\n", "\n"), "kdc: expected host or host:port"),
        (("kdc-2.example.com:8888", "kdc:99999"), "kdc: invalid address 'kdc:99999': expected a port from 1 to 65535"),
        (("_limit = 1", "_limit = {1}"), "[libdefaults] udp_preference_limit: invalid value"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(change: tuple[str, str], message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        read_krb5_conf(TEXT.replace(*change, 1))


LINES = st.sampled_from([*TEXT.splitlines(), "}", "[realms]", "kdc = a,b", "kdc =", "kdc = :", "x = {", "[", "=", "\\"])


@given(st.lists(LINES | st.text(max_size=20), max_size=20))
def test_any_text_is_read_or_refused_and_what_is_written_can_be_read(lines: list[str]) -> None:
    try:
        realms = read_krb5_conf("\n".join(lines))
    except ValueError:
        return
    addresses = {address: (address,) for kdcs in realms.kdcs.values() for address in kdcs}
    assert read_krb5_conf(krb5_conf(realms, addresses)) == realms
