"""A roll from 4.4 back to 4.1, before metadata.version is that of 4.4. The cluster begins and ends at 4.1. Only with
SOAK=1.
"""

from __future__ import annotations

from tests.e2e.kubernetes.resources import away
from tests.e2e.kubernetes.rolls.rolling import ALL, NAME, QUIET, Rolling
from tests.e2e.rig.kubernetes.racks import Racks
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, NEWEST

SHARE = "share.version"


def test_kafka_4_4_is_rolled_back_to_4_1_after_a_level_that_only_4_4_supports_is_downgraded(
    rolling: Rolling, racks: Racks
) -> None:
    """A controller that starts replays its log since its last snapshot, and stops at a level that it does not support.
    So the operator restarts a controller only once there is a snapshot newer than the downgrade, and says that it waits
    for one.
    """
    with rolling.judged(ALL):
        racks.apply(NEWEST)
        rolling.apply(NAME)
        rolling.until_rolled()
    rolling.apply(NAME, features=levels(2))
    rolling.wait(NAME, "Ready")
    with rolling.judged(()) as judged:
        racks.apply(MIDDLE)
        condition = rolling.until_stalled()
        assert SHARE in condition["message"], condition
        away(QUIET)
        assert judged.evicted == []
        racks.apply(NEWEST)
        rolling.apply(NAME, features=levels(1), consents=[f"{SHARE}:2->1"])
        rolling.wait(NAME, "Ready")
        assert judged.levels() == {SHARE: 1}
    downgraded_at = racks.records()[-1]["offset"]
    with rolling.judged(ALL) as judged:
        racks.apply(MIDDLE)
        wait_until("it says what it waits for", lambda: "newer snapshot" in rolling.waits_for(), 60)
        assert f"{SHARE} 2 was finalized until" in rolling.waits_for()
        assert judged.evicted == []
        judged.until_evicted()
        assert racks.snapshots() > downgraded_at
        rolling.until_rolled()
    rolling.apply(NAME, features=levels(0), consents=[f"{SHARE}:1->0"])  # as the other tests find it
    rolling.wait(NAME, "Ready")


def levels(share: int) -> dict[str, object]:
    return {"levels": [{"name": SHARE, "level": share}]}
