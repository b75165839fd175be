"""Client of the Kubernetes API server for the commands: one request at a time, each with a deadline and clear errors.

    with connected(arguments) as kube:
        kube.resource("orders")

A failed request is not repeated here; `cli/kube/polling.py` does that after `Away`. Certificates and private keys that
are embedded in a kubeconfig are in a temporary folder, readable by the user alone, until the command ends.
"""

from __future__ import annotations

import argparse
import base64
import ssl
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kafkafeatures import __version__
from kafkafeatures.api.names import API_VERSION, GROUP, KIND, PLURAL
from kafkafeatures.cli.kube.config import check_keys, kubeconfig
from kafkafeatures.cli.kube.login import Login
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.requests import milliseconds, note
from kafkafeatures.cli.shell.values import resource_name
from kafkafeatures.core.words import printable
from kafkafeatures.environment import SYSTEM
from kafkafeatures.interrupts import SENT_STEPS

if TYPE_CHECKING:
    from pykube import KubeConfig
    from requests import Response

REQUEST_TIMEOUT = 10.0
"""Seconds for one request."""
PAGE = 500
"""Most objects in one answer to a list request."""
MERGE = {"Content-Type": "application/merge-patch+json"}
# (plural, API group) of a kind of objects; parameters with such a pair are called `noun`
_EVENTS = ("events", "events.k8s.io")
_OURS = (PLURAL, GROUP)
STATEFUL_SETS = ("statefulsets", "apps")


class Away(CommandFailed):
    """No connection, no answer in time, or an answer such as 429 or 503 that means "try again"."""


class Denied(CommandFailed):
    """401 or 403: wrong credentials, a missing right, or an admission webhook that refuses the request."""


class NotFound(CommandFailed):
    """404: the object does not exist."""


class Changed(CommandFailed):
    """409: the object was changed after it was read."""


def add_kube_flags(parser: argparse._ActionsContainer) -> None:
    """Add the flags for the API server, the namespace and the user, with the names of kubectl's."""
    parser.add_argument(
        "-n",
        "--namespace",
        type=resource_name,
        metavar="NS",
        help="namespace (default: that of the context, else default)",
    )
    parser.add_argument(
        "--context", default="", metavar="NAME", help="context of the kubeconfig (default: its current context)"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig (default: KUBECONFIG, else ~/.kube/config)"
    )
    parser.add_argument("--as", dest="as_user", default="", metavar="USER", help="act as this user (impersonation)")
    parser.add_argument(
        "--as-group", dest="as_groups", action="append", default=[], metavar="GROUP",
        help="act as a member of this group, with --as; may be repeated",
    )  # fmt: skip


def add_resource_flags(parser: argparse.ArgumentParser) -> None:
    """Add the argument NAME, and the flags of `add_kube_flags`."""
    parser.add_argument("name", type=resource_name, metavar="NAME", help="name of the KafkaFeatures resource")
    add_kube_flags(parser)


@contextmanager
def connected(arguments: argparse.Namespace) -> Iterator[Kube]:
    """Context with a client. Raises CommandFailed if no API server is configured."""
    if arguments.as_groups and not arguments.as_user:
        raise CommandFailed("--as-group requires --as USER", Exit.USAGE)
    acting = {"as": arguments.as_user, "as-groups": arguments.as_groups} if arguments.as_user else {}
    with ExitStack() as ending:
        yield Kube(kubeconfig(arguments.context, arguments.kubeconfig), ending, arguments.namespace, acting)


class Kube:
    """Requests to one API server, in one namespace. Raises CommandFailed, often as Away, Denied, Changed or NotFound.

    `ending`: removes temporary files when the command ends. `acting`: the user to impersonate, in the form of a
    kubeconfig (keys `as` and `as-groups`); it replaces the one that the kubeconfig impersonates. `request_timeout`:
    seconds to wait for one answer; a caller with a deadline shortens it.
    """

    def __init__(
        self,
        config: KubeConfig,
        ending: ExitStack,
        namespace: str | None = None,
        acting: Mapping[str, Any] | None = None,
    ) -> None:
        import pykube
        import urllib3

        cluster, user = config.doc["clusters"][0]["cluster"], config.doc["users"][0]["user"]
        self.namespace = namespace or config.namespace
        self.server = str(cluster["server"])
        self.request_timeout = REQUEST_TIMEOUT
        self.answered_at = SYSTEM.clock()  # as `ObjectReader` has it
        self._context = config.current_context
        self._ending = ending
        for key in ("as", "as-groups") if acting else ():  # groups in the kubeconfig belong to the user there
            user.pop(key, None)
        self._login = Login(dict(cluster), {**user, **(acting or {})}, self._present)
        urllib3.disable_warnings()  # the user chose insecure-skip-tls-verify; no warning is needed
        for key in ("token", "tokenFile", "exec", "as", "as-groups"):  # `Login` handles these
            user.pop(key, None)
        self._keys_in_files(cluster)
        self._keys_in_files(user)
        if ("client-certificate" in user) != ("client-key" in user):
            raise self._broken("a certificate without its key")
        try:
            self._api = pykube.HTTPClient(config)
            check_keys(config.cluster, config.user)
        except pykube.exceptions.PyKubeError as error:
            raise self._broken(str(error)) from None
        except ssl.SSLError:
            raise self._broken("its certificates or its key cannot be used") from None
        self._session = self._api.session
        self._session.auth = self._login
        self._session.headers["User-Agent"] = f"kafkafeatures/{__version__}"
        proxy = cluster.get("proxy-url")  # pykube does not support it
        if proxy:
            self._session.proxies = {"http": proxy, "https": proxy}
        if proxy or _is_on_this_machine(self.server):  # like kubectl, do not use the environment's proxy for these
            self._session.trust_env = False

    def resource(self, name: str) -> KubeResource:
        """Read a KafkaFeatures resource of the namespace."""
        return KubeResource(self._ours("get", name))

    def resources(self, *, everywhere: bool, selector: str = "") -> list[KubeResource]:
        """All KafkaFeatures of the namespace, or `everywhere` of all namespaces, that match the label selector."""
        query = {"labelSelector": selector} if selector else {}
        namespace = None if everywhere else self.namespace
        return [KubeResource(raw) for raw in self._pages(_OURS, query, API_VERSION, PLURAL, namespace)]

    def object_of(self, plural: tuple[str, str], version: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """One object, by default of the namespace; None if it does not exist."""
        place = {"version": version, "namespace": namespace or self.namespace, "url": f"{plural[0]}/{name}"}
        try:
            return self._send("get", "get", plural, name, **place)
        except NotFound:
            return None

    def objects_of(self, plural: tuple[str, str], version: str, selector: str) -> list[dict[str, Any]]:
        """The objects of the namespace that the label selector matches."""
        return self._pages(plural, {"labelSelector": selector}, version, plural[0], self.namespace)

    def annotate_template(self, name: str, annotations: Mapping[str, str], version: str) -> None:
        """Set annotations of a StatefulSet's pod template. Raises Changed if its resourceVersion is not `version`."""
        change = {
            "metadata": {"resourceVersion": version},
            "spec": {"template": {"metadata": {"annotations": dict(annotations)}}},
        }
        self._send(
            "patch", "patch", STATEFUL_SETS, name, version="apps/v1", namespace=self.namespace,
            url=f"statefulsets/{name}", json=change, headers=MERGE,
        )  # fmt: skip

    def deployment(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Read a Deployment; None if it does not exist."""
        return self.object_of(("deployments", "apps"), "apps/v1", name, namespace)

    def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Read a pod; None if it does not exist."""
        return self.object_of(("pods", ""), "v1", name, namespace)

    def annotate_pod(self, name: str, annotations: Mapping[str, str]) -> None:
        """Set annotations of a pod of the namespace."""
        self._send(
            "patch", "patch", ("pods", ""), name, version="v1", namespace=self.namespace, url=f"pods/{name}",
            json={"metadata": {"annotations": dict(annotations)}}, headers=MERGE,
        )  # fmt: skip

    def log(self, namespace: str, pod: str, lines: int) -> str:
        """The last lines that a pod has written."""
        answer = self._answered(
            "get", "get", ("pods/log", ""), version="v1", namespace=namespace, url=f"pods/{pod}/log",
            params={"tailLines": lines},
        )  # fmt: skip
        return str(answer.text)

    def may(self, group: str, resource: str, verb: str) -> bool | None:
        """True if this user has the right in the namespace; None if the API server could not evaluate all its rules."""
        name, _, subresource = resource.partition("/")
        attributes = {"namespace": self.namespace, "verb": verb, "group": group, "resource": name}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes | ({"subresource": subresource} if subresource else {})},
        }
        resource_type = ("selfsubjectaccessreviews", "authorization.k8s.io")
        answer = self._send(
            "post", "create", resource_type, version=review["apiVersion"], url=resource_type[0], json=review
        )
        status = answer.get("status") or {}
        return bool(status.get("allowed")) or (None if status.get("evaluationError") else False)

    def annotate(self, name: str, annotations: Mapping[str, str | None], version: str = "") -> KubeResource:
        """Set annotations of our resource, or remove them with None. Raises Changed if `version` is outdated."""
        metadata: dict[str, Any] = {"annotations": dict(annotations)}
        if version:
            metadata["resourceVersion"] = version
        return KubeResource(self._ours("patch", name, json={"metadata": metadata}, headers=MERGE))

    def events(self, namespace: str, name: str) -> list[dict[str, Any]]:
        """Events about the resource of this name, and about earlier ones that had it."""
        query = {"fieldSelector": f"regarding.kind={KIND},regarding.name={name}"}
        return self._pages(_EVENTS, query, "events.k8s.io/v1", "events", namespace)

    def _pages(
        self, noun: tuple[str, str], selectors: Mapping[str, str], version: str, url: str, namespace: str | None
    ) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        parameters: dict[str, Any] = {**selectors, "limit": PAGE}
        while True:
            page = self._send("get", "list", noun, version=version, namespace=namespace, url=url, params=parameters)
            items += page.get("items") or ()
            parameters["continue"] = page.get("metadata", {}).get("continue", "")
            if not parameters["continue"]:
                return items

    def version(self) -> str:
        """The version of the API server, such as "v1.34.1"; "unknown" if its answer has none."""
        return str(self._send("get", "get", ("/version", ""), version="", base="/version").get("gitVersion", "unknown"))

    def _ours(self, method: str, name: str, **more: Any) -> dict[str, Any]:
        return self._send(
            method, method, _OURS, name, version=API_VERSION, namespace=self.namespace, url=f"{PLURAL}/{name}", **more
        )

    def _send(self, method: str, verb: str, noun: tuple[str, str], name: str = "", **request: Any) -> dict[str, Any]:
        """Send a request, and return the object in the answer. `verb` (as in a Role) and `noun` are for messages."""
        body = _body(self._answered(method, verb, noun, name, **request))
        if body is None:
            raise self._away("the server that answers is not a Kubernetes API server")
        return body

    def _answered(self, method: str, verb: str, noun: tuple[str, str], name: str = "", **request: Any) -> Response:
        from requests.exceptions import RequestException  # what pykube raises

        from kafkafeatures.kube.api import date_of

        if method == "patch":
            SENT_STEPS.note(f"{verb} {noun[0]} {name}", "kafkafeatures status")
        began = time.monotonic()
        try:
            answer = getattr(self._api, method)(timeout=self.request_timeout, **request)
            code = answer.status_code
            self.answered_at = date_of(answer.headers.get("Date", "")) or SYSTEM.clock()
        except (RequestException, OSError) as error:
            raise self._not_reached(error) from None
        note(f"< {code} {answer.reason} in {milliseconds(began)}")  # `Login` has noted the request
        if code == 401:
            self._login.forget()
        if code < 300:
            return answer  # type: ignore[no-any-return]  # pykube has no types
        raise self._failure(answer, verb, noun, name, version=str(request["version"]))

    def _failure(self, answer: Response, verb: str, noun: tuple[str, str], name: str, *, version: str) -> CommandFailed:
        code, body = answer.status_code, _body(answer) or {}
        message = printable(str(body.get("message") or answer.reason)[:500])  # may be the text of an admission webhook
        plural = ".".join(filter(None, noun))
        full_name = f"{self.namespace}/{name}" if name else plural
        match code:
            case 401:
                text = f"{self.server} rejects the credentials of context {self._context!r}"
                return self._failed(Denied, text, "log in again")
            case 403:
                # without that phrase the text is that of an admission webhook
                reason = message.partition(" is forbidden: ")[2] or message
                needed = "impersonate on users and groups" if "cannot impersonate" in reason else f"{verb} on {plural}"
                return self._failed(Denied, f"not authorized: {reason}", f"grant the verb {needed} with a role")
            case 404 if name and (body.get("details") or {}).get("name") == name:
                text = f"{KIND if noun == _OURS else noun[0]} {full_name} not found at {self.server}"
                return self._failed(NotFound, text, f"list them with kubectl get {noun[0]} -A", Exit.USAGE)
            case 404:  # the answer names no object, so the path itself is unknown
                text = f"{self.server} does not serve {plural} in version {version.rpartition('/')[2]}"
                return self._failed(CommandFailed, text, "install its CRD, or choose another cluster with --context")
            case 409:
                return self._failed(Changed, f"{full_name} was changed by another client", "try again", Exit.BLOCKED)
            case _ if code == 429 or code >= 500:
                return self._away(f"it answers {code}: {message}")
            case _:
                return CommandFailed(f"{self.server} rejected {verb} {full_name}: {code} {message}", Exit.BLOCKED)

    def _not_reached(self, error: Exception) -> CommandFailed:
        from requests.exceptions import ProxyError, Timeout

        root = _root(error)
        if isinstance(root, ssl.SSLCertVerificationError):  # waiting does not help
            text = f"the certificate of {self.server} is not trusted: {root.verify_message or root.reason}"
            return self._failed(CommandFailed, text, "check server and certificate-authority in the kubeconfig")
        if isinstance(error, Timeout):
            return self._away(f"no answer in {self.request_timeout:.3g} s")
        return self._away(f"{'by its proxy, ' if isinstance(error, ProxyError) else ''}{_words(root)}")

    def _away(self, reason: str) -> CommandFailed:
        text = f"the API server {self.server} cannot be reached: {reason}"
        return self._failed(Away, text, "check the context and the network")

    def _broken(self, reason: str) -> CommandFailed:
        return self._failed(CommandFailed, f"context {self._context!r}: {reason}", "correct the kubeconfig", Exit.USAGE)

    def _failed(self, kind: type[CommandFailed], text: str, cure: str, code: Exit = Exit.UNREACHABLE) -> CommandFailed:
        return kind(f"{text}; {cure}", code, what=text, where=self.server, remedy=cure)

    def _keys_in_files(self, content: dict[str, Any]) -> None:
        """Write keys that are embedded in the kubeconfig into a private folder: pykube would leave them in /tmp,
        readable by all.
        """
        for key in [name for name in content if name.endswith("-data")]:
            name = key.removesuffix("-data")
            try:
                content[name] = self._in_file(name, base64.b64decode(content.pop(key), validate=True))
            except (TypeError, ValueError):
                raise self._broken(f"{key} is not base64") from None

    @cached_property
    def _folder(self) -> Path:
        """The private folder, created with the first key."""
        return Path(self._ending.enter_context(tempfile.TemporaryDirectory(prefix="kafkafeatures-")))

    def _in_file(self, name: str, content: bytes) -> str:
        path = self._folder / name
        path.write_bytes(content)
        return str(path)

    def _present(self, certificate: str, key: str) -> None:
        self._session.cert = (
            self._in_file("plugin-certificate", certificate.encode()),
            self._in_file("plugin-key", key.encode()),
        )


def _body(answer: Any) -> dict[str, Any] | None:
    try:
        body = answer.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _root(error: BaseException) -> BaseException:
    """The innermost error, which has the cause: the client library wraps it four times."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return printable(str(error) or type(error).__name__)[:300]


def _is_on_this_machine(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
