"""Profiles and variables: which cluster a command speaks to."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import in_text
from tests.forked_program import run_program

from ottla.config.profiles import (
    ChosenAddress,
    Profile,
    ProfileError,
    Profiles,
    bootstrap_servers,
    parse_profiles,
    profiles_text,
    registry_url,
    write_profiles,
)


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment whose profiles are in a folder of the test."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
    return {**mine, "XDG_CONFIG_HOME": str(tmp_path)}


def _ottla(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return in_text(run_program([*arguments], environment=environment))


def test_profiles_are_read_as_they_were_written() -> None:
    profiles = Profiles({"prod": Profile("a:1,b:2", "http://r:8081"), "re.gistry": Profile("", "https://r")}, "prod")
    assert parse_profiles(profiles_text(profiles)) == profiles
    assert parse_profiles("") == Profiles()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("used = 'x'", "unknown key used .did you mean use"),
        ("use = 'x'", "which is not a profile"),
        ("profile = 3", "profiles are tables"),
        ("[profile.x]\nbootstrap_server = 'a:1'", "did you mean bootstrap_servers"),
        ("[profile.x]\nregistry = 3", "registry is a text"),
        ("[profile.'a b']\nregistry = 'x'", "cannot name a profile"),
        ("[profile", "Expected"),
    ],
)
def test_a_file_of_profiles_that_cannot_be_read_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_profiles(text)


def test_a_named_profile_goes_before_variables_and_these_before_the_profile_in_use(home: dict[str, str]) -> None:
    assert bootstrap_servers(home) == ChosenAddress("localhost:9092", "the default")
    assert registry_url(home) == ChosenAddress("http://localhost:8081", "the default")
    write_profiles(home, Profiles({"a": Profile("a:1", "http://a"), "b": Profile("b:1")}, "a"))
    assert bootstrap_servers(home) == ChosenAddress("a:1", "profile a, in use")
    said = {**home, "OTTLA_BOOTSTRAP_SERVERS": "v:1", "OTTLA_REGISTRY": "http://v"}
    assert bootstrap_servers(said) == ChosenAddress("v:1", "OTTLA_BOOTSTRAP_SERVERS")
    assert registry_url(said) == ChosenAddress("http://v", "OTTLA_REGISTRY")
    assert bootstrap_servers({**said, "OTTLA_PROFILE": "b"}) == ChosenAddress("b:1", "profile b")
    assert bootstrap_servers({**said, "OTTLA_PROFILE": "b"}, "a") == ChosenAddress("a:1", "profile a")
    with pytest.raises(ProfileError, match="profile b has no registry"):
        registry_url(said, "b")
    with pytest.raises(ProfileError, match="there is no profile 'c'"):
        bootstrap_servers(said, "c")


def test_the_file_of_profiles_is_for_its_user_alone(home: dict[str, str], tmp_path: Path) -> None:
    path = write_profiles(home, Profiles({"a": Profile("a:1")}))
    assert path == tmp_path / "ottla" / "profiles.toml"
    path.chmod(0o644)
    write_profiles(home, Profiles())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["profiles.toml"]


def test_a_profile_is_added_used_and_forgotten(home: dict[str, str], bootstrap: str) -> None:
    assert _ottla(home, "topic", "list").stderr.endswith("(localhost:9092 is the default)\n")
    added = _ottla(home, "profile", "add", "test", "-b", bootstrap, "--registry", "http://127.0.0.1:1/")
    addresses = f"profile test: brokers {bootstrap}, registry http://127.0.0.1:1"
    assert added.stdout == f"{addresses}; `ottla profile use test` makes commands use it\n"
    assert _ottla(home, "topic", "list", "--profile", "test").returncode == 0
    assert _ottla({**home, "OTTLA_PROFILE": "test"}, "topic", "list").returncode == 0
    assert _ottla(home, "profile", "use", "test").returncode == 0
    assert _ottla(home, "topic", "list").returncode == 0
    asked = _ottla(home, "topic", "describe", "nosuch")
    assert f"(cluster {bootstrap}, profile test, in use)" in asked.stderr
    refused = _ottla(home, "schema", "list")
    assert "no registry answers at http://127.0.0.1:1" in refused.stderr
    shown = json.loads(_ottla(home, "profile", "show", "--format", "json").stdout)
    assert shown["bootstrap_servers"] == {"address": bootstrap, "origin": "profile test, in use"}
    assert _ottla(home, "profile", "remove", "test").returncode == 0
    assert json.loads(_ottla(home, "profile", "list", "--format", "json").stdout) == []
    assert _ottla(home, "topic", "list").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "new"], "give -b HOST:PORT, --registry URL or both"),
        (["add", "new", "-b", "nonsense:x"], "nonsense:x"),
        (["add", "new", "--registry", "localhost:8081"], "write http://HOST:PORT"),
        (["add", "a b", "-b", "a:1"], "cannot name a profile"),
        (["add", "prod", "-b", "a:1"], "--replace changes it"),
        (["use", "prodd"], "did you mean prod?"),
        (["use"], "or --none"),
        (["remove", "prodd"], "did you mean prod?"),
        (["show", "prodd"], "did you mean prod?"),
    ],
)
def test_a_profile_that_would_be_wrong_is_refused(home: dict[str, str], arguments: list[str], said: str) -> None:
    before = write_profiles(home, Profiles({"prod": Profile("p:1")}))
    text = before.read_text()
    refused = _ottla(home, "profile", *arguments)
    assert refused.returncode == 2
    assert said in refused.stderr
    assert before.read_text() == text


def test_an_address_and_a_profile_are_not_given_together(home: dict[str, str]) -> None:
    write_profiles(home, Profiles({"prod": Profile("p:1", "http://p")}))
    assert "give -b or --profile" in _ottla(home, "topic", "list", "-b", "a:1", "--profile", "prod").stderr
    assert (
        "give --registry or --profile"
        in _ottla(home, "schema", "list", "--url", "http://a", "--profile", "prod").stderr
    )
    wrong = _ottla(home, "topic", "list", "--profile", "prd")
    assert (wrong.returncode, "did you mean prod?" in wrong.stderr) == (2, True)


def test_a_damaged_file_of_profiles_is_named(home: dict[str, str], bootstrap: str) -> None:
    path = write_profiles(home, Profiles())
    path.write_text("use = 3 3\n")
    refused = _ottla(home, "topic", "list")
    assert (refused.returncode, str(path) in refused.stderr) == (2, True)
    assert _ottla(home, "topic", "list", "-b", bootstrap).returncode == 0
