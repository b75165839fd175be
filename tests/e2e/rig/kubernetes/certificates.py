"""Who is who in the cluster: one CA, a certificate for each component, the key that signs tokens; kubeconfig files."""

from __future__ import annotations

import json
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

KUBERNETES_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


class Authority:
    """The files lie in `folder`: ca.crt, <name>.crt, <name>.key, tokens.key, tokens.pub, <name>.kubeconfig."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._ca = trustme.CA(organization_name="rig")
        self._ca.cert_pem.write_to_path(self.ca)
        tokens = rsa.generate_private_key(65537, 2048)
        private = tokens.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        public = tokens.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (folder / "tokens.key").write_bytes(private)
        (folder / "tokens.pub").write_bytes(public)

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    def issue(self, name: str, *identities: str, user: str = "", group: str = "none") -> tuple[Path, Path]:
        """(certificate, key). To the API server, the common name is the user and the organization a group."""
        made = self._ca.issue_cert(
            *(identities or ("localhost",)),
            common_name=user or name,
            organization_name=group,
            organization_unit_name="rig",
        )
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        made.cert_chain_pems[0].write_to_path(certificate)
        made.private_key_pem.write_to_path(key)
        return certificate, key

    def kubeconfig(self, name: str, server: str, *, user: str = "", group: str = "none") -> Path:
        """A file to act as this user with a certificate."""
        certificate, key = self.issue(name, user=user, group=group)
        credential = {"client-certificate": str(certificate), "client-key": str(key)}
        return self._write(name, server, credential, "default")

    def token_kubeconfig(self, name: str, server: str, token: str, namespace: str) -> Path:
        return self._write(name, server, {"token": token}, namespace)

    def _write(self, name: str, server: str, credential: dict[str, str], namespace: str) -> Path:
        path = self.folder / f"{name}.kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "rig",
            "clusters": [{"name": "rig", "cluster": {"server": server, "certificate-authority": str(self.ca)}}],
            "users": [{"name": "user", "user": credential}],
            "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "user", "namespace": namespace}}],
        }
        path.write_text(json.dumps(content, indent=1))
        path.chmod(0o600)
        return path
