"""Pages of what runs beside the cluster: streams, lakes, pipelines, the audit log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.console.beside import audit_log, everything, run_status
from tests.console.browsing import Browser, browsing, text_of
from tests.console.conftest import ORDERS

from ottla import lake
from ottla.cli.main import main
from ottla.client import Admin, Producer
from ottla.console.desk import ConsoleSetting, links
from ottla.testing import TestBroker
from ottla.web.exchange import Request, Response, json_response
from ottla.web.server import listening, serving, url_of
from ottla.web.thread import LoopThread

BESIDE = ("streams", "lakes", "pipelines", "audit")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("beside")


@pytest.fixture(scope="module")
def setting(console_broker: TestBroker, folder: Path) -> Iterator[ConsoleSetting]:
    with everything(console_broker, folder) as setting:
        yield setting


def drawn(answer: Response) -> str:
    """The text of a picture, which may run nothing."""
    assert (answer.status, answer.media_type) == (200, "image/svg+xml")
    policy = dict(answer.headers)["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "sandbox" in policy
    return " ".join(ElementTree.fromstring(text_of(answer)).itertext())


def test_a_console_that_was_told_of_nothing_says_how_to_tell_it(setting: ConsoleSetting) -> None:
    async def visit(one: Browser) -> None:
        for page, option in zip(BESIDE, ("--streams", "--lake", "--pipeline", "--audit-log"), strict=True):
            assert option in await one.page(page)
        for address in ("stream?instance=0", "lakes?number=1", "pipelines?number=1", "picture/pipeline?number=0"):
            expected = 200 if address[0] in "lp" and "picture" not in address else 404
            assert (await one.ask("GET", f"/{address}")).status == expected, address

    browsing(ConsoleSetting(setting.bootstrap), visit)


def test_an_instance_of_streams_is_shown_with_its_lag_stores_and_topology(setting: ConsoleSetting) -> None:
    async def visit(one: Browser) -> None:
        [found] = (await one.json("streams"))["instances"]
        assert (found["application"], found["state"], found["lag"], found["tasks"]) == (
            "counting",
            "running",
            7,
            ["0_0"],
        )
        page = await one.page("stream", instance=0)
        assert all(text in page for text in ("counts", "42", "COUNT", "/picture/topology?instance=0"))
        picture = drawn(await one.ask("GET", "/picture/topology?instance=0"))
        assert "orders" in picture
        assert "shouted" in picture

    browsing(setting, visit)


def test_a_server_that_is_no_instance_of_streams_is_named_and_the_others_are_shown(setting: ConsoleSetting) -> None:
    url = setting.streams[0].url

    async def visit(one: Browser) -> None:
        found = await one.json("streams")
        assert [each["application"] for each in found["instances"]] == ["counting"]
        assert any("http://127.0.0.1:1 does not answer" in each for each in found["faults"])
        assert any(f"{stranger} is no instance" in each for each in found["faults"])
        assert (await one.ask("GET", "/picture/topology?instance=1")).status == 502

    bound = listening("127.0.0.1", 0)

    async def other(request: Request) -> Response:
        return json_response({"version": "4.3.1"})

    with bound, LoopThread("other", lambda: serving(other, bound)):
        stranger = url_of("127.0.0.1", bound)
        browsing(replace(setting, streams=links([url, "http://127.0.0.1:1", stranger])), visit)


def test_a_lake_is_shown_with_how_far_it_is_behind_and_its_picture(setting: ConsoleSetting) -> None:
    async def visit(one: Browser) -> None:
        found = await one.json("lakes")
        [topic] = found["topics"]
        assert (topic["topic"], topic["rows"], topic["behind"], topic["here"]) == ("loaded", 1, 1, True)
        assert (topic["late"], topic["dead"], topic["lost"]) == (0, 0, 0)
        [round_] = found["rounds"]
        assert (round_["topics"], round_["records"], round_["rows"]) == (["loaded"], 1, 1)
        page = await one.page("lakes")
        assert "2001-09-09: 1 rows" in page
        assert ".grid td" in text_of(await one.ask("GET", "/lake.css"))

    browsing(setting, visit)


def test_a_topic_that_was_made_anew_is_not_the_one_that_a_lake_has(
    setting: ConsoleSetting, console_broker: TestBroker, tmp_path: Path
) -> None:
    name, place = console_broker.new_topic_name("anew"), tmp_path / "lake"
    with Admin(setting.bootstrap) as admin, Producer(setting.bootstrap) as producer:
        producer.produce(name, "one").result()
        lake.load(name, to=place, bootstrap=setting.bootstrap, on="local", tell=lambda line: None)
        admin.delete_topics([name])
        admin.create_topic(name, 1)

    async def visit(one: Browser) -> None:
        [topic] = (await one.json("lakes"))["topics"]
        assert (topic["rows"], topic["behind"], topic["here"]) == (1, None, False)
        assert "there is no lake at" in await one.page("lakes", 409, number=1)

    browsing(replace(setting, lakes=(str(place), str(tmp_path / "none"))), visit)


def test_a_pipeline_is_shown_with_states_records_and_dead_letters(setting: ConsoleSetting, folder: Path) -> None:
    bootstrap = setting.bootstrap
    with Producer(bootstrap) as producer:
        producer.produce("orders-dlq", "bad").result()

    async def visit(one: Browser) -> None:
        found = await one.json("pipelines")
        [part] = found["parts_of_it"]
        assert (part["label"], part["state"], part["letters"], part["dead"]) == (
            "connector out",
            "running",
            "orders-dlq",
            1,
        )
        assert (found["runs"], found["is_old"], found["other_cluster"], part["bad"]) == (True, False, False, False)
        assert f"{ORDERS:,} records" in drawn(await one.ask("GET", "/picture/pipeline?number=0&at=5"))
        assert found["text"].splitlines()[0].split() == ["orders", "->", "connector", "out"]
        run_status(folder, "elsewhere:9092", **{"connector out": "failed: no such file"})
        found = await one.json("pipelines")
        assert (found["other_cluster"], found["parts_of_it"][0]["bad"]) == (True, True)
        (folder / ".ottla" / "shop" / "status.json").unlink()
        os.utime(folder / "shop.yaml", (1, 1))
        page = await one.page("pipelines")
        assert "does not run here" in page
        assert "has changed since" in page

    browsing(setting, visit)


def test_a_pipeline_file_with_a_fault_stops_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shop.yaml").write_text("pipeline: shop\ncluster: {start: true}\ntopcis: {}\n")
    assert main(["console", "-b", "localhost:1", "--port", "0", "--pipeline", str(tmp_path / "shop.yaml")]) == 1
    assert "did you mean topics" in capsys.readouterr().err


def test_the_audit_log_is_shown_newest_first_and_a_change_of_it_is_told(
    setting: ConsoleSetting, tmp_path: Path
) -> None:
    path = tmp_path / "audit.log"
    audit_log(path, "login", "refused", "change")
    whole = path.read_text()

    async def visit(one: Browser) -> None:
        found = await one.json("audit")
        assert [each["event"] for each in found["events"]] == ["change", "refused", "login"]
        assert (found["lines"], found["faults"], found["events"][0]["time"]) == (3, [], "1970-01-01T00:00:01.500Z")
        assert [each["number"] for each in (await one.json("audit", q="REFUSED"))["events"]] == [2]
        for content, fault in (
            (whole.replace("refused", "allowed"), "not as it was written"),
            (whole[: whole.rindex("\n", 0, -1) + 1], "number 3 was noted as the last"),
            ("".join(whole.splitlines(keepends=True)[1:]), "number 1 is due"),
            (whole.replace(whole.splitlines()[1], "<b>"), "no line of an audit log"),
        ):
            path.write_text(content)
            assert fault in " ".join((await one.json("audit"))["faults"])
            assert "Not as written" in await one.page("audit")
        path.write_text(whole + '{"number": 4, "ti')
        found = await one.json("audit")
        assert (found["faults"], found["torn"], found["lines"]) == ([], str(path), 3)
        first, rest = whole.split("\n", 1)
        (tmp_path / "older").write_text(first + "\n")
        path.write_text(rest)
        assert (await one.json("audit"))["faults"] != []

    async def visit_both(one: Browser) -> None:
        assert (await one.json("audit"))["faults"] == []
        path.unlink()
        await one.page("audit", 502)

    browsing(replace(setting, audit_log=(str(path),)), visit)
    browsing(replace(setting, audit_log=(str(tmp_path / "older"), str(path))), visit_both)
