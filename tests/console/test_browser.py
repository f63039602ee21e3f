"""The console in real Chromium: searches that stream, parts that move, changes, keyboard, contrast, narrow screens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.console.beside import everything
from tests.console.browsing import FAULTS

from ottla.client import Admin, CommittedOffset, Producer, TopicPartition
from ottla.console.app import ConsoleApp, guarded
from ottla.testing import TestBroker
from ottla.web.server import listening, serving, url_of
from ottla.web.thread import LoopThread

PAGES = ("/", "/topics", "/topic?name=orders", "/messages?topic=orders", "/produce?topic=orders", "/groups", "/schemas",
         "/connectors", "/letters", "/transactions", "/users", "/quotas",
         "/group?name=shown", "/streams", "/stream?instance=0", "/lakes", "/pipelines", "/audit")  # fmt: skip


@pytest.fixture(scope="module")
def console(console_broker: TestBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    bound = listening("127.0.0.1", 0)

    with Admin(console_broker.bootstrap_servers) as admin:
        admin.commit_offsets("shown", {TopicPartition("orders", 0): CommittedOffset(5)})

    @asynccontextmanager
    async def opened() -> AsyncIterator[None]:
        app = ConsoleApp(setting)
        async with serving(guarded(app), bound):
            yield
        await app.close()

    beside = everything(console_broker, tmp_path_factory.mktemp("beside"))
    with bound, beside as setting, LoopThread("console", opened):
        yield url_of("127.0.0.1", bound)


@pytest.fixture
def page(chromium: Any, console: str) -> Iterator[Any]:
    """A page whose errors, also those that the policy for contents reports, fail the test."""
    context = chromium.new_context(base_url=console)
    context.set_default_timeout(90_000)  # two cores may be busy with other tests
    one = context.new_page()
    faults: list[str] = []
    one.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
    one.on("pageerror", lambda fault: faults.append(str(fault)))
    one.on("request", lambda request: None if request.url.startswith(console) else faults.append(request.url))
    yield one
    context.close()
    assert faults == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 400)])
def test_every_page_has_labels_and_contrast_and_fits_the_screen(page: Any, scheme: str, width: int) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    for address in PAGES:
        page.goto(address)
        assert page.evaluate(FAULTS) == [], address
    page.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend', '<input><p class=quiet id=main>x</p>')"
    )
    page.evaluate("document.documentElement.style.setProperty('--quiet', 'var(--page)')")
    found = " ".join(page.evaluate(FAULTS))
    assert all(each in found for each in ("no label", "stands twice", "little contrast")), "the look finds faults"


def test_a_search_streams_its_hits_and_can_go_on(page: Any) -> None:
    page.goto("/messages?topic=orders")
    page.get_by_label("Text anywhere").fill("ANNA")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("All was looked at").wait_for()
    assert page.locator("#records tbody tr").count() == 3
    assert "text=ANNA" in page.url
    assert "key=" not in page.url, "empty fields stay out of the address"
    page.locator("#records summary").first.click()
    assert json.loads(page.locator("#records pre").first.inner_text())["name"] == "anna"
    page.goto("/messages?topic=orders&text=bo")
    page.get_by_text("More may be there").wait_for()
    before = page.locator("#records tbody tr").count()
    page.get_by_role("button", name="Go on").click()
    page.locator(f"#records tbody tr:nth-child({before + 1})").wait_for()
    page.get_by_role("button", name="Keep this search").click()
    assert page.locator("#saved a").get_attribute("href") == "/messages?topic=orders&text=bo"


def test_pictures_of_streams_and_pipelines_are_seen_and_a_lakes_cells_have_their_colours(page: Any) -> None:
    for address in ("/stream?instance=0", "/pipelines"):
        page.goto(address)
        page.locator("img.picture").evaluate("picture => picture.decode()")
        assert page.locator("img.picture").evaluate("picture => picture.naturalWidth") > 0
    page.goto("/lakes")
    colour = page.locator("td.s5").first.evaluate("cell => getComputedStyle(cell).backgroundColor")
    assert colour not in ("rgba(0, 0, 0, 0)", "rgb(255, 255, 255)")


def test_live_records_come_into_the_page_and_markup_stays_text(page: Any, console_broker: TestBroker) -> None:
    topic = console_broker.new_topic_name("seen")
    with Producer(console_broker.bootstrap_servers) as producer:
        producer.produce(topic, "before").result()
        page.goto(f"/messages?topic={topic}&from=live")
        page.get_by_text("waiting for records").wait_for()
        producer.produce(topic, "<img src=x onerror=alert(1)>", key="<b>k</b>").result()
        page.get_by_text("<img src=x").first.wait_for()
    assert page.locator("#records tbody tr").count() == 1
    assert page.locator("#records img, #records b").count() == 0
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Go on").wait_for()


def test_a_topic_is_made_by_keyboard_after_one_question(page: Any, console_broker: TestBroker) -> None:
    name = console_broker.new_topic_name("by-keyboard")
    page.goto("/topics")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.get_by_text("Create a topic").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    page.get_by_text(f"ottla topic create {name}").wait_for()
    page.get_by_role("button", name=f"Create the topic {name}").press("Enter")
    page.get_by_text(f"The topic {name} was created.").wait_for()


def test_parts_that_live_are_fetched_again_without_a_reload(page: Any, console_broker: TestBroker) -> None:
    topic = console_broker.new_topic_name("moving")
    with Producer(console_broker.bootstrap_servers) as producer:
        producer.produce(topic, "one").result()
        page.goto(f"/topic?name={topic}")
        page.evaluate("window.same = true")
        assert "1" in page.locator("#rate .tile").nth(1).inner_text()
        producer.produce(topic, "two").result()
    page.locator("#rate .tile strong", has_text="2").wait_for()
    assert page.evaluate("window.same") is True
