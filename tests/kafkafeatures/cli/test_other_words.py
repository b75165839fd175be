"""Words of other tools, and values of the wrong form, are answered with the right ones."""

from __future__ import annotations

import pytest

from kafkafeatures.cli.shell.main import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("version-mapping", "there is no command 'version-mapping': kafkafeatures describe --explain-levels"),
        ("feature-dependencies", "there is no command 'feature-dependencies': kafkafeatures describe"),
        ("unregister --id 4", "unknown flag --id: use --broker ID or --controller ID; see"),
        (
            "unregister --broker 4 --dry-run",
            "leave out --yes: it checks the node and asks before it sends anything; see",
        ),
        ("unregister --broker 1,2", "invalid node id '1,2': expected the id of one node, such as 4; see"),
        ("unregister --controller -1", "invalid node id '-1': expected"),
        ("unregister --controller 2147483648", "invalid node id '2147483648': expected"),
        ("upgrade -f a.yaml", "unknown flag -f: a document is for kafkafeatures apply -f FILE; upgrade takes"),
        (
            "downgrade --file a.yaml",
            "a document is for kafkafeatures apply -f FILE; downgrade takes levels from flags; see",
        ),
        ("approve orders -f a.yaml", "approved by kafkafeatures apply -f FILE --approve HASH; see"),
        ("status orders -f a.yaml", "kafkafeatures plan -f FILE shows what a document would change; see"),
        ("check --rights --mode drivers", "those of a driver: use --driver StatefulSet; see"),
    ],
)
def test_the_right_word_is_named_on_one_line(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 64
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert message in error
