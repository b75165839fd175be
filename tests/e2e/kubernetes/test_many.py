"""Hundreds of resources on one operator, a thousand of them in a soak: all settle, and none starves."""

from __future__ import annotations

import os

import pytest

from tests.amounts import SOAK
from tests.e2e.kubernetes.many import Many
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.operator import USER

COUNT = int(os.environ.get("MANY") or (1000 if SOAK else 300))


def test_many_resources_settle_within_bounds_before_and_after_a_restart(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Many(control_plane, tmp_path_factory.mktemp("operator"), COUNT) as many:
        mark = control_plane.audit.mark()
        many.create()
        many.wait_settled()
        assert many.operator.metric("kafkafeatures_reconciliations_total", result="failed") == 0
        print(f"raised: {many.figures(mark)}")
        # The longest time, in seconds, that one of 50 changed resources waited for its reconciliation.
        assert many.touch(50) <= 2.0

        many.operator.stop()
        mark = control_plane.audit.mark()
        # The clusters are simulated in the operator's process: after its restart they are at 3.9 again, with the same
        # ids.
        many.operator.start()
        many.wait_passed()
        print(f"started anew: {many.figures(mark)}")
        assert {row.code for row in control_plane.audit.rows(mark, user=USER)} <= {200, 201}
