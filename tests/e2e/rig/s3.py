"""A real S3 server on this machine: Versity's gateway, with buckets as folders below a folder of its own."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow.fs import FileSystem, LocalFileSystem, S3FileSystem, copy_files

from tests.e2e.rig.kubernetes.binaries import binary, build
from tests.e2e.rig.process import ENVIRONMENT, Daemon, free_port

KEY, SECRET = "tester", "the-secret-of-the-tests"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}


@dataclass(frozen=True)
class S3:
    """port: on loopback. buckets: the folder that has them."""

    daemon: Daemon
    port: int
    buckets: Path

    def uri(self, place: str) -> str:
        """The URI of `bucket/prefix`."""
        return f"s3://{place}?endpoint_override=127.0.0.1:{self.port}&scheme=http"

    @property
    def system(self) -> FileSystem:
        return S3FileSystem(
            access_key=KEY, secret_key=SECRET, region="us-east-1", scheme="http",
            endpoint_override=f"127.0.0.1:{self.port}", allow_bucket_creation=True,
        )  # fmt: skip

    def put(self, place: str, content: bytes) -> None:
        """An object, by a request."""
        with self.system.open_output_stream(place) as file:
            file.write(content)

    def copy(self, folder: Path, place: str) -> None:
        """All files below a folder, by requests."""
        self.system.create_dir(place.split("/", maxsplit=1)[0])
        copy_files(str(folder), place, source_filesystem=LocalFileSystem(), destination_filesystem=self.system)


@contextmanager
def server(folder: Path) -> Iterator[S3]:
    """Running; stopped and its buckets removed at the end."""
    build(["versitygw"])
    port, buckets, users, beside = free_port(), folder / "buckets", folder / "users", folder / "metadata"
    for each in (buckets, users, beside):
        each.mkdir()

    def ready() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    words = f"--port 127.0.0.1:{port} --iam-dir {users} --quiet posix --sidecar {beside} {buckets}"
    environment = {**ENVIRONMENT, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    daemon = Daemon([binary("versitygw"), *words.split()], folder / "versitygw.log", ready, environment)
    daemon.start()
    try:
        yield S3(daemon, port, buckets)
    finally:
        daemon.thaw()
        daemon.kill()
        shutil.rmtree(buckets)
