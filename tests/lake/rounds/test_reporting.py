"""A loader reports its progress: its lag as a consumer group, audit messages, metrics."""

import json
import time
from threading import Event
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.produce.audit_trail import WINDOW_MS, AuditTrail
from ottla.kernel.ids import TopicPartition
from ottla.lake.notes.state import LakeRecords, LakeState
from ottla.lake.reports.exporter import Exporter
from ottla.lake.reports.tiers import added_up
from ottla.lake.rounds.loader import Loader
from ottla.lake.rounds.settings import load_settings
from ottla.records.reader import Record
from ottla.rows.workers import Here
from ottla.stores import LakeRefused, open_store

pytestmark = pytest.mark.slow


def shown(topics, group):
    return {each: commit.offset for each, commit in topics.cluster.committed_offsets(group).items()}


def test_the_lag_of_a_lake_shows_in_a_consumer_group(load, topics, tmp_path):
    topic = topics.new(2)
    topics.count(topic, 0, 5)
    topics.count(topic, 1, 3)
    load(topic)
    name = "ottla-lake-lake-" + json.loads((tmp_path / "lake/_ottla/lake.json").read_text())["loader"][:8]
    assert name in {group.group_id for group in topics.admin.list_groups()}
    committed = LakeRecords(open_store((tmp_path / "lake").as_uri())).committed()
    assert shown(topics, name) == committed.offsets == {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 3}
    topics.count(topic, 0, 2, start=5)
    load(topic, max_offsets=1)
    assert shown(topics, name)[TopicPartition(topic, 0)] == 7


def test_the_group_may_be_named_and_is_told_again_where_it_was_lost(load, topics):
    topic = topics.new()
    topics.count(topic, 0, 5)
    load(topic, group="mine")
    load(topic, group="another")
    assert shown(topics, "mine") == shown(topics, "another") == {TopicPartition(topic, 0): 5}


def test_a_group_that_has_members_is_left_alone_and_fails_no_load(load, topics, bootstrap, caplog):
    topic = topics.new()
    topics.count(topic, 0, 5)
    with Consumer(bootstrap, consumer=ConsumerSettings("taken", enable_auto_commit=False)) as member:
        member.subscribe([topic])
        while not member.assignment:
            member.poll()
        assert load(topic, group="taken").rows == 5
    assert "do not show in group taken" in caplog.text
    assert shown(topics, "taken") == {}


def told_by_the_lake(topics, audit):
    found = added_up([record.value for record in topics.read(audit)])
    return {(each.topic, each.window): each.count for each in found.told if each.tier == "lake"}, found.repeated


def test_the_lake_tells_the_audit_topic_what_each_round_brought(load, topics):
    topic, audit = topics.new(), topics.new()
    for turn, value in enumerate([b"{}", b"poison"]):
        topics.fill(topic, 0, [Record(0, at * WINDOW_MS, None, value) for at in (5, 5, 7)])
        load(topic, json=True, dead_letter=topics.new(), audit=True, audit_topic=audit)
        assert told_by_the_lake(topics, audit) == (
            {(topic, 5): 2 * (turn + 1), (topic, 7): turn + 1},
            0 if turn == 0 else 2,
        )


def test_a_lake_that_loads_the_audit_topic_comes_to_rest(load, topics):
    topic, audit = topics.new(), topics.new()
    topics.count(topic, 0, 5)
    load(topic, audit, audit=True, audit_topic=audit)
    assert load(topic, audit, audit=True, audit_topic=audit).rows == 2, "the message of the first round, sent twice"
    assert load(topic, audit, audit=True, audit_topic=audit).rows == 0


def test_an_audit_topic_that_cannot_be_written_fails_no_load(load, topics, caplog):
    topic = topics.new()
    topics.count(topic, 0, 5)
    assert load(topic, audit=True, audit_topic="no such name!").rows == 5
    assert "audit messages of this loader could not be reported" in caplog.text


def scraped(where):
    with urlopen(f"{where}/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return answer.read().decode()


def metric(text, name):
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {labels.removeprefix(name): float(value) for labels, _, value in lines if labels.partition("{")[0] == name}


def test_metrics_are_served_while_a_loader_runs(topics, bootstrap, tmp_path):
    topic, audit = topics.new(), topics.new()
    now = time.time_ns() // 1_000_000
    topics.fill(topic, 0, [Record(0, now - 2 * WINDOW_MS, None, b"v") for _ in range(4)])
    trail = AuditTrail(host="h", service="s", clock=lambda: now)
    trail.count(topic, now - 2 * WINDOW_MS, 5, records=5)
    with Producer(bootstrap) as producer:
        trail.flush(producer, audit)
    settings = load_settings(
        [topic],
        tmp_path / "lake",
        {"bootstrap": bootstrap, "audit": True, "audit_topic": audit, "metrics_port": 0, "max_offsets": 3},
    )
    stop = Event()
    with LakeState(open_store(settings.url)) as state:
        loader = Loader(settings, state, lambda plan: Here(), lambda _: stop.set())
        where = f"http://127.0.0.1:{loader.metrics_port}"
        try:
            loader.catch_up(stop)
            early = scraped(where)
            loader.catch_up()
            text = scraped(where)
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"{where}/elsewhere")
            with pytest.raises(LakeRefused, match=f"--metrics-port {loader.metrics_port}"):
                Exporter(loader.metrics_port, list)
        finally:
            loader.close()
        with pytest.raises(URLError):
            urlopen(where)
    label = f'{{topic="{topic}"}}'
    assert metric(text, "ottla_lake_rows_total") == {label: 4}
    assert metric(text, "ottla_lake_dead_letters_total") == {label: 0}
    assert [metric(each, "ottla_lake_rounds_total")[""] for each in (early, text)] == [1, 2]
    assert [metric(each, "ottla_lake_behind_offsets")[label] for each in (early, text)] == [1, 0]
    assert metric(text, "ottla_lake_report_faults_total") == {"": 0}
    assert metric(text, "ottla_audit_completeness_ratio") == {f'{{topic="{topic}",tier="producer"}}': 0.8}
    assert metric(text, "ottla_lake_newest_event_seconds")[label] == pytest.approx((now - 2 * WINDOW_MS) / 1000)
