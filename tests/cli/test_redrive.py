"""`ottla redrive` against a broker: letters of ottla and of Kafka Connect go back where they came from, each once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.cli.main import main
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.model import CommittedOffset, ConsumedRecord, Header
from ottla.jobs.letters import REDRIVEN, Cause, Style, error_headers, lost_parts
from ottla.kernel.ids import TopicPartition

Ran = tuple[int, Any, str]
Redrive = Callable[..., Ran]
NOW_MS = int(time.time() * 1000)


@pytest.fixture
def redrive(bootstrap: str, name: str, capsys: pytest.CaptureFixture[str]) -> Redrive:
    """Runs `ottla redrive NAME.dead --format json ...`: the exit code, the answer and the sentences on stderr."""

    def run(*arguments: str) -> Ran:
        code = main(["redrive", f"{name}.dead", "-b", bootstrap, "--format", "json", *arguments])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else None, err

    return run


@pytest.fixture
def origin(bootstrap: str, name: str) -> str:
    """A topic of three partitions; its dead letter topic has one."""
    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=3)
        admin.create_topic(f"{name}.dead", partitions=1)
    return name


def letter(
    topic: str, offset: int, *, reason: str = "'x' is no number", partition: int = 0, **more: Any
) -> list[Header]:
    style = Style.CONNECT if "stage" in more else Style.OTTLA
    return [("own", b"1"), *error_headers(Cause(topic, partition, offset, reason, **more), style)]


def put(bootstrap: str, topic: str, letters: list[list[Header]], *, size: int = 1) -> None:
    with Producer(bootstrap) as producer:
        for number, headers in enumerate(letters):
            producer.produce(topic, b"v" * size, f"k{number}", headers=headers, timestamp=NOW_MS + number)


def records(bootstrap: str, topic: str) -> list[ConsumedRecord]:
    """All committed records of a topic, by key."""
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        places = consumer.cluster.partitions(topic)
        ends = consumer.cluster.list_offsets(places, -1)
        consumer.assign(places)
        found: list[ConsumedRecord] = []
        while any(consumer.position(place) < ends[place].offset for place in places):
            found += consumer.poll(200)
    return sorted(found, key=lambda record: record.key or b"")


def keys(found: list[ConsumedRecord]) -> list[str]:
    return [(record.key or b"").decode() for record in found]


def test_letters_go_back_without_their_error_headers_and_a_second_run_sends_none(
    bootstrap: str, origin: str, redrive: Redrive
) -> None:
    put(bootstrap, f"{origin}.dead", [letter(origin, 4), letter(origin, 9, stage="VALUE_CONVERTER", partition=2)])
    code, answer, _ = redrive()
    assert (code, answer["sent"], answer["to"]) == (0, 2, {origin: 2})
    found = records(bootstrap, origin)
    assert [(record.value, record.headers, record.timestamp) for record in found] == [
        (b"v", (("own", b"1"), (REDRIVEN, b"1")), NOW_MS + number) for number in range(2)
    ]
    assert redrive()[1]["sent"] == 0
    assert redrive("--all")[1]["sent"] == 2
    assert keys(records(bootstrap, origin)) == ["k0", "k0", "k1", "k1"]
    assert redrive()[1]["sent"] == 0


def test_a_filter_leaves_letters_that_a_later_run_sends_without_sending_any_twice(
    bootstrap: str, origin: str, redrive: Redrive
) -> None:
    put(bootstrap, f"{origin}.dead", [letter(origin, offset) for offset in range(6)])
    _, answer, _ = redrive("--where", "offset>=2", "--where", "offset!=4", "--limit", "2")
    assert (answer["chosen"], answer["sent"]) == (2, 2)
    assert keys(records(bootstrap, origin)) == ["k2", "k3"]
    assert redrive("-w", "offset=5")[1]["sent"] == 1
    _, answer, _ = redrive()
    assert (answer["sent"], answer["sent_before"]) == (3, 3)
    assert keys(records(bootstrap, origin)) == [f"k{number}" for number in range(6)]


def test_a_dry_run_counts_letters_by_their_reasons_and_sends_none(
    bootstrap: str, origin: str, redrive: Redrive
) -> None:
    put(
        bootstrap, f"{origin}.dead",
        [letter(origin, 1, reason="'a' is no number"), letter(origin, 2, reason="'b' is no number"),
         letter(origin, 3, reason="no day", stage="KEY_CONVERTER")],
    )  # fmt: skip
    _, answer, _ = redrive("--dry-run")
    assert (answer["sent"], answer["to"]) == (0, {origin: 3})
    assert answer["kinds"] == [
        {"topic": origin, "stage": None, "reason": "'…' is no number", "letters": 2},
        {"topic": origin, "stage": "KEY_CONVERTER", "reason": "no day", "letters": 1},
    ]
    assert not records(bootstrap, origin)
    with Admin(bootstrap) as admin:
        assert not admin.committed_offsets(f"ottla-redrive-{origin}.dead")


def test_letters_go_to_the_partition_they_came_from_or_to_another_topic(
    bootstrap: str, origin: str, redrive: Redrive
) -> None:
    put(bootstrap, f"{origin}.dead", [letter(origin, 1, partition=number) for number in (2, 1, 7)])
    code, answer, _ = redrive("--same-partition")
    assert (code, answer["sent"]) == (1, 2)
    assert "no partition 7" in next(iter(answer["left"]))
    assert [record.partition for record in records(bootstrap, origin)] == [2, 1]
    with Admin(bootstrap) as admin:
        admin.create_topic(f"{origin}.again", partitions=1)
    code, answer, _ = redrive("--to", f"{origin}.again")
    assert (code, answer["to"]) == (0, {f"{origin}.again": 1})
    assert keys(records(bootstrap, f"{origin}.again")) == ["k2"]


def test_letters_that_cannot_be_sent_stay_for_a_later_run_and_are_counted_by_why(
    bootstrap: str, origin: str, redrive: Redrive
) -> None:
    dead = f"{origin}.dead"
    whole = letter(origin, 1)
    put(bootstrap, dead, [
        [("own", b"1")], letter("never-was", 1), [*whole, *lost_parts(b"k", b"v" * 9, 4, 0)], letter(dead, 1),
        [("ottla.topic", b"t"), ("ottla.offset", b"x")], whole,
    ])  # fmt: skip
    code, answer, _ = redrive()
    assert (code, answer["sent"], sum(answer["left"].values())) == (1, 1, 5)
    told = "\n".join(answer["left"])
    for part in ("no header says", "no topic never-was", "only a part", "dead letter topic itself", "not a number"):
        assert part in told
    assert redrive()[1]["left"] == answer["left"]


def test_a_record_that_the_topic_refuses_is_left_and_its_neighbours_are_sent(
    bootstrap: str, origin: str, redrive: Redrive
) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(f"{origin}.small", partitions=1, configs={"max.message.bytes": "2000"})
    dead = f"{origin}.dead"
    put(bootstrap, dead, [letter(f"{origin}.small", offset) for offset in range(2)])
    with Producer(bootstrap) as producer:
        producer.produce(dead, bytes(range(256)) * 64, "large", headers=letter(f"{origin}.small", 2))
        noise = b"".join(number.to_bytes(3, "big") for number in range(7_000))
        producer.produce(dead, noise, "larger", headers=letter(f"{origin}.small", 3))
    put(bootstrap, dead, [letter(f"{origin}.small", 4)])
    code, answer, _ = redrive()
    assert (code, answer["sent"], sum(answer["left"].values())) == (1, 4, 1)
    assert "refuses it" in next(iter(answer["left"]))
    assert redrive()[1]["sent_before"] == 4


def test_a_topic_made_anew_is_read_from_its_start(bootstrap: str, origin: str, redrive: Redrive) -> None:
    dead = f"{origin}.dead"
    put(bootstrap, dead, [letter(origin, 1)])
    assert redrive()[1]["sent"] == 1
    with Admin(bootstrap) as admin:
        admin.delete_topics([dead])
        admin.create_topic(dead, partitions=1)
    put(bootstrap, dead, [letter(origin, 2)])
    assert redrive()[1]["sent"] == 1


def test_what_is_not_understood_is_refused_with_a_remedy(bootstrap: str, origin: str, redrive: Redrive) -> None:
    for arguments, says in (
        (("--where", "topik=a"), "did you mean topic"),
        (("--limit", "0"), "at least 1"),
        (("--to", "x", "--same-partition"), "does not go with --to"),
    ):
        code, _, err = redrive(*arguments)
        assert (code, says in err) == (2, True)
    code, _, err = redrive("--to", f"{origin}.dead")
    assert (code, "name another topic" in err) == (1, True)
    code, _, err = redrive("--to", "never-was")
    assert (code, "never-was" in err) == (1, True)
    with Admin(bootstrap) as admin:
        admin.commit_offsets("others", {TopicPartition(f"{origin}.dead", 0): CommittedOffset(3)})
    code, _, err = redrive("--group", "others")
    assert (code, "--group" in err) == (1, True)


def test_a_run_that_another_one_took_over_from_sends_nothing_more(
    bootstrap: str, origin: str, redrive: Redrive
) -> None:
    put(bootstrap, f"{origin}.dead", [letter(origin, 1)])
    with Producer(bootstrap, transactional_id=f"ottla-redrive-{origin}.dead") as killed:
        killed.init_transactions()
        killed.begin_transaction()
        killed.produce(origin, "half", "half")
        killed.flush()
        assert redrive()[1]["sent"] == 1
    assert keys(records(bootstrap, origin)) == ["k0"]


def test_people_get_a_table_and_one_sentence(bootstrap: str, origin: str, capsys: pytest.CaptureFixture[str]) -> None:
    put(bootstrap, f"{origin}.dead", [letter(origin, 1), letter(origin, 2, stage="VALUE_CONVERTER"), []])
    assert main(["redrive", f"{origin}.dead", "-b", bootstrap]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["LETTERS", "FROM", "STAGE", "REASON"]
    assert out.splitlines()[-1] == f"2 letters sent: 2 to {origin}"
    assert "1 letter left" in err
