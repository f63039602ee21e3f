"""Pages over a broker: what they show, what they change, and that a page, its JSON and the command agree."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

import pytest
from tests.console.browsing import Browser, browsing, fields_of, text_of
from tests.console.conftest import ORDERS

from ottla.cli.main import main
from ottla.client import Admin, CommittedOffset, Producer, TopicPartition
from ottla.client.errors import RequestTimedOut
from ottla.client.model import TopicView
from ottla.console.desk import ConsoleSetting
from ottla.testing import TestBroker


@pytest.fixture
def setting(console_broker: TestBroker) -> ConsoleSetting:
    return ConsoleSetting(console_broker.bootstrap_servers)


def test_every_page_is_drawn_and_has_the_same_as_json(setting: ConsoleSetting) -> None:
    async def visit(one: Browser) -> None:
        for page in ("", "topics", "groups", "schemas", "connectors", "letters", "transactions", "users", "quotas"):
            html = await one.page(page)
            assert html.count("<h1>") == 1, page
            assert await one.json(page), page
        found = await one.json("overview")
        assert (len(found["brokers"]), found["well"]) == (1, True)
        topic = await one.json("topic", name="orders")
        assert (len(topic["partitions"]), topic["records"]) == (3, ORDERS)
        [row] = [each for each in (await one.json("topics"))["topics"] if each["name"] == "orders"]
        assert (row["partitions"], row["records"], row["under_replicated"]) == (3, ORDERS, 0)

    browsing(setting, visit)


def test_samples_give_rates_while_somebody_looks(setting: ConsoleSetting) -> None:
    async def visit(one: Browser) -> None:
        desk = await one.app.sessions.desk(None)  # type: ignore[arg-type]  # nobody logs in here
        assert desk is not None
        await desk.watch.look()
        await desk.watch.look()
        assert desk.watch.samples.topic_rates["orders"] == 0
        assert desk.watch.loads[1].disk_bytes is not None
        assert "not measured yet" not in (await one.page("topic", name="orders"))

    browsing(setting, visit)


def test_messages_are_the_newest_the_oldest_and_from_a_place_on(setting: ConsoleSetting) -> None:
    async def visit(one: Browser) -> None:
        async def ids(**given: object) -> list[int]:
            found = await one.json("messages", topic="orders", **given)
            return [json.loads(each["value"]["text"])["id"] for each in found["records"]]

        assert await ids() == list(range(ORDERS - 1, ORDERS - 51, -1))
        assert await ids(**{"from": "oldest", "count": 100}) == list(range(100))
        assert await ids(**{"from": "time", "since": "1970-01-01T00:16:42.500Z"}) == list(range(2_500, 2_550))
        page = await one.json("messages", topic="orders", partition=1, offset=10, **{"from": "offset"})
        assert [each["offset"] for each in page["records"]] == [str(at) for at in range(10, 60)]
        assert page["next"] == {"topic": "orders", "partition": "1", "from": "offset", "offset": "60"}

    browsing(setting, visit)


async def hits_of(one: Browser, **given: object) -> tuple[list[Any], list[tuple[str, Any]], Any]:
    found = await one.json("messages", topic="orders", **given)
    told = [each async for each in one.events(f"/live/search?id={found['search']}")]
    return [record for name, each in told if name == "rows" for record in each["records"]], told, found


@pytest.mark.parametrize("place", ["newest", "oldest"])
def test_a_search_finds_every_hit_with_its_place(setting: ConsoleSetting, place: str) -> None:
    async def visit(one: Browser) -> None:
        for given in ({"text": "ANNA"}, {"where": 'value.name = "anna"'}):
            hits, told, _ = await hits_of(one, **{"from": place}, **given)
            assert sorted(json.loads(each["value"]["text"])["id"] for each in hits) == [500, 1_500, 2_500]
            assert told[-1][0] == "end"
            assert (told[-1][1]["looked_at"], told[-1][1]["total"], told[-1][1]["faults"]) == (ORDERS, ORDERS, [])
        [hit], told, found = await hits_of(one, key="k77", **{"from": place})
        assert found["only_partition"] == hit["partition"]
        assert told[-1][1]["total"] < ORDERS, "one partition is looked into"
        [again], told, found = await hits_of(one, key="k77", partitioner="any", **{"from": place})
        assert (again, found["only_partition"], told[-1][1]["total"]) == (hit, None, ORDERS)
        [by_header], _, _ = await hits_of(one, header="trace=t77")
        assert by_header == hit

    browsing(setting, visit)


def test_a_search_pauses_after_many_hits_and_goes_on_where_it_was(setting: ConsoleSetting) -> None:
    async def visit(one: Browser) -> None:
        found = await one.json("messages", topic="orders", text="bo")
        seen: set[tuple[int, str]] = set()
        for _ in range(100):
            last = ""
            async for name, told in one.events(f"/live/search?id={found['search']}"):
                for each in told.get("records", ()):
                    place = each["partition"], each["offset"]
                    assert place not in seen, "no hit comes twice"
                    seen.add(place)
                last = name
            if last == "end":
                break
            assert last == "pause"
        assert len(seen) == ORDERS - 3

    browsing(setting, visit)


def test_a_search_that_is_left_reads_no_more(setting: ConsoleSetting) -> None:
    async def visit(one: Browser) -> None:
        found = await one.json("messages", topic="orders", text="nowhere")
        events = one.events(f"/live/search?id={found['search']}")
        assert (await anext(events))[0] == "progress"
        await events.aclose()
        desk = await one.app.sessions.desk(None)  # type: ignore[arg-type]
        assert desk is not None
        search = desk.searches[found["search"]]
        assert not search.runs
        assert search.scan.progress.looked_at < ORDERS

    browsing(setting, visit)


def test_live_records_come_as_they_are_written(setting: ConsoleSetting, console_broker: TestBroker) -> None:
    topic = console_broker.new_topic_name("tail")

    async def visit(one: Browser) -> None:
        await one.confirm("topic-create", topic=topic)
        found = await one.json("messages", topic=topic, where="value.n > 1", **{"from": "live"})
        events = one.events(f"/{found['live']}")
        assert (await anext(events))[0] == "progress"
        with Producer(console_broker.bootstrap_servers) as producer:
            for at in range(4):
                producer.produce(topic, f'{{"n": {at}}}')
        seen: list[str] = []
        async for name, told in events:
            seen += [each["value"]["text"] for each in told["records"]] if name == "rows" else []
            if len(seen) == 2:
                break
        await events.aclose()
        assert seen == ['{"n": 2}', '{"n": 3}']

    browsing(setting, visit)


def test_deleted_records_are_told_and_not_passed_over_in_silence(
    setting: ConsoleSetting, console_broker: TestBroker
) -> None:
    topic = console_broker.new_topic_name("cut")

    async def visit(one: Browser) -> None:
        with Admin(console_broker.bootstrap_servers) as admin, Producer(console_broker.bootstrap_servers) as producer:
            admin.create_topic(topic, 1)
            for at in range(100):
                producer.produce(topic, f"word {at}")
            producer.flush()
            for place in ("newest", "oldest"):
                found = await one.json("messages", topic=topic, text="word", **{"from": place})
                first = 40 if place == "newest" else 60
                admin.delete_records({TopicPartition(topic, 0): first})
                told = [each async for each in one.events(f"/live/search?id={found['search']}")]
                begin = 0 if place == "newest" else 40
                assert told[-1][1]["faults"] == [
                    f"{topic}-0, offsets {begin} to {first - 1}: deleted before they were read"
                ]
                assert (told[-1][0], told[-1][1]["hits"]) == ("end", 100 - first)

    browsing(setting, visit)


def test_aborted_records_are_left_out_where_only_committed_ones_are_asked_for(
    setting: ConsoleSetting, console_broker: TestBroker
) -> None:
    topic = console_broker.new_topic_name("transacted")
    with Admin(console_broker.bootstrap_servers) as admin:
        admin.create_topic(topic, 1)
    with Producer(console_broker.bootstrap_servers, transactional_id="t") as producer:
        producer.init_transactions()
        for word, commits in (("aborted", False), ("kept", True)):
            producer.begin_transaction()
            producer.produce(topic, word)
            producer.flush()  # or an abort drops it
            _ = producer.commit_transaction() if commits else producer.abort_transaction()

    async def visit(one: Browser) -> None:
        every = await one.json("messages", topic=topic)
        committed = await one.json("messages", topic=topic, committed="yes")
        assert [each["value"]["text"] for each in every["records"]] == ["kept", "aborted"]
        assert [each["value"]["text"] for each in committed["records"]] == ["kept"]
        row = await one.json("transaction", id="t")
        assert row["state"] == "CompleteCommit"
        said = await one.confirm("transaction-terminate", id="t")
        assert "its producer is fenced" in said

    browsing(setting, visit)


def test_records_are_saved_as_they_are_and_as_lines(setting: ConsoleSetting) -> None:
    async def visit(one: Browser) -> None:
        answer = await one.ask("GET", "/value?topic=orders&partition=1&offset=10")
        assert dict(answer.headers)["Content-Disposition"].startswith("attachment")
        shown = (await one.json("messages", topic="orders", partition=1, offset=10, **{"from": "offset"}))["records"][0]
        assert text_of(answer) == shown["value"]["text"]
        lines = await one.ask("GET", "/export?topic=orders&text=anna")
        assert not isinstance(lines.body, bytes)
        found = [json.loads(line) async for line in lines.body]
        assert sorted(each["value"]["id"] for each in found) == [500, 1_500, 2_500]
        assert (await one.ask("GET", "/value?topic=orders&partition=0&offset=999999")).status in (404, 409)

    browsing(setting, visit)


def test_topics_are_made_changed_and_deleted_after_one_question(
    setting: ConsoleSetting, console_broker: TestBroker
) -> None:
    topic = console_broker.new_topic_name("made")

    async def visit(one: Browser) -> None:
        question = await one.post("topic-create", topic=topic, partitions=2, configs="retention.ms=7d")
        assert f"ottla topic create {topic} -p 2 -c retention.ms=7d" in question
        assert topic not in await one.page("topics")
        await one.post("topic-create", confirm="yes", topic=topic, partitions=2, configs="retention.ms=7d")
        configs = (await one.json("topic", name=topic))["configs"]
        assert [(each["name"], each["value"]) for each in configs if each["own"]] == [("retention.ms", "604800000")]
        question = await one.post("topic-config", topic=topic, key="retention.ms", value="1h")
        assert "retention.ms: 604800000 → 1h" in question
        await one.confirm("topic-config", topic=topic, key="retention.ms", value="1h")
        await one.confirm("topic-config", topic=topic, key="cleanup.policy", value="compact")
        await one.confirm("topic-config", topic=topic, key="cleanup.policy", value="")
        await one.confirm("topic-partitions", topic=topic, partitions=4)
        found = await one.json("topic", name=topic)
        assert [each["value"] for each in found["configs"] if each["own"]] == ["3600000"]
        assert len(found["partitions"]) == 4
        await one.post("topic-partitions", 400, topic=topic, partitions=3)
        await one.post("topic-config", 400, topic=topic, key="retention.ms", value="soon")
        await one.post("topic-create", 409, topic=topic)
        await one.confirm("topic-delete", topic=topic)
        await one.page("topic", 404, name=topic)

    browsing(setting, visit)


def test_a_record_is_written_and_deleted_with_what_lies_before_it(
    setting: ConsoleSetting, console_broker: TestBroker
) -> None:
    topic = console_broker.new_topic_name("written")

    async def visit(one: Browser) -> None:
        await one.confirm("topic-create", topic=topic, partitions=1)
        given = {"topic": topic, "key": "k", "value": "a b", "headers": "h=1\nh=2", "partition": "0"}
        question = await one.post("produce", **given)
        assert f"ottla produce {topic} --values 'a b' -k k -H h=1 -H h=2 -p 0" in question
        assert "at offset 0" in await one.post("produce", confirm="yes", **given)
        await one.confirm("produce", topic=topic, key="k", tombstone="yes")
        [gone, record] = (await one.json("messages", topic=topic))["records"]
        assert (record["key"]["text"], record["value"]["text"]) == ("k", "a b")
        assert record["headers"] == [["h", "1"], ["h", "2"]]
        assert gone["value"]["kind"] == "null"
        question = await one.post("topic-records", topic=topic)
        await one.confirm("produce", topic=topic, value="later")
        await one.post("topic-records", **fields_of(question))
        [left] = (await one.json("messages", topic=topic))["records"]
        assert left["value"]["text"] == "later", "what came after the question stays"

    browsing(setting, visit)


def test_a_group_is_reset_to_the_offsets_that_were_shown(
    setting: ConsoleSetting, console_broker: TestBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [TopicPartition("orders", index) for index in range(3)]
    with Admin(console_broker.bootstrap_servers) as admin:
        admin.commit_offsets("billing", dict.fromkeys(places, CommittedOffset(5)))

    async def visit(one: Browser) -> None:
        before = await one.json("group", name="billing")
        assert (before["state"], before["lag"], before["idle"]) == ("Empty", ORDERS - 15, True)
        ages = [int(time.time() * 1000) - row["lag_ms"] for row in before["offsets"]]
        assert all(1_000_000 < at < 1_000_000 + ORDERS + 60_000 for at in ages), "the first unread record's timestamp"
        assert before["lag_ms"] == max(row["lag_ms"] for row in before["offsets"])
        question = await one.post("group-reset", group="billing", to="1970-01-01T00:16:41.000Z")
        assert "ottla group reset billing --to 1970-01-01T00:16:41.000Z --execute" in question
        still = await one.json("group", name="billing")
        assert [row["committed"] for row in still["offsets"]] == [5, 5, 5], "nothing is changed before it is confirmed"
        await one.post("group-reset", **fields_of(question))
        after = await one.json("group", name="billing")
        assert sum(row["committed"] for row in after["offsets"]) == 1_000
        assert "billing" in [each["group"] for each in (await one.json("topic", name="orders"))["groups"]]
        main(["group", "describe", "billing", "-b", setting.bootstrap, "--format", "json"])
        [told] = json.loads(capsys.readouterr().out)
        assert told["lag"] == after["lag"]
        assert [row["committed"] for row in told["partitions"]] == [row["committed"] for row in after["offsets"]]
        await one.confirm("group-reset", group="billing", to="latest")
        assert {row["lag_ms"] for row in (await one.json("group", name="billing"))["offsets"]} == {0}
        await one.post("group-reset", 400, group="billing", to="99999999")
        await one.post("group-reset", 400, group="billing", to="latest", offsets='[["other", 0, 1]]')
        await one.confirm("group-forget", group="billing", topic="orders")
        assert (await one.json("group", name="billing"))["offsets"] == []
        await one.confirm("group-delete", group="billing")
        await one.page("group", 404, name="billing")

    browsing(setting, visit)


def test_dead_letters_are_counted_and_sent_back_once(setting: ConsoleSetting, console_broker: TestBroker) -> None:
    letters, origin = console_broker.new_topic_name("dead"), console_broker.new_topic_name("origin")
    with Admin(console_broker.bootstrap_servers) as admin, Producer(console_broker.bootstrap_servers) as producer:
        for name in (letters, origin):
            admin.create_topic(name, 1)
        for at in range(3):
            cause = [("ottla.topic", origin), ("ottla.partition", "0"), ("ottla.offset", str(at))]
            reason = "no date" if at else "too long"
            producer.produce(letters, f"record {at}", headers=[*cause, ("ottla.reason", reason)])

    async def visit(one: Browser) -> None:
        found = await one.json("letters", topic=letters)
        assert letters in found["topics"]
        assert sorted((each["reason"], each["letters"]) for each in found["report"]["kinds"]) == [
            ("no date", 2), ("too long", 1),
        ]  # fmt: skip
        question = await one.post("redrive", topic=letters, where="reason~date")
        assert f"ottla redrive {letters}" in question
        assert "2 letters would be sent" in question
        assert "2 letters were sent" in await one.post("redrive", confirm="yes", topic=letters, where="reason~date")
        assert "0 letters would be sent, 2 were sent by earlier" in await one.post(
            "redrive", topic=letters, where="reason~date"
        )
        sent = (await one.json("messages", topic=origin))["records"]
        assert sorted(each["value"]["text"] for each in sent) == ["record 1", "record 2"]
        await one.post("redrive", 400, topic=letters, where="reson=x")

    browsing(setting, visit)


def test_a_console_lists_five_thousand_topics_by_the_page(
    setting: ConsoleSetting, console_broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list costs the metadata and one page of offsets: as many topics are asked for offsets as the page shows."""
    from ottla.client.model import PartitionView, TopicView
    from ottla.console.desk import Desk

    view = {0: PartitionView(0, 1, 0, (1,), (1,), ())}
    many = {f"t{at:05}": TopicView(f"t{at:05}", b"", False, view) for at in range(5_000)}
    asked: list[int] = []

    async def topics(desk: Desk) -> dict[str, TopicView]:
        return many

    async def list_offsets(specs: Any, *_: Any) -> dict[Any, Exception]:
        asked.append(len(specs))
        return dict.fromkeys(specs, ValueError("not there"))

    async def visit(one: Browser) -> None:
        desk = await one.app.sessions.desk(None)  # type: ignore[arg-type]
        assert desk is not None
        monkeypatch.setattr(desk.watch, "wanted", lambda: None)
        monkeypatch.setattr(desk.admin, "list_offsets", list_offsets)
        html = await one.page("topics", page=100)
        assert re.findall(r"name=(t\d+)", html)[0] == "t04950"
        assert "5,000 of 5,000" in html
        assert asked == [50, 50]

    monkeypatch.setattr(Desk, "topics", topics)
    browsing(setting, visit)


def test_a_failure_ends_a_search_with_its_reason_and_it_can_go_on(
    setting: ConsoleSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise RequestTimedOut("no answer from broker 1")

    async def visit(one: Browser) -> None:
        found = await one.json("messages", topic="orders", text="anna")
        desk = await one.app.sessions.desk(None)  # type: ignore[arg-type]
        assert desk is not None
        with monkeypatch.context() as patched:
            patched.setattr(desk.admin.cluster, "fetch", away)
            told = [each async for each in one.events(f"/live/search?id={found['search']}")]
            assert told == [("refused", {"message": "no answer from broker 1"})]
            lost = [each async for each in one.events(f"/live/search?id={found['search']}")]
            assert lost == told
        again = [each async for each in one.events(f"/live/search?id={found['search']}")]
        assert (again[-1][0], again[-1][1]["hits"]) == ("end", 3)

    browsing(setting, visit)


def test_a_partition_without_a_leader_is_told_and_the_others_are_searched(
    setting: ConsoleSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def visit(one: Browser) -> None:
        desk = await one.app.sessions.desk(None)  # type: ignore[arg-type]
        assert desk is not None
        view = (await desk.topics())["orders"]
        parts = {**view.partitions, 1: view.partitions[1]._replace(leader=-1)}

        async def list_topics() -> dict[str, TopicView]:
            return {"orders": view._replace(partitions=parts)}

        monkeypatch.setattr(desk.admin, "list_topics", list_topics)
        desk.changed()
        page = await one.json("messages", topic="orders")
        assert page["faults"] == ["orders-1: it has no leader"]
        assert {each["partition"] for each in page["records"]} == {0, 2}
        found = await one.json("messages", topic="orders", text="anna")
        told = [each async for each in one.events(f"/live/search?id={found['search']}")]
        assert told[-1][1]["faults"] == ["orders-1: it has no leader"]
        lines = await one.ask("GET", "/export?topic=orders&text=nowhere")
        assert not isinstance(lines.body, bytes)
        assert [json.loads(piece) async for piece in lines.body] == [{"not_looked_at": "orders-1: it has no leader"}]
        rows = (await one.json("topic", name="orders"))["partitions"]
        assert [row["fault"] for row in rows] == ["", "no leader", ""]
        assert [row["records"] for row in (await one.json("topics"))["topics"]] == [None]

    browsing(setting, visit)


def test_a_list_that_is_some_seconds_old_is_shown_at_once_and_asked_for_beside(
    setting: ConsoleSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def visit(one: Browser) -> None:
        desk = await one.app.sessions.desk(None)  # type: ignore[arg-type]
        assert desk is not None
        first = await desk.topics()
        answer = asyncio.Event()
        asked: list[str] = []

        async def list_topics() -> dict[str, TopicView]:
            asked.append("asked")
            await answer.wait()
            return {}

        monkeypatch.setattr(desk.admin, "list_topics", list_topics)
        assert await desk.topics() is first
        for age_s in (6.0, 6.0):
            desk._topics_s = time.monotonic() - age_s
            assert await desk.topics() is first
            await asyncio.sleep(0)
        assert asked == ["asked"], "one question is under way, not two"
        answer.set()
        while desk._asking is not None:
            await asyncio.sleep(0)
        assert await desk.topics() == {}
        desk._topics_s = time.monotonic() - 60.0
        await desk.topics()
        assert asked == ["asked", "asked"]

    browsing(setting, visit)
