"""Which API server, and who we are to it: the files of KUBECONFIG, ~/.kube/config, or the account of the pod.

Read the way kubectl reads them. Used by `cli/kube.py`, which gives pykube one cluster and one user of it: by itself
pykube reads a single file, knows no `tokenFile` and no current exec plugin, and leaves private keys in /tmp.

Of what stands in these files nothing is ever printed but names and addresses.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkafeatures.cli.exit_codes import CommandFailed, Exit

POD_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_NOT_SUPPORTED = ("auth-provider", "as", "as-uid", "as-groups", "as-user-extra")


@dataclass(frozen=True, slots=True)
class Access:
    """One context, resolved. `cluster` and `user` have kubeconfig's own keys; paths in them are absolute."""

    context: str
    namespace: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]

    @property
    def server(self) -> str:
        """Its address, for people too."""
        return str(self.cluster["server"])


def access(context: str = "") -> Access:
    """As kubectl chooses: KUBECONFIG, else ~/.kube/config, else the account of the pod. Raises CommandFailed."""
    named = [Path(one).expanduser() for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    files = [one for one in named or [Path("~/.kube/config").expanduser()] if one.is_file()]
    if files:
        return _chosen(files, context)
    if named:
        raise _refused(
            f"KUBECONFIG names {', '.join(map(str, named))}, which is not there; set it to a kubeconfig file"
        )
    if not context and (POD_ACCOUNT / "token").is_file():
        return _of_pod()
    raise _refused(
        "no kubeconfig: ~/.kube/config is not there and KUBECONFIG is not set; set it to the file that kubectl uses"
    )


def _of_pod() -> Access:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise _refused("this pod has an account and no KUBERNETES_SERVICE_HOST; set KUBECONFIG to a kubeconfig file")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Access(
        context="the pod's account",
        namespace=(POD_ACCOUNT / "namespace").read_text().strip(),
        cluster={"server": server, "certificate-authority": str(POD_ACCOUNT / "ca.crt")},
        user={"tokenFile": str(POD_ACCOUNT / "token")},
    )


def _merged(files: list[Path]) -> tuple[str, dict[str, dict[str, Any]]]:
    """The current context, and `clusters`, `users` and `contexts` by name: what comes first wins."""
    current = ""
    merged: dict[str, dict[str, Any]] = {"clusters": {}, "users": {}, "contexts": {}}
    for file in files:
        document = _read(file)
        try:
            current = current or _current(document, file)
            for kind, found in merged.items():
                for entry in document.get(kind) or ():
                    content = dict(entry[kind.removesuffix("s")] or {})
                    for key in ("cluster", "user", "namespace") if kind == "contexts" else ():
                        _text(content.get(key) or "")
                    found.setdefault(_text(entry["name"]), _absolute(content, file.parent))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise _refused(f"{file} is no kubeconfig; kubectl config view shows what one looks like") from None
    return current, merged


def _current(document: Any, file: Path) -> str:
    try:
        return _text(document.get("current-context") or "")
    except ValueError:
        raise _refused(
            f"{file}: current-context is not the name of a context; set it with kubectl config use-context NAME"
        ) from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _read(file: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(file.read_text()) or {}
    except OSError as error:
        raise _refused(f"{file}: {error.strerror}; set KUBECONFIG to the file that kubectl uses") from None
    except (yaml.YAMLError, UnicodeDecodeError):  # whose words would quote the file
        raise _refused(
            f"{file} is no kubeconfig: it is not YAML; set KUBECONFIG to the file that kubectl uses"
        ) from None


def _absolute(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Paths of a file are meant from where it lies; a command without a slash is looked for on the PATH."""
    found = {**content, **{key: str(folder.resolve() / content[key]) for key in _PATHS if content.get(key)}}
    plugin = content.get("exec")
    if plugin and os.sep in plugin["command"]:
        found["exec"] = {**plugin, "command": str(folder.resolve() / plugin["command"])}
    return found


def _chosen(files: list[Path], context: str) -> Access:
    where = ", ".join(map(str, files))
    current, known = _merged(files)
    name = context or current
    if not name:
        raise _refused(f"{where} has no current context; choose one with --context")
    if name not in known["contexts"]:
        there_is = ", ".join(sorted(known["contexts"])[:8]) or "none"
        raise _refused(f"{where} has no context {name!r}; there is: {there_is}")
    content = known["contexts"][name]
    cluster, user = known["clusters"].get(content.get("cluster")), known["users"].get(content.get("user"), {})
    if not cluster or not str(cluster.get("server", "")).startswith(("https://", "http://")):
        raise _refused(f"context {name!r} of {where} leads to no cluster with a server; mend it with kubectl config")
    for key in _NOT_SUPPORTED:
        if key in user:
            raise _refused(
                f"the user of context {name!r} has {key!r}, which is not supported here; use a token or exec"
            )
    return Access(name, content.get("namespace") or "default", cluster, user)


def _refused(text: str) -> CommandFailed:
    return CommandFailed(text, Exit.BLOCKED)
