"""Keys of an identity provider: when they are asked for, and what holds when they cannot be had."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from joserfc.jwk import ECKey
from tests.access.identity import AUDIENCE, ISSUER, Provider

from ottla.access.mechanisms.oauthbearer import Bearer, NotTaken
from ottla.config.oauth import OauthSettings, TokenRules
from ottla.jobs.token_keys import TokenKeys
from ottla.web.fetch import FetchFailed

SETTINGS = OauthSettings("https://x/keys", 3_600_000, 100, 10_000, TokenRules(ISSUER, (AUDIENCE,)))
FOREIGN = Provider()
FOREIGN.keys = {"other": ECKey.generate_key("P-256", {"kid": "other"})}


class World:
    """A provider, a clock, and the keys that a broker holds of it."""

    def __init__(self) -> None:
        self.provider = Provider()
        self.now_s = 1000.0
        self.asked = 0
        self.is_away = False
        self.gate: threading.Event | None = None
        self.keys = TokenKeys(SETTINGS, self.fetch, lambda: self.now_s)

    def fetch(self, url: str, timeout_s: float) -> bytes:
        self.asked += 1
        if self.gate is not None:
            assert self.gate.wait(30)
        if self.is_away:
            raise FetchFailed(f"{url} cannot be asked: it is away")
        return self.provider.jwks()

    def takes(self, token: str) -> bool:
        return isinstance(self.keys.judge(token), Bearer)


def test_keys_are_fetched_once_for_many_tokens_and_anew_when_they_are_old() -> None:
    world = World()
    assert [world.takes(world.provider.token()) for _ in range(5)] == [True] * 5
    assert world.asked == 1
    world.now_s += 3599
    assert world.takes(world.provider.token())
    assert world.asked == 1
    world.now_s += 2
    assert world.takes(world.provider.token())
    assert world.asked == 2


def test_a_key_that_the_provider_shows_no_more_is_worth_nothing_after_the_refresh() -> None:
    world = World()
    token = world.provider.token()
    assert world.takes(token)
    world.provider.keys = {"two": ECKey.generate_key("P-256", {"kid": "two"})}
    world.now_s += 3601
    assert not world.takes(token)


def test_a_new_key_is_asked_for_at_its_first_token_but_strangers_make_nobody_ask_often() -> None:
    world = World()
    assert world.takes(world.provider.token())
    world.now_s += 11
    world.provider.keys["two"] = ECKey.generate_key("P-256", {"kid": "two"})
    assert world.takes(world.provider.token(kid="two"))
    assert world.asked == 2
    for _ in range(50):
        assert not world.takes(FOREIGN.token(kid="other"))
    assert world.asked == 2
    world.now_s += 10
    assert not world.takes(FOREIGN.token(kid="other"))
    assert world.asked == 3


def test_a_provider_that_is_away_is_asked_at_growing_distances(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.is_away = True
    with caplog.at_level(logging.INFO, "ottla.gate"):
        asked = []
        for _ in range(400):
            found = world.keys.judge(world.provider.token())
            assert isinstance(found, NotTaken)
            assert "it is away" in found.why
            asked.append(world.asked)
            world.now_s += 0.1
        assert asked[-1] <= 12
        world.is_away = False
        world.now_s += 10
        assert world.takes(world.provider.token())
    said = [record.message for record in caplog.records]
    assert len(said) == 2, "one line when it goes, one when it is back"
    assert "nobody can log in by a token" in said[0]


def test_keys_at_hand_stay_while_the_provider_is_away() -> None:
    world = World()
    assert world.takes(world.provider.token())
    world.is_away = True
    world.now_s += 10_000
    assert world.takes(world.provider.token())
    world.provider.jwks = lambda *more: b"{}"  # type: ignore[method-assign]
    world.is_away = False
    world.now_s += 10_000
    assert world.takes(world.provider.token())


def test_a_provider_that_does_not_answer_delays_nobody_whose_key_is_known() -> None:
    world = World()
    assert world.takes(world.provider.token())
    world.now_s += 11
    world.gate = threading.Event()
    with ThreadPoolExecutor(8) as pool:
        strangers = [pool.submit(world.takes, FOREIGN.token(kid="other")) for _ in range(8)]
        refused = [future for future in strangers if not future.done()]
        while sum(future.done() for future in strangers) < 5:  # one asks, two wait, the others are refused at once
            assert world.takes(world.provider.token())
        assert len(refused) >= 3
        world.gate.set()
        assert [future.result() for future in strangers] == [False] * 8
    assert world.asked == 2


def test_old_keys_are_good_while_a_provider_that_does_not_answer_is_asked_for_newer_ones() -> None:
    world = World()
    assert world.takes(world.provider.token())
    world.now_s += 3601
    world.gate = threading.Event()
    try:
        with ThreadPoolExecutor(1) as pool:
            login = pool.submit(world.takes, world.provider.token())
            assert login.result(20), "the provider has not answered yet"
            assert world.asked == 2
    finally:
        world.gate.set()


def test_a_file_of_keys_is_read_at_the_start_or_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    settings = SETTINGS._replace(jwks_url=f"file://{path}")
    with pytest.raises(ValueError, match="No such file"):
        TokenKeys(settings).begin()
    path.write_text("{}")
    with pytest.raises(ValueError, match="no JWKS"):
        TokenKeys(settings).begin()
    provider = Provider()
    path.write_bytes(provider.jwks())
    keys = TokenKeys(settings)
    keys.begin()
    assert isinstance(keys.judge(provider.token()), Bearer)
