"""Finds the API server and the user's credentials: in the files of KUBECONFIG, ~/.kube/config, or a pod's service
account.

The library pykube-ng evaluates context, namespace and TLS. This module adds what pykube-ng 23.6 lacks compared with
kubectl, with the reason at each place. Of what these files contain, messages have only names, keys and addresses.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit

if TYPE_CHECKING:
    from pykube import KubeConfig

POD_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder in which a pod has its service account's token."""

_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
"""Keys whose values are paths."""
_NOT_SUPPORTED = ("auth-provider", "as-uid", "as-user-extra")
"""Keys of a user that are refused. For `auth-provider` pykube-ng needs packages and rewrites files; for the others it
sends no header, so that the requests would be those of a user with more or fewer rights.
"""


def kubeconfig(context: str = "", file: Path | None = None) -> KubeConfig:
    """The kubeconfig that kubectl would use, with the named or the current context; pykube-ng would prefer the service
    account. Raises CommandFailed.
    """
    if file is not None:
        return _chosen([file], context)
    paths = _paths_in_environment()
    files = _existing(paths)
    if files:
        return _chosen(files, context)
    if paths:
        folders = [path for path in paths if path.is_dir()]
        names, problem = ", ".join(map(str, folders or paths)), "that is a folder" if folders else "no such file"
        raise _refused(f"KUBECONFIG names {names}: {problem}; set it to a kubeconfig file")
    if not context and (POD_ACCOUNT / "token").is_file():
        return _of_pod()
    raise _refused("no kubeconfig: KUBECONFIG is not set and ~/.kube/config does not exist; set it as for kubectl")


def contexts(file: Path | None = None) -> list[str]:
    """The names of the contexts to choose from, for completions. Raises CommandFailed."""
    return sorted(_merged([file] if file is not None else _existing(_paths_in_environment()))[1]["contexts"])


def only(context: str, cluster: Mapping[str, Any], user: Mapping[str, Any], namespace: str = "") -> KubeConfig:
    """A kubeconfig with only this context. pykube-ng would read the files of all contexts, some of which may no longer
    exist.
    """
    import pykube

    content = {"cluster": "it", "user": "me", "namespace": namespace or "default"}
    document = {
        "clusters": [{"name": "it", "cluster": dict(cluster)}],
        "users": [{"name": "me", "user": dict(user)}],
        "contexts": [{"name": context, "context": content}],
    }
    return pykube.KubeConfig(document, current_context=context)


def check_keys(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> None:
    """Check that certificate and key files can be loaded: later the error would look like an unreachable server. No
    passphrase is asked for: a key that needs one is refused. Raises the library's errors.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if "certificate-authority" in cluster:
        context.load_verify_locations(cluster["certificate-authority"].filename())
    if "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"].filename(), user["client-key"].filename(), password="")


def _paths_in_environment() -> list[Path]:
    """The files that KUBECONFIG names."""
    return [Path(path).expanduser() for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]


def _existing(paths: list[Path]) -> list[Path]:
    """The files among these paths that exist; without paths ~/.kube/config, if that exists."""
    return [path for path in paths or [Path("~/.kube/config").expanduser()] if path.is_file()]


def _of_pod() -> KubeConfig:
    """The kubeconfig of the pod's service account."""
    import pykube

    try:
        config = pykube.KubeConfig.from_service_account(POD_ACCOUNT)
    except KeyError as unset:
        raise _refused(
            f"this pod has an account, but no {unset.args[0]}; set KUBECONFIG to a kubeconfig file"
        ) from None
    # a file, since Kubernetes renews the token
    config.doc["users"][0]["user"] = {"tokenFile": str(POD_ACCOUNT / "token")}
    return config


def _chosen(files: list[Path], context: str) -> KubeConfig:
    """The kubeconfig with the context of this name, or the current one, of all these files."""
    paths = ", ".join(map(str, files))
    current, entries = _merged(files)
    name = context or current
    if not name:
        raise _refused(f"{paths}: no current context; choose one with --context")
    if name not in entries["contexts"]:
        valid = ", ".join(sorted(entries["contexts"])[:8]) or "none"
        raise _refused(f"{paths}: no context {name!r}; valid contexts: {valid}")
    content = entries["contexts"][name]
    cluster, user = entries["clusters"].get(content.get("cluster")), entries["users"].get(content.get("user"), {})
    if not cluster or not str(cluster.get("server", "")).startswith(("https://", "http://")):
        raise _refused(f"{paths}: context {name!r} has no cluster with a server; correct it with kubectl config")
    for key in _NOT_SUPPORTED:
        if key in user:
            raise _refused(
                f"{paths}: the user of context {name!r} has {key!r}, which is not supported; use a token or exec"
            )
    if not isinstance(user.get("as", ""), str) or not isinstance(user.get("as-groups") or [], list):
        raise _refused(f"{paths}: the user of context {name!r}: as must be a name, and as-groups a list of names")
    return only(name, cluster, user, content.get("namespace") or "")


def _merged(files: list[Path]) -> tuple[str, dict[str, dict[str, Any]]]:
    """The current context, and `clusters`, `users` and `contexts` by name; the first file that has an entry wins.

    pykube-ng reads only one file, and would take a list in KUBECONFIG for a file name.
    """
    current = ""
    merged: dict[str, dict[str, Any]] = {"clusters": {}, "users": {}, "contexts": {}}
    for file in files:
        document = _read(file)
        try:
            current = current or _current(document, file)
            for kind, entries in merged.items():
                for entry in document.get(kind) or ():
                    content = dict(entry[kind.removesuffix("s")] or {})
                    for key in ("cluster", "user", "namespace") if kind == "contexts" else ():
                        _text(content.get(key) or "")
                    entries.setdefault(_text(entry["name"]), _absolute(content, file.parent))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise _refused(f"{file} is not a kubeconfig; see what kubectl config view says of it") from None
    return current, merged


def _current(document: Any, file: Path) -> str:
    """The current context of a file; empty if it has none."""
    try:
        return _text(document.get("current-context") or "")
    except ValueError:
        text = "current-context is not the name of a context; set it with kubectl config use-context NAME"
        raise _refused(f"{file}: {text}") from None


def _text(value: Any) -> str:
    """The value, if it is a text. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError
    return value


def _read(file: Path) -> Any:
    """The YAML of a file. pykube-ng would print the parser's error, which quotes the file."""
    import yaml

    try:
        return yaml.safe_load(file.read_text()) or {}
    except FileNotFoundError:
        raise _refused(f"kubeconfig {file} does not exist; set KUBECONFIG or --kubeconfig") from None
    except OSError as error:
        raise _refused(f"{file}: {error.strerror}; name the one of kubectl (KUBECONFIG, --kubeconfig)") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise _refused(
            f"{file} is not a kubeconfig: invalid YAML; name the one of kubectl (KUBECONFIG, --kubeconfig)"
        ) from None


def _absolute(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The entry with absolute paths. Paths, and commands with a slash, are relative to the file that has them;
    pykube-ng supports only one folder.
    """
    resolved = {**content, **{key: str(folder.resolve() / content[key]) for key in _PATHS if content.get(key)}}
    plugin = content.get("exec")
    if plugin and os.sep in plugin["command"]:
        resolved["exec"] = {**plugin, "command": str(folder.resolve() / plugin["command"])}
    return resolved


def _refused(text: str) -> CommandFailed:
    return CommandFailed(text, Exit.USAGE)
