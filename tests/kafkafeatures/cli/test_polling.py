"""Commands with `--watch`: they print a list only when it has changed, and say when the API server is away."""

from __future__ import annotations

from itertools import islice
from typing import cast

import pytest

from kafkafeatures.cli.kube import polling
from kafkafeatures.cli.kube.api import Away, Kube
from kafkafeatures.cli.kube.polling import changes
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.shell.exit_codes import Exit
from tests.kafkafeatures import statuses
from tests.kafkafeatures.statuses import resource

AWAY = Away("away", Exit.UNREACHABLE)


def test_watching_prints_changes_deletions_and_outages_and_no_unchanged_resource(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(polling, "EVERY", 0.0)
    acting, done, other = resource(statuses.acting()), resource(statuses.in_sync()), resource(name="other")
    read: list[list[KubeResource] | Away] = [
        [acting, other], [acting, other], AWAY, AWAY, [acting, other], [done, other], [done], [],
    ]  # fmt: skip

    def next_one() -> list[KubeResource]:
        found = read.pop(0)
        if isinstance(found, Away):
            raise found
        return found

    class Server:
        request_timeout = 0.0

    shown = changes(cast(Kube, Server()), next_one, lambda one: one.without_version)
    assert list(islice(shown, 2)) == [[acting, other], [done]]
    with pytest.raises(IndexError):  # all readings are consumed, and nothing more was shown
        next(shown)
    assert capsys.readouterr().err.splitlines() == ["away", "kafka/other was deleted", "kafka/orders was deleted"]


def test_a_new_resource_version_alone_is_no_change_of_a_resource() -> None:
    one = resource(statuses.in_sync(), resourceVersion="8", managedFields=[])
    assert one.without_version == resource(statuses.in_sync()).without_version
