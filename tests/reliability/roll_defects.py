"""Defects of rolls, of what they remember, and of the last second before an effect, that `calibration.py` puts back."""

from __future__ import annotations

from tests.reliability.defect import Defect

CORE = "kafkafeatures.core.roll"

ROLL_DEFECTS = (
    Defect(
        "new-disks",
        "a roll goes past nodes that came back on empty disks",
        f"{CORE}.disks",
        (("                lost.append(node)\n", "                pass\n"),),
        of_rolls=True,
    ),
    Defect(
        "disks-of-restarts-only",
        "a node that was drained in mid-roll and came back on an empty disk is overlooked",
        f"{CORE}.disks",
        (
            (
                "        if is_on_new_disk(before, node):\n",
                "        if is_on_new_disk(before, node) and node.id in flying:\n",
            ),
        ),
        of_rolls=True,
    ),
    Defect(
        "stuck-goes-anyway",
        "a node that cannot run is replaced by what has halted the roll",
        f"{CORE}.halts",
        (
            (
                "    return any(halt.stops(inputs, id_) for halt in chain(unregistered, _halts(inputs)))\n",
                "    return False\n",
            ),
        ),
        of_rolls=True,
    ),
    Defect(
        "crash-forgotten",
        "a roll continues although a node that it restarted has ended by itself",
        f"{CORE}.halts",
        (("    restarted_in_vain,\n    crashed_on_new_revision,\n)", "    restarted_in_vain,\n)"),),
        of_rolls=True,
    ),
    Defect(
        "one-name-for-a-roll",
        "what was restarted is forgotten as soon as the template of another StatefulSet changes, or it is away",
        f"{CORE}.targets",
        (
            (
                "    if rollout.revisions or not rollout.is_in_progress:\n",
                "    if rollout.revisions and rollout.id != roll_id(observation, changes, purpose):\n"
                "        return {}\n"
                "    if rollout.revisions or not rollout.is_in_progress:\n",
            ),
        ),
        of_rolls=True,
    ),
    Defect(
        "in-vain-again",
        "a node that came back as it was is restarted again and again",
        f"{CORE}.halts",
        (("    not_back_in_time,\n    restarted_in_vain,\n    crashed", "    not_back_in_time,\n    crashed"),),
        of_rolls=True,
    ),
    Defect(
        "consents-good-again",
        "a consent is good again once the status is lost that knew of its use",
        "kafkafeatures.core.engine.consents",
        (("    return tuple(sorted((frozenset(used) & unverified) - spent))\n", "    return ()\n"),),
        of_rolls=True,
    ),
    Defect(
        "eviction-not-withheld",
        "an eviction leaves although what it was decided on is too old, or no longer so",
        "kafkafeatures.reconcile.act",
        (
            (
                "    return await context.workloads.restart(step, withheld)\n",
                "    return await context.workloads.restart(step, lambda: None)\n",
            ),
        ),
        of_rolls=True,
    ),
    Defect(
        "stable-by-the-status",
        "that a node came back only moments ago is forgotten with the status",
        f"{CORE}.returned",
        (("if age < stable_for}", "if False}"),),
        of_rolls=True,
    ),
    Defect(
        "document-of-a-moment-ago",
        "an effect leaves although the document was changed, or held back, after it was decided on",
        "kafkafeatures.reconcile.last_second",
        (
            (
                "_changed(evaluation.resource, resource, sent_step) "
                "or too_late(context, evaluation, last_look) or last_look\n",
                "too_late(context, evaluation, last_look) or last_look\n",
            ),
        ),
    ),
)
