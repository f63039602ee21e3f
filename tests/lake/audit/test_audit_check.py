"""`ottla audit check` on lakes that were loaded, and then harmed."""

import json
import re
import time

import pytest
from tests.spark_rig import Topics

from ottla import lake
from ottla.cli.main import main
from ottla.client.blocking.producer import Producer
from ottla.client.produce.audit_trail import WINDOW_MS, AuditTrail
from ottla.kernel.ids import TopicPartition
from ottla.lake import LakeRefused
from ottla.lake.commands.audit import command
from ottla.records.reader import Record
from ottla.testing import TestBroker

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LONG_AGO = 1_000_000_200_000


@pytest.fixture
def check(bootstrap, tmp_path, capsys):
    def run(*arguments):
        given = ["check", "--to", str(tmp_path / "lake"), "-b", bootstrap, "--format", "json", *arguments]
        status = command(given)
        out = capsys.readouterr().out
        return status, json.loads(out) if out else None

    return run


def test_a_lake_that_holds_all_is_complete_and_one_that_lost_a_file_is_not(load, topics, tmp_path, check):
    topic = topics.new(2)
    for turn in range(3):
        topics.count(topic, turn % 2, 50, start=50 * turn)
        load(topic)
    assert check()[0] == 0
    topics.count(topic, 0, 4, start=500)
    status, told = check()
    assert status == 1 and told["wrong"] == [f"{topic}: 4 offsets wait longer than they may"]
    load(topic)
    assert check()[0] == 0
    file = next((tmp_path / "lake").glob("topic=*/**/*.parquet"))
    body = file.read_bytes()
    file.unlink()
    status, told = check()
    assert status == 1 and any("rows are in the lake, the commit says" in each for each in told["wrong"])
    assert check("--quick")[0] == 0
    file.write_bytes(body)
    (file.parent / f"again-{file.name}").write_bytes(body)
    assert check()[0] == 1


def test_a_round_taken_out_of_the_state_is_found(load, topics, tmp_path, check):
    topic = topics.new()
    for turn in range(3):
        topics.count(topic, 0, 5, start=5 * turn)
        load(topic)
    (tmp_path / "lake/_ottla/publish-0000000001.json").unlink()
    status, told = check()
    assert status == 1 and "round 1 is missing" in told["wrong"]
    assert f"{topic}-0: offsets 5-10 are missing before round 2" in told["wrong"]


def test_a_topic_that_began_later_is_no_missing_round(load, topics, tmp_path, check):
    one, two = topics.new(), topics.new()
    topics.count(one, 0, 5)
    load(one)
    topics.count(two, 0, 3)
    load(one, two, beginning="latest")
    for topic in (one, two):
        topics.count(topic, 0, 5, start=5)
    load(one, two)
    assert check()[:1] == (0,)
    for kind in ("plan", "publish"):
        (tmp_path / f"lake/_ottla/{kind}-0000000002.json").unlink()
    status, told = check()
    assert status == 1 and f"{two}-0: offsets 3-8 are missing before round 3" in told["wrong"]


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_topic_that_has_only_begun_lacks_nothing(load, topics, check, format):
    one, two = topics.new(), topics.new()
    topics.count(one, 0, 5)
    topics.count(two, 0, 3)
    load(one, format=format)
    load(one, two, format=format, beginning="latest")
    assert check()[0] == 0


def test_records_that_were_removed_before_they_were_loaded_are_missing(load, topics, check):
    topic = topics.new()
    topics.count(topic, 0, 5)
    load(topic)
    topics.admin.delete_records({TopicPartition(topic, 0): 5})
    assert check()[0] == 0
    topics.count(topic, 0, 4)
    topics.admin.delete_records({TopicPartition(topic, 0): 9})
    status, told = check()
    assert status == 1 and told["wrong"] == [f"{topic}-0: offsets 5-9 were removed before they were loaded"]
    load(topic, accept_loss=True)
    status, told = check()
    assert status == 1 and told["wrong"] == [f"{topic}-0: retention took 4 offsets before round 1 could load them"]


def test_a_log_that_was_truncated_and_grew_again_is_noticed(spark, tmp_path, capsys):
    """The lake is made to have two records that the log lost when its leader changed."""
    place, topic = tmp_path / "lake", "orders"
    with TestBroker(directory=tmp_path / "broker") as broker:
        topics = Topics(broker.bootstrap_servers)
        topics.admin.create_topic(topic, 1)
        topics.count(topic, 0, 5)
        lake.load([topic], to=place, bootstrap=broker.bootstrap_servers, spark=spark)
    with TestBroker(directory=tmp_path / "broker") as broker:
        Topics(broker.bootstrap_servers).count(topic, 0, 4)
        commit = place / "_ottla/commit-0000000000.json"
        stored = json.loads(commit.read_text())
        commit.write_text(json.dumps({**stored, "offsets": {topic: {"0": 7}}}))
        with pytest.raises(LakeRefused, match=f"{topic}-0 was truncated to offset 5 and was loaded up to 7"):
            lake.load([topic], to=place, bootstrap=broker.bootstrap_servers, spark=spark)
        assert command(["check", "--to", str(place), "-b", broker.bootstrap_servers]) == 1
        assert f"{topic}-0: was truncated to offset 5 and was loaded up to 7" in capsys.readouterr().out
        commit.write_text(json.dumps(stored))
        loaded = lake.load([topic], to=place, bootstrap=broker.bootstrap_servers, spark=spark)
        assert loaded.rows == 4


def test_records_that_have_only_come_may_wait(load, topics, check):
    topic = topics.new()
    topics.count(topic, 0, 5)
    load(topic)
    topics.fill(topic, 0, [Record(0, int(time.time() * 1000), None, b"young")])
    status, told = check()
    assert status == 0 and told["topics"][0]["behind"] == 1
    assert check("--delay", "0ms")[0] == 1


def test_what_producers_counted_is_held_against_the_lake(load, topics, bootstrap, check):
    topic, audit = topics.new(), topics.new()
    times = [LONG_AGO + at * WINDOW_MS // 4 for at in range(12)]
    topics.fill(topic, 0, [Record(0, at, None, b"value") for at in times])
    load(topic)
    trail = AuditTrail(host="h", service="s", clock=lambda: LONG_AGO)
    with Producer(bootstrap) as producer:
        for at in times:
            trail.count(topic, at, 5)
        trail.flush(producer, audit)
        status, told = check("--audit-topic", audit)
        assert status == 0
        assert [(each["told"], each["in_lake"]) for each in told["windows"]] == [(4, 4)] * 3
        trail.count(topic, times[-1], 5)
        trail.flush(producer, audit)
    status, told = check("--audit-topic", audit)
    assert status == 1
    assert told["wrong"] == [f"{topic}: 1 records in 1 windows that tier producer counted are missing"]
    topics.fill(topic, 0, [Record(0, at, None, b"value") for at in (times[-1], times[-1])])
    load(topic)
    status, told = check("--audit-topic", audit)
    assert status == 2 and told["unknown"] == [f"{topic}: 1 records in 1 windows more than tier producer counted"]
    assert check("--audit-topic", audit, "--tolerance", "0.5")[0] == 0
    assert check("--audit-topic", audit, "--since", "2020-01-01")[0] == 0


@pytest.mark.parametrize("key", ["", "n"])
def test_a_delta_table_is_checked_by_what_its_log_tells(load, topics, tmp_path, check, key):
    topic = topics.new()
    for _ in range(2):
        topics.fill(topic, 0, [Record(0, LONG_AGO, None, b'{"n": 1}'), Record(0, LONG_AGO, None, b'{"n": 2}')])
        load(topic, json=True, format="delta", key=key, markers=True)
    assert check()[0] == 0
    mark = tmp_path / f"lake/_ottla/complete/{topic}/date=2001-09-09.json"
    assert json.loads(mark.read_text())["rows"] == 4
    commit = tmp_path / "lake/_ottla/commit-0000000001.json"
    stored = json.loads(commit.read_text())
    stored["rows"][topic]["0"] += 1
    commit.write_text(json.dumps(stored))
    status, told = check()
    assert status == 1 and f"{topic}-0: 4 rows are in the lake, the commit says 5" in told["wrong"]


def test_a_topic_that_the_cluster_lacks_is_behind_by_nobody_knows_how_much(
    load, topics, tmp_path, bootstrap, check, capsys
):
    topic = topics.new()
    topics.count(topic, 0, 5)
    load(topic)
    topics.admin.delete_topics([topic])
    status, told = check()
    assert (status, told["topics"][0]["behind"]) == (2, None)
    assert told["unknown"] == [f"{topic}: the cluster has no such topic"]
    command(["check", "--to", str(tmp_path / "lake"), "-b", bootstrap])
    assert re.search(rf"^{topic} +\S.* \? ", capsys.readouterr().out, re.MULTILINE)


def test_a_lake_into_which_nothing_was_loaded_yet_is_not_complete(load, topics, tmp_path, check):
    topic = topics.new()
    topics.fill(topic, 0, [Record(0, LONG_AGO, None, b"no json")])
    with pytest.raises(LakeRefused, match="`dead_letter=TOPIC`"):
        load(topic, json=True)
    status, told = check()
    assert status == 2 and told["unknown"] == ["nothing was loaded into the lake yet"]


def test_without_a_lake_or_a_cluster_nothing_can_be_told(load, topics, tmp_path, capsys):
    assert main(["audit", "check", "--to", str(tmp_path / "nowhere")]) == 2
    assert "cannot tell: there is no lake" in capsys.readouterr().err
    topic = topics.new()
    topics.count(topic, 0, 5)
    load(topic)
    assert main(["audit", "check", "--to", str(tmp_path / "lake"), "-b", "localhost:1"]) == 2
