"""One broker for all tests of the console, with a topic of orders; a browser."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client import Admin, Producer
from ottla.testing import TestBroker

ORDERS = 3_000
PACKAGES = Path(__file__).resolve().parents[2] / ".cache" / "browser"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-quic", "--no-first-run", "--disable-sync"]


@pytest.fixture(scope="session")
def console_broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        with Admin(broker.bootstrap_servers) as admin, Producer(broker.bootstrap_servers) as producer:
            admin.create_topic("orders", 3)
            for at in range(ORDERS):
                name = "anna" if at % 1000 == 500 else "bo"
                value = json.dumps({"id": at, "amount": at % 100, "name": name})
                producer.produce("orders", value, f"k{at}", headers=[("trace", f"t{at}")], timestamp=1_000_000 + at)
        yield broker


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser by Playwright; the tests are skipped where `tools/setup.sh browser-if-possible` could not bring it."""
    if CHROMIUM is None or not (PACKAGES / "playwright").is_dir():
        pytest.skip("Chromium is not here")
    sys.path.append(str(PACKAGES))
    try:
        from playwright.sync_api import sync_playwright
    finally:
        sys.path.remove(str(PACKAGES))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
