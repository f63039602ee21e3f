"""tools/schema_diff.py: our declarations equal Kafka's, and the tool finds differences."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEARTBEAT = {
    "apiKey": 12,
    "type": "request",
    "name": "HeartbeatRequest",
    "validVersions": "0-4",
    "flexibleVersions": "4+",
    "fields": [
        {"name": "GroupId", "type": "string", "versions": "0+", "about": "not a // comment"},
        {"name": "GenerationId", "type": "int32", "versions": "0+"},
        {"name": "MemberId", "type": "string", "versions": "0+"},
        {"name": "GroupInstanceId", "type": "string", "versions": "3+", "nullableVersions": "3+", "default": "null"},
    ],
}


def schema_diff(path: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "tools/schema_diff.py", str(path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def a_checkout(folder: Path, definition: object) -> Path:
    place = folder / "clients/src/main/resources/common/message"
    place.mkdir(parents=True, exist_ok=True)
    (place / "HeartbeatRequest.json").write_text(f"// A licence.\n{json.dumps(definition, indent=1)} // the end\n")
    return folder


@pytest.mark.kafka
def test_our_messages_are_those_of_apache_kafka(kafka_libs: Path) -> None:
    assert schema_diff(kafka_libs) == (0, "no difference\n")


def test_a_checkout_is_read_with_its_comments(tmp_path: Path) -> None:
    assert schema_diff(a_checkout(tmp_path, HEARTBEAT)) == (0, "no difference\n")


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (("validVersions",), "0-5", "versions"),
        (("flexibleVersions",), "3+", "flexible since 4, Kafka 3"),
        (("apiKey",), 13, "key 12, Kafka has 13"),
        (("latestVersionUnstable",), True, "last stable version is 3"),
        (("fields", 0, "name"), "Group", "fields"),
        (("fields", 1, "type"), "int64", "type int32, Kafka has int64"),
        (("fields", 1, "versions"), "1+", "generation_id: versions"),
        (("fields", 2, "nullableVersions"), "2+", "member_id: nullable versions"),
        (("fields", 1, "default"), "-1", "generation_id: default 0, Kafka has -1"),
        (("fields", 3, "default"), "", "group_instance_id: default"),
        (("fields", 3, "default"), None, "group_instance_id: default None, Kafka has "),
        (("fields", 2, "flexibleVersions"), "none", "keeps old lengths"),
    ],
)
def test_a_difference_is_named(tmp_path: Path, place: tuple[str | int, ...], value: object, why: str) -> None:
    definition = json.loads(json.dumps(HEARTBEAT))
    inside = definition
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = value
    status, said = schema_diff(a_checkout(tmp_path, definition))
    assert status == 1
    assert why in said


def test_a_folder_without_definitions_is_no_success(tmp_path: Path) -> None:
    assert schema_diff(tmp_path)[0] == 2
