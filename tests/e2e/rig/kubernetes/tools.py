"""kubectl and helm as a person with a kubeconfig runs them, on whatever cluster that leads to."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.rig.kubernetes.audit import AuditLog
from tests.e2e.rig.kubernetes.binaries import binary, build
from tests.e2e.rig.process import ENVIRONMENT, wait_until


class Refused(AssertionError):
    """kubectl or helm did not succeed; the text is what it said."""


def is_true(condition: str, found: dict[str, Any]) -> bool:
    """Whether an object has this condition, with status True."""
    conditions = found.get("status", {}).get("conditions") or []  # null in a CRD that was just made
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)


class Tools:
    """`folder`: of the user; their home too. `audit`: what the API server wrote down."""

    def __init__(self, folder: Path, kubeconfig: Path, audit: AuditLog) -> None:
        build(["kubectl"])
        self.folder, self.kubeconfig, self.audit = folder, kubeconfig, audit

    def kubectl(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002 - as subprocess has it
        kubeconfig: Path | None = None,
    ) -> str:
        """Runs kubectl as the administrator, or with the rights of `kubeconfig`. Raises Refused."""
        return self._run("kubectl", *arguments, input_=input, kubeconfig=kubeconfig)

    def helm(self, *arguments: str, kubeconfig: Path | None = None) -> str:
        """Runs helm as `kubectl` is run."""
        build(["helm"])
        return self._run("helm", *arguments, kubeconfig=kubeconfig)

    def get(self, *arguments: str) -> dict[str, Any]:
        """What `kubectl get` finds, as an object."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return found

    def read(self, path: str) -> dict[str, Any]:
        """What is at a path of the API; empty if nothing is."""
        try:
            found: dict[str, Any] = json.loads(self.kubectl("get", "--raw", path))
        except Refused:
            return {}
        return found

    def token(self, namespace: str, service_account: str, *options: str) -> str:
        """A new one, to act with the rights of a service account."""
        return self.kubectl("create", "token", service_account, "-n", namespace, *options).strip()

    def wait_for_controllers(self) -> None:
        """Wait until the controllers of Kubernetes work, which the first account shows; before that no pod is taken."""
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        wait_until("the controllers work", lambda: self.read(account), 90)

    def apply(self, *objects: dict[str, Any]) -> None:
        content = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "-f", "-", input=json.dumps(content))

    def _run(self, name: str, *arguments: str, input_: str | None = None, kubeconfig: Path | None = None) -> str:
        command = [str(binary(name)), "--kubeconfig", str(kubeconfig or self.kubeconfig), *arguments]
        environment = {**ENVIRONMENT, "HOME": str(self.folder)}
        done = subprocess.run(
            command, input=input_, capture_output=True, text=True, check=False, timeout=300, env=environment
        )
        if done.returncode:
            raise Refused(f"{name} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout
