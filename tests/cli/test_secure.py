"""`ottla secure`: the folder, its files, and how they change."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.cli.secure_texts import BrokerPlace, librdkafka_properties, server_properties, with_line
from ottla.client.security import security_of
from ottla.config.properties import parse_properties
from ottla.config.resolve import read_static
from ottla.tls.authority import facts, signed_by


@pytest.fixture
def made(tmp_path: Path) -> Path:
    folder = tmp_path / "made"
    assert main(["secure", "init", "--dir", str(folder), "--host", "b.example.org", "--host", "10.0.0.5"]) == 0
    return folder


def run(folder: Path, *words: str) -> int:
    return main(["secure", *words, "--dir", str(folder)])


def test_keys_and_passwords_are_for_their_owner_alone(made: Path) -> None:
    files = [path for path in made.rglob("*") if path.is_file()]
    readable = {path.name for path in files if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH)}
    assert readable == {"ca.pem", "truststore.p12"}
    for path in files:
        if path.name in readable:
            assert b"PRIVATE KEY" not in path.read_bytes()


def test_a_broker_takes_the_options(made: Path) -> None:
    texts = read_static(file=made / "server.properties").texts
    assert texts["listeners"] == "SASL_SSL://0.0.0.0:9092"
    assert texts["advertised.listeners"] == "SASL_SSL://b.example.org:9092"
    assert {"b.example.org", "10.0.0.5", "localhost"} <= set(facts((made / "broker.pem").read_text())[0].names)
    alone = server_properties(BrokerPlace((), 9092), keystore="k", truststore="t", first_users="f")
    assert "listeners=SASL_SSL://127.0.0.1:9092\n" in alone
    assert "advertised" not in alone


def test_both_files_of_a_user_are_for_the_same_login(made: Path) -> None:
    java = parse_properties((made / "users/admin/client.properties").read_text())
    other = dict(line.split("=", 1) for line in (made / "users/admin/librdkafka.properties").read_text().splitlines())
    assert java["bootstrap.servers"] == other["bootstrap.servers"] == "b.example.org:9092"
    mine, theirs = security_of(java), security_of(other)
    assert (mine.user, mine.password, mine.mechanism) == (theirs.user, theirs.password, theirs.mechanism)
    assert mine.tls.truststore_certificates == (made / "ca.pem").read_text().strip()


def test_nothing_is_overwritten(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    assert run(made, "init") == 1
    assert "nothing is overwritten" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in made.rglob("*") if path.is_file()} == before


def test_a_folder_that_is_half_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "broker.pem").write_text("mine")
    assert run(tmp_path, "init") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["broker.pem"]


def test_users_of_the_first_start_are_added_offline(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(made, "user", "add", "alice", "--offline") == 0
    assert [user["user"] for user in json.loads((made / "first-users.json").read_text())["users"]] == ["admin", "alice"]
    assert run(made, "user", "add", "alice", "--offline") == 1
    assert "secure user rotate alice" in capsys.readouterr().err


def test_a_renewed_certificate_keeps_its_names_and_gets_new_ones(made: Path) -> None:
    before = (made / "broker.pem").read_text()
    assert run(made, "renew", "--host", "c.example.org") == 0
    after = (made / "broker.pem").read_text()
    old, new = facts(before)[0], facts(after)[0]
    assert set(new.names) == {*old.names, "c.example.org"}
    assert old.subject == new.subject
    assert after != before
    assert signed_by(after, (made / "ca.pem").read_text())
    assert (made / "broker.pem").stat().st_mode & 0o777 == 0o600


def test_an_authority_is_replaced_in_three_steps_in_order(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = (made / "ca.pem").read_text()
    for early in ("use", "finish"):
        assert run(made, "rotate-ca", "--step", early) == 2
    assert run(made, "rotate-ca", "--step", "begin") == 0
    assert run(made, "rotate-ca", "--step", "begin") == 2
    assert run(made, "rotate-ca", "--step", "finish") == 2
    both = (made / "ca.pem").read_text()
    assert both.startswith(old)
    client = parse_properties((made / "users/admin/client.properties").read_text())
    assert client["ssl.truststore.certificates"] == both == (made / "users/admin/ca.pem").read_text()
    assert signed_by((made / "broker.pem").read_text(), old)
    assert run(made, "rotate-ca", "--step", "use") == 0
    new = both.removeprefix(old)
    assert signed_by((made / "broker.pem").read_text(), new)
    assert (made / "ca.pem").read_text() == both
    assert run(made, "rotate-ca", "--step", "finish") == 0
    assert (made / "ca.pem").read_text() == new
    assert run(made, "rotate-ca") == 2
    assert "--step begin, use or finish" in capsys.readouterr().err


def test_show_lists_certificates_and_users(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["secure", "show", "--dir", str(made), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["file"] for row in told["certificates"]] == ["broker.pem", "ca.pem"]
    assert told["certificates"][0]["days_left"] in (364, 365)
    assert told["users"] == ["admin"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["init", "--host", "b:9092"], "neither a host's name nor an address"),
        (["init", "--host", "*.example.org"], "has no *"),
        (["init", "--user", "../x"], "cannot name a user"),
        (["init", "--port", "70000"], "is not a port"),
        (["user", "ad", "x"], "did you mean add"),
        (["show"], "was not made by `ottla secure init`"),
    ],
)
def test_wrong_words_are_told_and_nothing_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(tmp_path, *words) != 0
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_line_is_replaced_only_where_there_is_one() -> None:
    text = librdkafka_properties("a:1", "u", "old", "ca.pem")
    assert with_line(text, "sasl.password=new\n") == librdkafka_properties("a:1", "u", "new", "ca.pem")
    for wrong in (text + "sasl.password=x\n", "a=b\n"):
        with pytest.raises(ValueError, match=r"lines sasl\.password"):
            with_line(wrong, "sasl.password=new\n")
