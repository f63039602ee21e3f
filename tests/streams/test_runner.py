"""Topologies run over a broker: exactly once, also through kill -9 and a restart."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.streams.topologies import spread_by_value

from ottla.cli.main import main
from ottla.client import Admin, Producer
from ottla.streams import (
    INT64,
    TEXT,
    ProcessingError,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyError,
    query,
    run,
    runner,
)
from ottla.testing import TestBroker

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "wordcount.py"
OPTIONS = {"group.min.session.timeout.ms": 100, "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker(OPTIONS) as made:
        with Admin(made.bootstrap_servers) as admin:
            admin.create_topic("word-lines", 2)
            admin.create_topic("word-counts", 1)
        yield made


def words() -> Topology:
    builder = StreamsBuilder(value=TEXT)
    split = builder.stream("word-lines").flat_map_values(str.split)
    split.group_by(lambda _, word: word).count(store="counts").to_stream().map_values(str).to("word-counts")
    return builder.build()


def write(broker: TestBroker, *lines: str) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for at, line in enumerate(lines):
            producer.produce("word-lines", line, partition=at % 2)


def counted(broker: TestBroker, at_least: int) -> list[tuple[str, int]]:
    records = broker.records("word-counts", at_least=at_least, isolation_level="read_committed", timeout=60)
    return [((record.key or b"").decode(), int(record.value or b"")) for record in records]


@contextmanager
def running(broker: TestBroker, topology: Callable[[], Topology] = words, **options: Any) -> Iterator[None]:
    stop, failed = threading.Event(), []

    def work() -> None:
        try:
            run(topology(), application_id="app", stop=stop, **{"bootstrap": broker.bootstrap_servers, **options})
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    assert not failed
    assert not thread.is_alive()


def test_a_new_application_may_begin_at_the_ends_of_its_topics_and_goes_on_from_there(broker: TestBroker) -> None:
    def fresh() -> Topology:
        builder = StreamsBuilder(value=TEXT)
        lines = builder.stream("word-lines", key=TEXT, offset_reset="latest")
        lines.map_values(lambda _: "1").to("word-counts", key=TEXT)
        return builder.build()

    def keyed(*keys: str) -> None:
        with Producer(broker.bootstrap_servers) as producer:
            for key in keys:
                producer.produce("word-lines", "line", key)

    keyed("old", "older")
    with running(broker, fresh):
        broker.wait_for(lambda: _committed(broker), what="the ends were committed")
        keyed("new")
        assert counted(broker, 1) == [("new", 1)]
    keyed("meanwhile")
    with running(broker, fresh):
        assert counted(broker, 2) == [("new", 1), ("meanwhile", 1)]


def _committed(broker: TestBroker) -> bool:
    with Admin(broker.bootstrap_servers) as admin:
        return len(admin.committed_offsets("app")) == 2


def test_words_are_counted_through_a_repartition_topic_and_a_restart_goes_on_counting(broker: TestBroker) -> None:
    write(broker, "so it is", "so")
    with running(broker):
        assert sorted(counted(broker, 4)) == [("is", 1), ("it", 1), ("so", 1), ("so", 2)]
    assert broker.records("app-counts-repartition")
    changelog = {record.key: record.value for record in broker.records("app-counts-changelog")}
    assert changelog[b"so"] == INT64.write(2)
    write(broker, "so")
    with running(broker):
        assert counted(broker, 5)[4:] == [("so", 3)]


def test_two_instances_share_the_work_and_one_goes_on_when_the_other_ends(broker: TestBroker) -> None:
    with running(broker):
        write(broker, *["a b c d e f"] * 20)
        with running(broker):
            counted(broker, 120)
            write(broker, *["a b c d e f"] * 20)
            counted(broker, 240)
        write(broker, *["a b c d e f"] * 20)
        found = counted(broker, 360)
    for letter in "abcdef":
        assert [count for word, count in found if word == letter] == list(range(1, 61))


def test_records_of_repartition_topics_are_deleted_once_they_are_committed(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PURGE_S", 0.0)
    write(broker, "so it is")
    with running(broker):
        counted(broker, 3)
        broker.wait_for(lambda: not broker.records("app-counts-repartition"), what="the records were deleted")


def started(broker: TestBroker) -> subprocess.Popen[bytes]:
    code = (
        "import sys; from ottla.streams import run; from ottla.streams.named import found_topology; "
        "run(found_topology(sys.argv[1]), application_id='app', bootstrap=sys.argv[2], max_poll_records=20, "
        "session_timeout_ms=1000, transaction_timeout_ms=1000)"
    )
    return subprocess.Popen([sys.executable, "-c", code, str(EXAMPLE), broker.bootstrap_servers], env=os.environ)


def test_a_kill_in_the_middle_counts_no_word_twice_and_none_less(broker: TestBroker) -> None:
    write(broker, *["one two one"] * 200)
    first = started(broker)
    try:
        counted(broker, 30)
    finally:
        first.kill()
        first.wait()
    write(broker, *["one two one"] * 200)
    second = started(broker)
    try:
        found = counted(broker, 1200)
        second.send_signal(signal.SIGTERM)
        assert second.wait(60) == 0
    finally:
        second.kill()
        second.wait()
    assert [count for word, count in found if word == "one"] == list(range(1, 801))
    assert [count for word, count in found if word == "two"] == list(range(1, 401))


def test_a_failing_function_ends_the_run_with_its_node_and_place_and_leaves_nothing(broker: TestBroker) -> None:
    builder = StreamsBuilder(value=TEXT)
    builder.stream("word-lines").map_values(lambda line: line[9], name="ninth").to("word-counts")
    write(broker, "long enough", "short")
    with pytest.raises(ProcessingError, match=r"ninth failed for the record at word-lines-1@0: IndexError"):
        run(builder.build(), application_id="app", bootstrap=broker.bootstrap_servers)


def test_a_global_table_is_read_before_the_first_record_and_followed_and_waiting_windows_survive_a_restart(
    broker: TestBroker,
) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("names", 2)

    def named() -> Topology:
        builder = StreamsBuilder(key=TEXT, value=TEXT)
        joined = builder.stream("word-lines").join(
            builder.global_table("names"), lambda line, name: f"{line} {name}", table_key=lambda _, line: line
        )
        windows = joined.group_by_key().windowed_by(TimeWindows(10))
        last = windows.reduce(lambda _, line: line).suppress_until_window_closes(name="held")
        last.to_stream().map(lambda window, line: (window.key, line)).to("word-counts")
        return builder.build()

    def send(topic: str, key: str, value: str, timestamp: int) -> None:
        with Producer(broker.bootstrap_servers) as producer:
            producer.produce(topic, value, key, timestamp=timestamp)

    def results(count: int) -> list[bytes | None]:
        found = broker.records("word-counts", at_least=count, isolation_level="read_committed", timeout=60)
        return [record.value for record in found]

    send("names", "a", "anna", 0)
    send("word-lines", "k", "a", 5)
    with running(broker, named):
        broker.wait_for(lambda: broker.records("app-held-store-changelog"), what="it waits")
    send("names", "a", "anton", 0)
    send("word-lines", "k", "a", 15)
    with running(broker, named, stores="disk"):
        assert results(1) == [b"a anna"]
        send("word-lines", "k", "a", 25)
        assert results(2) == [b"a anna", b"a anton"]


def test_records_that_wait_for_a_join_with_grace_survive_a_restart(broker: TestBroker) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("prices", 2)

    def priced() -> Topology:
        builder = StreamsBuilder(key=TEXT, value=TEXT)
        prices = builder.table("prices", history_ms=100, store="prices")
        builder.stream("word-lines").join(prices, lambda order, price: order + price, grace_ms=10, name="priced").to(
            "word-counts"
        )
        return builder.build()

    def send(topic: str, value: str, timestamp: int) -> None:
        with Producer(broker.bootstrap_servers) as producer:
            producer.produce(topic, value, "k", timestamp=timestamp)

    send("word-lines", "a", 20)
    with running(broker, priced):
        broker.wait_for(lambda: broker.records("app-priced-Buffer-changelog"), what="it waits")
    send("prices", "1", 15)
    send("prices", "2", 25)
    with running(broker, priced, stores="disk"):
        broker.wait_for(lambda: len(broker.records("app-prices-changelog")) == 2, what="prices")
        send("word-lines", "b", 31)
        (record,) = broker.records("word-counts", at_least=1, isolation_level="read_committed", timeout=60)
    assert (record.value, record.timestamp) == (b"a1", 20)


def matched() -> Topology:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    counted = builder.stream(re.compile("word-lines-.*")).group_by_key().count(store="counts")
    counted.to_stream().map_values(str).merge(builder.stream("word-lines")).to("word-counts")
    return builder.build()


def test_two_instances_take_in_topics_that_match_a_pattern_later_and_count_each_record_once(
    broker: TestBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    keys = [f"k{at}" for at in range(8)]
    options = {"kafka": {"metadata.max.age.ms": "200"}}

    def fill(number: int) -> None:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic(f"word-lines-{number}", 2)
        with Producer(broker.bootstrap_servers) as producer:
            for key in keys:
                producer.produce(f"word-lines-{number}", "v", key)

    with pytest.raises(TopologyError, match=r"no topic matches word-lines-\.\* .*make the first one"):
        run(matched(), application_id="app", bootstrap=broker.bootstrap_servers)
    fill(1)
    with running(broker, matched, **options), running(broker, matched, **options):
        counted(broker, 8)
        fill(2)
        counted(broker, 16)
        fill(3)
        found = counted(broker, 24)
    fill(4)
    with running(broker, matched):
        found = counted(broker, 32)
    assert {key: [count for each, count in found if each == key] for key in keys} == {key: [1, 2, 3, 4] for key in keys}
    status = ["streams", "status", "--application-id", "app", "--format", "json"]
    assert main([*status, "-b", broker.bootstrap_servers]) == 0
    lag = json.loads(capfd.readouterr().out)["lag"]
    assert lag == {f"word-lines-{number}": 0 for number in range(1, 5)}
    answer = query(matched(), "counts", application_id="app", bootstrap=broker.bootstrap_servers, key="k3")
    assert [row.value for row in answer.rows] == [4]


def test_topics_that_match_a_pattern_later_are_read_from_their_beginnings_though_a_new_application_begins_at_the_end(
    broker: TestBroker,
) -> None:
    def fresh() -> Topology:
        builder = StreamsBuilder(value=TEXT)
        lines = builder.stream(re.compile("word-lin.*"), key=TEXT, offset_reset="latest")
        lines.map_values(lambda _: "1").to("word-counts", key=TEXT)
        return builder.build()

    def send(topic: str, key: str) -> None:
        with Producer(broker.bootstrap_servers) as producer:
            producer.produce(topic, "line", key)

    send("word-lines", "old")
    with running(broker, fresh):
        broker.wait_for(lambda: _committed(broker), what="the ends were committed")
        send("word-lines", "new")
        assert counted(broker, 1) == [("new", 1)]
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("word-lines-2", 2)
    send("word-lines-2", "first")
    with running(broker, fresh):
        assert counted(broker, 2) == [("new", 1), ("first", 1)]
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("word-lines-3", 3)
    with pytest.raises(TopologyError, match="word-lines-3 has 3"):
        run(fresh(), application_id="app", bootstrap=broker.bootstrap_servers)


def test_a_partitioner_chooses_the_partitions_of_results(broker: TestBroker) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("spread", 3)

    def spread() -> Topology:
        builder = StreamsBuilder(key=TEXT, value=TEXT)
        builder.stream("word-lines").to("spread", partitioner=spread_by_value)
        return builder.build()

    write(broker, "one", "all", "none", "by key")
    with running(broker, spread):
        found = broker.records("spread", at_least=5, isolation_level="read_committed", timeout=60)
    assert sorted((record.value, record.partition) for record in found if record.value != b"by key") == [
        (b"all", 0), (b"all", 1), (b"all", 2), (b"one", 2),
    ]  # fmt: skip


def test_dead_letters_of_a_run_go_back_by_redrive_and_are_processed_once(
    broker: TestBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    builder = StreamsBuilder(value=TEXT)
    numbers = builder.stream("word-lines").map_values(int, name="number")
    numbers.map_values(lambda n: str(1000 // (n - n % 10)), name="share").to("word-counts")
    write(broker, "25", "no number", "7", "51")
    with running(broker, builder.build, dead_letter="dead"):
        letters = broker.records("dead", at_least=2, isolation_level="read_committed", timeout=60)
        assert sorted(letter.value for letter in letters) == [b"7", b"no number"]
        with Producer(broker.bootstrap_servers) as producer:
            producer.produce("word-lines", "100", partition=0)
        broker.records("word-counts", at_least=3, isolation_level="read_committed", timeout=60)
        assert main(["redrive", "dead", "--where", "reason~ZeroDivision", "-b", broker.bootstrap_servers]) == 0
        assert "1 letter sent: 1 to word-lines" in capfd.readouterr().out
        again = broker.records("dead", at_least=3, isolation_level="read_committed", timeout=60)[-1]
    assert (again.value, dict(again.headers)["ottla.redriven"]) == (b"7", b"1")
    found = broker.records("word-counts", isolation_level="read_committed")
    assert sorted(record.value or b"" for record in found) == [b"10", b"20", b"50"]


def test_stores_answer_over_http_while_it_runs_and_from_the_changelog_when_it_does_not(
    broker: TestBroker, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    write(broker, "so it is", "so")
    where = ["-b", broker.bootstrap_servers]
    with running(broker, query_port=0):
        counted(broker, 4)
        url = next(record.args[0] for record in caplog.records if record.msg.startswith("queries are"))  # type: ignore[index]
        ask = ["streams", "query", str(EXAMPLE), "counts", "--url", str(url)]

        def processed() -> bool:
            assert main([*ask, "so"]) == 0
            out = capfd.readouterr()
            assert out.out.splitlines()[-1].split()[:2] == ["so", "2"]
            return "0 records of the input not processed yet" in out.err

        broker.wait_for(processed, what="the instance has read the ends of its own transactions")
        with urllib.request.urlopen(f"{url}") as status:
            shown = json.load(status)
        assert (shown["application"], shown["stores"], shown["lag"]) == ("app", {"counts": 3}, 0)
        with urllib.request.urlopen(f"{url}/topology") as picture:
            drawn = picture.read().decode()
        assert picture.headers["Content-Type"] == "image/svg+xml"
        assert all(name in drawn for name in ("word-lines", "word-counts", "counts"))
        with urllib.request.urlopen(f"{url}/metrics") as metrics:
            lines = dict(line.rsplit(" ", 1) for line in metrics.read().decode().splitlines() if line[0] != "#")
        assert lines['kafka_streams_stream_topic_records_consumed_total{topic="word-lines"}'] == "2"
        assert lines['kafka_streams_stream_topic_records_produced_total{topic="word-counts"}'] == "4"
        assert lines['kafka_streams_stream_state_num_keys{store="counts"}'] == "3"
        assert lines['kafka_consumer_consumer_fetch_manager_records_lag{topic="word-lines",partition="0"}'] == "0"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}/stores/count/so")
        assert "did you mean counts" in json.load(refused.value)["message"]
    write(broker, "so")
    ask = ["streams", "query", str(EXAMPLE), "counts", "--application-id", "app", "--format", "json", *where]
    assert main([*ask, "--prefix", "i"]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert [(row["key"], row["value"]) for row in shown["rows"]] == [("is", 1), ("it", 1)]
    assert (shown["partitions"], shown["of"], shown["age"]["lag"]) == ([0, 1], 2, 1)
    answer = query(words(), "counts", application_id="app", bootstrap=broker.bootstrap_servers, key="so")
    assert [(row.key, row.value) for row in answer.rows] == [("so", 2)]
    assert main(["streams", "query", str(EXAMPLE), "counts", "--application-id", "ap", *where]) == 1
    assert "has ap run on this cluster?" in capfd.readouterr().err


def test_all_clients_of_a_run_and_of_a_query_log_in_by_kafkas_properties(tmp_path: Path) -> None:
    options = {
        **OPTIONS,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PLAIN} user_ann=\"secret\";",
    }  # fmt: skip
    kafka = {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f"{PLAIN} username=\"ann\" password=\"secret\";",
    }  # fmt: skip

    def named() -> Topology:
        builder = StreamsBuilder(key=TEXT, value=TEXT)
        lines = builder.stream("word-lines").join(
            builder.global_table("names"), lambda line, name: f"{line} {name}", table_key=lambda _, line: line
        )
        lines.group_by_key().count(store="counts").to_stream().map_values(str).to("word-counts")
        return builder.build()

    with TestBroker(options) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            for topic in ("word-lines", "word-counts", "names"):
                admin.create_topic(topic, 1)
        with Producer(broker.bootstrap_servers) as producer:
            producer.produce("names", "anna", "a")
            producer.produce("word-lines", "a", "k")
        host, port = broker._running().addresses["SASL_PLAINTEXT"]
        where = {"bootstrap": f"{host}:{port}", "kafka": kafka}
        with running(broker, named, query_port=0, **where):
            assert counted(broker, 1) == [("k", 1)]
        answer = query(named(), "counts", application_id="app", **where)
        assert [(row.key, row.value) for row in answer.rows] == [("k", 1)]
        config = tmp_path / "client.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in kafka.items()))
        ask = ["streams", "status", "--application-id", "app", "-b", str(where["bootstrap"])]
        assert main([*ask, "--command-config", str(config)]) == 0


def test_a_property_that_no_client_of_a_run_takes_is_refused_with_the_nearest() -> None:
    with pytest.raises(TopologyError, match=r"sasl.mechanizm is not a property .*; did you mean sasl.mechanism"):
        run(words(), application_id="app", kafka={"sasl.mechanizm": "PLAIN"})
    with pytest.raises(TopologyError, match=r"security\.protocol must be one of"):
        run(words(), application_id="app", kafka={"security.protocol": "SASL"})


def test_a_topic_that_does_not_exist_is_named(broker: TestBroker) -> None:
    builder = StreamsBuilder()
    builder.stream("word-linse").to("word-counts")
    with pytest.raises(TopologyError, match="topic word-linse does not exist"):
        run(builder.build(), application_id="app", bootstrap=broker.bootstrap_servers)
