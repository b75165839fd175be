"""Commands and flags of other tools that people may type here, each with the right one.

Called by `main.py` and `words.py` for an unknown word, before they suggest one with a similar spelling: a similar word
may have the opposite meaning.
"""

from __future__ import annotations

from collections.abc import Mapping

_DOWNGRADE = (
    "to downgrade a feature, run kafkafeatures downgrade --feature NAME=LEVEL --bootstrap-server HOST:PORT, which "
    "shows what may be lost, and asks first; see docs/how-to/go-back.md"
)
_BACK = (
    f"{_DOWNGRADE}; to go back from a migration to KRaft, set spec.migration.desired to RolledBack; see "
    "docs/how-to/migrate-to-kraft.md"
)
_REFERENCE = "see docs/reference/commands.md"
_RAISE = f"kafkafeatures upgrade raises a cluster to a release, kafkafeatures apply to a document; {_REFERENCE}"
_ROLL = f"kafkafeatures restart restarts the nodes of a resource on Kubernetes; {_REFERENCE}"
_WATCH = f"kafkafeatures describe --watch shows a cluster on a terminal, kafkafeatures serve in a browser; {_REFERENCE}"
_PLAN = f"kafkafeatures plan -f FILE checks a document and shows what it would change; {_REFERENCE}"
_SHOW = (
    "kafkafeatures list shows all resources, kafkafeatures status NAME one of them, kafkafeatures describe a cluster; "
    f"{_REFERENCE}"
)
_PAGE = f"kafkafeatures serve shows live pages in a browser; {_REFERENCE}"
_PROFILE = (
    "profiles are tables [profiles.NAME] in ~/.config/kafkafeatures/config.toml, and --profile NAME uses one; see "
    "docs/how-to/connect.md"
)
_CHECK = f"kafkafeatures check shows what is not healthy, and with --rights which rights are missing; {_REFERENCE}"
_DESCRIBE = f"kafkafeatures describe shows levels, nodes, quorum and ghost registrations of a cluster; {_REFERENCE}"
_UNREGISTER = (
    "kafkafeatures unregister removes the registration of a broker or a controller that no longer exists; "
    f"kafkafeatures downgrade --feature NAME=0 turns a feature off; {_REFERENCE}"
)
_LEVELS = (
    "kafkafeatures describe --explain-levels shows every level with its releases, kafkafeatures upgrade --release X "
    "--dry-run which steps a cluster needs, in their order; see docs/reference/levels.md"
)
ANSWERS: Mapping[str, str] = {
    word: answer
    for words, answer in (
        ("config context login profile profiles use", _PROFILE),
        ("delete remove", _UNREGISTER),
        ("diff lint preview validate", _PLAN),
        ("dashboard ui", _PAGE),
        ("disable lower", _DOWNGRADE),
        ("feature-dependencies version-mapping", _LEVELS),
        ("features get show", _SHOW),
        ("enable finalize raise update", _RAISE),
        ("acls doctor health ping rights", _CHECK),
        ("brokers controllers ghosts nodes quorum", _DESCRIBE),
        ("revert rollback undo", _BACK),
        ("rollout", _ROLL),
        ("watch", _WATCH),
    )
    for word in words.split()
}
"""Remedy by word."""
_WITHOUT_DOCUMENT = "without a document, use kafkafeatures upgrade --release X, and --dry-run for the plan alone"
_SERVER = "use --bootstrap-server HOST:PORT"
_OF_FILES = "log reads files of a metadata log; kafkafeatures describe reads a cluster"
FLAGS: Mapping[str, str] = {
    **{f"{command} {flag}": _WITHOUT_DOCUMENT for command in ("plan", "apply")
       for flag in ("--release", "--release-version", "--feature", "--bootstrap-server", "--bootstrap-controller")},
    "downgrade --release": "name each feature, such as --feature metadata.version=4.1-IV1",
    "downgrade --release-version": "name each feature, such as --feature metadata.version=4.1-IV1",
    "log --bootstrap-server": _OF_FILES,
    "log --bootstrap-controller": _OF_FILES,
    "log -f": _OF_FILES,
    "upgrade --metadata": "use --feature metadata.version=LEVEL, or --release X for all levels of a release",
    **{f"{command} {flag}": f"a document is for kafkafeatures apply -f FILE; {command} takes levels from flags"
       for command in ("upgrade", "downgrade") for flag in ("-f", "--file")},
    **{f"approve {flag}": "of a document, a plan is approved by kafkafeatures apply -f FILE --approve HASH"
       for flag in ("-f", "--file")},
    **{f"status {flag}": "kafkafeatures plan -f FILE shows what a document would change" for flag in ("-f", "--file")},
    "unregister --id": "use --broker ID or --controller ID",
    "unregister --dry-run": "leave out --yes: it checks the node and asks before it sends anything",
    "upgrade --to": "use --release X",
    "upgrade --latest": "use --release X; kafkafeatures describe shows the release of each node",
    **dict.fromkeys(("-b", "--broker", "--brokers", "--broker-list"), _SERVER),
    **{f"{command} {flag}": "use --yes to skip confirmation"
       for command in ("apply", "approve", "downgrade", "unregister", "upgrade")
       for flag in ("-y", "--auto-approve", "-auto-approve")},
}  # fmt: skip
"""Remedy by flag, or by command and flag."""
