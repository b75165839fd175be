"""Reads a krb5.conf of a document, and writes one that the Kerberos library may read.

Called by `reconcile/credentials.py` and `kerberos.py`. Whoever may write a Secret could otherwise make the library read
files, load plugins and connect to any address. So only the KDCs by realm, the realms by domain, and a few plain options
are taken over; DNS never names a KDC or renames a node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafkafeatures.kafka.base.settings import Address, Realms, parse_addresses

PORT = 88
OPTIONS = frozenset(
    "allow_weak_crypto clockskew default_tgs_enctypes default_tkt_enctypes forwardable permitted_enctypes "
    "renew_lifetime ticket_lifetime udp_preference_limit".split()
)
"""Options of [libdefaults] that are taken over. The others are left out."""
_SECTION = re.compile(r"\[([a-z_]+)\]\*?$")
_RELATION = re.compile(r"([^\s={}]+?)\*?\s*=\s*(.*)$")
_NAME = re.compile(r"[A-Za-z0-9._-]+$")
"""A realm, or a domain."""
_VALUE = re.compile(r"[A-Za-z0-9 .,:+-]*$")
_DIRECTIVES = ("include", "includedir", "module")


def read_krb5_conf(text: str) -> Realms:
    """Parse a krb5.conf. Raises ValueError with the line and the reason."""
    relations: dict[str, list[tuple[str, str]]] = {}
    path: list[str] = []  # the section, and the names of the braces that are open
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if match := _SECTION.match(line):
            path = [match[1]]
        elif line.rstrip("*") == "}" and len(path) > 1:
            path.pop()
        elif path and (match := _RELATION.match(line)):
            if match[2] == "{":
                path.append(match[1])
            else:
                relations.setdefault("/".join(path), []).append((match[1], match[2].strip('"')))
        elif (word := line.split()[0]) in _DIRECTIVES:
            raise ValueError(f"line {number}: {word} is not supported: write all of it in this file")
        else:
            raise ValueError(f"line {number}: expected [section], name = value, or name = {{")
    return _realms(relations)


def _realms(relations: Mapping[str, list[tuple[str, str]]]) -> Realms:
    defaults = dict(relations.get("libdefaults", ()))
    realms = dict(relations.get("domain_realm", ()))
    kdcs = {
        section.partition("/")[2]: tuple(_address(value) for name, value in values if name == "kdc")
        for section, values in relations.items()
        if section.startswith("realms/") and section.count("/") == 1
    }
    default_realm = defaults.get("default_realm", "")
    for name in (default_realm, *kdcs, *realms, *realms.values()):
        if not _NAME.match(name):
            raise ValueError(f"invalid realm or domain {name[:60]!r}" if name else "[libdefaults] has no default_realm")
    if not kdcs.get(default_realm):
        raise ValueError(f"[realms] has no kdc of {default_realm}; the names of KDCs are not looked up in DNS")
    options = {name: value for name, value in defaults.items() if name in OPTIONS}
    for name, value in options.items():
        if not _VALUE.match(value):
            raise ValueError(f"[libdefaults] {name}: invalid value")
    return Realms(default_realm, kdcs, realms, options)


def _address(text: str) -> Address:
    if text.startswith(("http://", "https://")):
        raise ValueError("kdc: a proxy is not supported; expected host or host:port")
    has_port = re.search(r"(^[^:]+|\]):\d+$", text)
    addresses = parse_addresses(text if has_port or not text else f"{text}:{PORT}", "kdc")
    if len(addresses) != 1:
        raise ValueError("kdc: expected host or host:port")
    return addresses[0]


def krb5_conf(realms: Realms, addresses: Mapping[Address, tuple[Address, ...]]) -> str:
    """The text of a krb5.conf. `addresses`: addresses that the library may connect to, by that of a KDC."""
    lines = ["[libdefaults]", f"default_realm = {realms.default_realm}"]
    lines += [f"{name} = false" for name in ("dns_lookup_kdc", "dns_lookup_realm", "dns_canonicalize_hostname", "rdns")]
    lines += [f"{name} = {value}" for name, value in realms.options.items()]
    lines.append("[realms]")
    for realm, kdcs in realms.kdcs.items():
        lines += [f"{realm} = {{", *(f"kdc = {address}" for kdc in kdcs for address in addresses.get(kdc, ())), "}"]
    lines += ["[domain_realm]", *(f"{domain} = {realm}" for domain, realm in realms.realms.items())]
    return "\n".join((*lines, ""))
