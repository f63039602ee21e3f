"""`ottla mirror` as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.client import Admin
from ottla.testing import TestBroker


def test_a_check_shows_what_would_be_mirrored_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with TestBroker() as us, TestBroker() as eu:
        with Admin(us.bootstrap_servers) as admin:
            admin.create_topic("orders", partitions=2)
            admin.create_topic("eu.clicks", partitions=1)
        ends = ["--from", f"us={us.bootstrap_servers}", "--to", f"eu={eu.bootstrap_servers}"]
        assert main(["mirror", "check", *ends]) == 0
        assert capsys.readouterr().out == "us->eu: orders (2 partitions) to us.orders, which will be made\n"
        assert main(["mirror", "check", *ends, "--set", "replication.factor=3"]) == 1
        assert "us->eu: replication.factor is 3, and eu has 1 brokers" in capsys.readouterr().out
        with Admin(eu.bootstrap_servers) as admin:
            assert [name for name in admin.list_topics() if not name.startswith("__")] == []
        assert (
            main(["mirror", "check", "--from", f"us={us.bootstrap_servers}", "--to", f"eu={us.bootstrap_servers}"]) == 1
        )
        assert "both aliases are the cluster" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--from", "localhost:1", "--to", "eu=localhost:2"], 2, "give the cluster a name, as in us=HOST:PORT"),
        (["--from", "us=localhost:1"], 2, "give --from and --to: --to is missing"),
        (["FILE", "--topics", "a"], 2, "--topics goes without a file, which says that itself"),
        (["FILE"], 1, "Unknown configuration 'us->eu.topcs' (did you mean topics?)"),
        (["--from", "us=localhost:1", "--to", "eu=localhost:2", "--metrics-port", "70000"], 2, "ports are 0 to 65535"),
    ],
)
def test_what_is_typed_wrong_is_told_in_a_line(
    arguments: list[str], code: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = us, eu\nus.bootstrap.servers = localhost:1\neu.bootstrap.servers = localhost:2\n"
        "us->eu.enabled = true\nus->eu.topcs = a\n"
    )
    assert main(["mirror", "start", *(str(file) if each == "FILE" else each for each in arguments)]) == code
    assert says in capsys.readouterr().err
