"""The audit log of a broker: its events, its file, and what happens when the file goes or fails."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from tests.access.secured import Secured

from ottla.cli.main import main
from ottla.client import Admin
from ottla.client.admin.admin import NewTopic
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.server.audit_log import AuditLog


def login(secured: Secured, user: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(secured.trusted),
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }


def events(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_logins_refusals_and_changes_are_told_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    acls = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    secured = Secured(tmp_path, {"ottla.audit.log": str(path), "super.users": "User:admin", **acls})
    with secured.broker:
        address = "{}:{}".format(*secured.address("SASL_SSL"))
        with Admin(address, security=login(secured, "admin", "secret")) as admin:
            admin.create_topics([NewTopic("audited")])
            admin.set_password("carol", "hunter2", "SCRAM-SHA-256")
        bob = login(secured, "bob", "b")
        with Admin(address, security=bob) as admin:
            admin.delete_topics(["audited"])
        wrong = login(secured, "bob", "guessed")
        with Admin(address, security=wrong, bootstrap_timeout_ms=0) as admin, pytest.raises((ClientError, ApiError)):
            admin.cluster.topics()
    told = events(path)
    changes = {one["api"]: one for one in told if one["event"] == "change"}
    assert changes["CreateTopics"]["principal"] == "User:admin"
    assert changes["CreateTopics"]["asked"]["topics"][0]["name"] == "audited"
    assert changes["CreateTopics"]["outcome"] == ["NONE"]
    assert changes["DeleteTopics"]["principal"] == "User:bob"
    assert changes["DeleteTopics"]["outcome"] == ["TOPIC_AUTHORIZATION_FAILED"]
    assert changes["AlterUserScramCredentials"]["asked"]["upsertions"][0]["name"] == "carol"
    assert {"login", "login refused", "refused"} <= {one["event"] for one in told}
    text = path.read_text()
    assert not [secret for secret in ("hunter2", "guessed", "salt") if secret in text]
    assert main(["audit-log", "verify", str(path)]) == 0
    path.write_text(text.replace("User:bob", "User:eve", 1))
    assert main(["audit-log", "verify", str(path)]) == 1


def test_a_chain_goes_on_over_restarts_and_renamed_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "audit"
    for number in range(3):
        log = AuditLog(str(path), 1)
        log.note({"event": f"{number}"})
        log.stop()
        if number == 1:
            path.rename(tmp_path / "audit.1")
    assert [one["number"] for one in events(path)] == [3]
    assert path.stat().st_mode & 0o777 == 0o600
    assert main(["audit-log", "verify", str(tmp_path / "audit.1"), str(path)]) == 0
    assert "as written: 3 lines" in capsys.readouterr().out
    lines = (tmp_path / "audit.1").read_text().splitlines(keepends=True)
    (tmp_path / "audit.1").write_text(lines[0])
    assert main(["audit-log", "verify", str(tmp_path / "audit.1"), str(path)]) == 1


def test_half_a_line_after_a_crash_is_cut_and_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    log = AuditLog(str(path), 1)
    log.note({"event": "a"})
    log.stop()
    with path.open("a") as file:
        file.write('{"number": 2, "ev')
    log = AuditLog(str(path), 1)
    log.note({"event": "b"})
    log.stop()
    assert [one["event"] for one in events(path)] == ["a", "b"]
    assert main(["audit-log", "verify", str(path)]) == 0
    path.write_text("notes of mine\n")
    with pytest.raises(ValueError, match="does not end in a line of an audit log"):
        AuditLog(str(path), 1)


def test_a_cut_end_is_told_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    log = AuditLog(str(path), 1)
    for name in "abc":
        log.note({"event": name})
    log.stop()
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:1]))
    assert main(["audit-log", "verify", str(path)]) == 1
    AuditLog(str(path), 1).stop()
    assert [one["event"] for one in events(path)] == ["a", "lines are missing"]
    assert events(path)[-1]["synced"] == 3


def test_events_that_find_no_room_or_no_disk_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit"
    held, going = threading.Event(), threading.Event()
    write = AuditLog._write

    def slow(log: AuditLog, batch: list) -> None:
        going.set()
        held.wait(60)
        write(log, batch)

    monkeypatch.setattr("ottla.server.audit_log.MOST_WAITING", 2)
    monkeypatch.setattr(AuditLog, "_write", slow)
    log = AuditLog(str(path), 1)
    log.note({"event": "first"})
    assert going.wait(60)
    for number in range(5):
        log.note({"event": f"{number}"})
    held.set()
    log.stop()
    lost = [one["events"] for one in events(path) if one["event"] == "lost"]
    assert lost == [3]
    assert main(["audit-log", "verify", str(path)]) == 0
