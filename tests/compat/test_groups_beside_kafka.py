"""The group APIs beside Apache Kafka 4.3.1: the same requests, and the answers compared field by field.

Kafka's answers are kept in `groups_as_kafka_answers.json`, so that ottla is compared without Kafka too;
`OTTLA_REWRITE=1` rewrites the file from a running Kafka.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_kafka import ApacheKafka
from group_dialogue import Dialogue, Wire
from group_scenes import SCENES, Scene
from refused_scenes import REFUSED_SCENES
from transactional_scenes import TRANSACTIONAL_SCENES

from ottla.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic

KEPT = Path(__file__).with_name("groups_as_kafka_answers.json")
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "300",
    "group.max.size": "3",
    "offset.metadata.max.bytes": "8",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "2",
}
PLAYED = [*SCENES, *TRANSACTIONAL_SCENES, *REFUSED_SCENES]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def kafka_port() -> Iterator[int]:
    with ApacheKafka(SETTINGS) as kafka:
        make_topics(kafka.port)
        yield kafka.port


@pytest.fixture(scope="module")
def ottla_port() -> Iterator[int]:
    with tempfile.TemporaryDirectory(prefix="ottla-groups-") as folder:
        options = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
        start = "import sys; from ottla.cli.main import main; sys.exit(main())"
        place = ["--data", folder, "--port", "0", "--http-port", "0"]
        command = [sys.executable, "-c", start, "start", *place, *options]
        broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert broker.stdout is not None
            port = int(broker.stdout.readline().rsplit(":", 1)[1])
            make_topics(port)
            yield port
        finally:
            broker.terminate()
            broker.wait(60)


def make_topics(port: int) -> None:
    wire = Wire(port)
    made = wire.ask(
        7,
        CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in "tu"]
        ),
    )
    assert all(not topic.error_code for topic in made.topics)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        answer = wire.ask(12, MetadataRequest(topics=[MetadataRequestTopic(name="t"), MetadataRequestTopic(name="u")]))
        if all(not topic.error_code and len(topic.partitions) == 2 for topic in answer.topics):
            break
    wire.close()


def played(play: Scene, port: int) -> list[str]:
    """Play a scene; return the answers. Play again with another group while a coordinator loads (error 14)."""
    said = _played(play, port)
    deadline = time.monotonic() + 300
    while any("error_code=14," in line for line in said) and time.monotonic() < deadline:
        said = _played(play, port)
    return said


def _played(play: Scene, port: int) -> list[str]:
    dialogue = Dialogue(port, f"group-{next(_numbers)}")
    try:
        play(dialogue)
    finally:
        dialogue.close()
    assert dialogue.said, "the scene said nothing"
    return dialogue.said


def kept() -> dict[str, list[str]]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


@pytest.mark.parametrize("play", PLAYED, ids=lambda play: play.__name__)
def test_ottla_answers_as_apache_kafka_does(play: Scene, ottla_port: int):
    assert played(play, ottla_port) == kept()[play.__name__]


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("play", PLAYED, ids=lambda play: play.__name__)
def test_apache_kafka_answers_as_it_is_remembered(play: Scene, kafka_port: int):
    said = played(play, kafka_port)
    if os.environ.get("OTTLA_REWRITE"):
        KEPT.write_text(json.dumps({**kept(), play.__name__: said}, indent=1, ensure_ascii=False) + "\n")
    assert said == kept()[play.__name__]


def test_the_dialogue_writes_down_what_it_should(ottla_port: int):
    """A different answer makes a different line, so the comparison can fail."""
    lines = []
    for member_id in ("", "somebody"):
        dialogue = Dialogue(ottla_port, f"group-{next(_numbers)}")
        dialogue.ask("join", dialogue.wire(), 9, dialogue.join(member_id))
        lines.append(dialogue.said)
        dialogue.close()
    assert lines[0] != lines[1]
    assert "<member 1>" in lines[0][0]
