"""A real KDC out of Debian's packages, and Python's GSS-API, compiled against its libraries.

    with Realm(tmp_path) as realm:
        realm.add("alice"); realm.keytab("alice"); realm.conf

The packages are unpacked into the cache of the rig, and nothing of the machine is changed. Everything lies in the
folder of a realm, and its KDC listens on a free port.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.e2e.clients.old_clients import HOME as FETCHED
from tests.e2e.clients.old_clients import fetched_once
from tests.e2e.rig.process import Daemon, free_port
from tests.e2e.rig.releases import MissingTool

REALM = "RIG.EXAMPLE"
LOCK, BUILD_LOCK = (Path(__file__).parents[3] / "requirements" / f"kerberos{part}.lock" for part in ("", "-build"))
HOME = FETCHED / f"kerberos-{zlib.crc32(LOCK.read_bytes() + BUILD_LOCK.read_bytes()):x}"
_PACKAGES = ("krb5-kdc", "krb5-admin-server", "krb5-user", "libkrb5-dev", "faketime")
_OURS = re.compile(r"krb5|k5crypto|kdb5|kadm5|gssrpc|verto|libev|com-err|comerr|keyutils|faketime")
"""Names of packages, of those that the ones above depend on: the others are on any machine."""
_RELATIONS = "recommends suggests conflicts breaks replaces enhances".split()


def _libraries() -> Path:
    return HOME / "usr" / "lib" / str(sysconfig.get_config_var("MULTIARCH"))


def environment() -> dict[str, str]:
    """The environment in which Python finds the GSS-API, which is fetched and compiled if it is not in the cache."""
    fetched_once(HOME, _fetch)
    libraries = f"{_libraries()}:{HOME / 'lib' / _libraries().name}"
    paths = [str(HOME / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "LD_LIBRARY_PATH": libraries, "PYTHONPATH": os.pathsep.join(paths)}


def _fetch() -> None:
    for package in _packages() or _packages(update=True):
        _run("apt-get", "download", package, folder=HOME)
    for archive in HOME.glob("*.deb"):
        _run("dpkg", "-x", str(archive), str(HOME))
        archive.unlink()
    python, built, libraries = HOME / "python", HOME / "build", _libraries()
    include = HOME / "usr" / "include"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes")
    _run(*pip, "--target", str(built), "-r", str(BUILD_LOCK))
    _run(
        *(*pip, "--no-build-isolation", "--target", str(python), "-r", str(LOCK)),
        environment={
            **os.environ,
            "PYTHONPATH": str(built),
            "LD_LIBRARY_PATH": f"{libraries}",
            "GSSAPI_COMPILER_ARGS": f"-O0 -DHAS_GSSAPI_EXT_H -I{include} -I{include / 'mit-krb5'}",
            "GSSAPI_LINKER_ARGS": f"-L{libraries / 'mit-krb5'} -L{libraries} -lgssapi_krb5",
            "GSSAPI_MAIN_LIB": str(libraries / "libgssapi_krb5.so.2"),
        },
    )
    shutil.rmtree(built)


def _packages(*, update: bool = False) -> list[str]:
    if update:  # a new machine has no list of packages
        _run("apt-get", "update")
    flags = [f"--no-{relation}" for relation in _RELATIONS]
    text = _run("apt-cache", "depends", "--recurse", *flags, *_PACKAGES)
    return sorted({line for line in text.splitlines() if _OURS.search(line) and line[0].isalpha()})


class Realm:
    """A realm with its KDC."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.conf = folder, folder / "krb5.conf"
        self.port = free_port()
        self.conf.write_text(
            f"[libdefaults]\n  default_realm = {REALM}\n  dns_lookup_kdc = false\n  rdns = false\n"
            "  dns_canonicalize_hostname = false\n"
            f"[realms]\n  {REALM} = {{\n    kdc = 127.0.0.1:{self.port}\n  }}\n"
        )
        (folder / "kdc.conf").write_text(
            f"[kdcdefaults]\n  kdc_listen = 127.0.0.1:{self.port}\n  kdc_tcp_listen = 127.0.0.1:{self.port}\n"
            f"[realms]\n  {REALM} = {{\n    database_name = {folder / 'principal'}\n"
            f"    key_stash_file = {folder / 'stash'}\n    max_life = 10h\n  }}\n"
            f"[dbmodules]\n  db_module_dir = {_libraries() / 'krb5' / 'plugins' / 'kdb'}\n"
            "[logging]\n  kdc = STDERR\n"
        )
        self.environment = {
            **environment(),
            "KRB5_CONFIG": str(self.conf),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder / 'tickets'}",
        }
        command: list[str | Path] = [HOME / "usr" / "sbin" / "krb5kdc", "-n", "-P", folder / "pid"]
        self.kdc = Daemon(command, folder / "kdc.log", self._answers, self.environment)

    def __enter__(self) -> Self:
        self._tool("sbin/kdb5_util", "-r", REALM, "create", "-s", "-P", "master-key-of-the-rig")
        self.kdc.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kdc.kill()

    def add(self, name: str, *options: str) -> None:
        """Add a principal with a random key."""
        self._kadmin("addprinc", "-randkey", *options, name)

    def keytab(self, name: str, *, new_key: bool = False) -> Path:
        """A keytab of the principal. With a new key, earlier ones are void."""
        path = self.folder / f"{name.replace('/', '-')}{'-new' if new_key else ''}.keytab"
        self._kadmin("ktadd", "-k", str(path), *([] if new_key else ["-norandkey"]), name)
        return path

    def delete(self, name: str) -> None:
        self._kadmin("delprinc", "-force", name)

    def kinit(self, name: str, *options: str) -> None:
        """Fill the ticket cache of the environment."""
        self._tool("bin/kinit", *options, "-k", "-t", str(self.keytab(name)), name)

    @contextmanager
    def clock_ahead(self, seconds: int) -> Iterator[None]:
        """The KDC with another time."""
        library = _libraries() / "faketime" / "libfaketime.so.1"
        self.kdc.kill()
        self.kdc.environment = {**self.environment, "LD_PRELOAD": str(library), "FAKETIME": f"+{seconds}s"}
        self.kdc.start()
        try:
            yield
        finally:
            self.kdc.kill()
            self.kdc.environment = self.environment
            self.kdc.start()

    def _kadmin(self, *words: str) -> None:
        self._tool("sbin/kadmin.local", "-r", REALM, *words)

    def _tool(self, path: str, *words: str) -> None:
        _run(str(HOME / "usr" / path), *words, environment=self.environment)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def _run(*words: str, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    if shutil.which(words[0]) is None:
        raise MissingTool(f"{words[0]} is not there; the tests with a real KDC need Debian's apt-get, and gcc")
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingTool(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout
