"""Options declared once: flags, keyword arguments and property files take the same values and refuse the same ones."""

from __future__ import annotations

import argparse

import pytest

from ottla.jobs.options import HIDDEN, JobOption, JobOptionKind, JobOptions, OptionRefused, add_flag, typed, value_of

MIRROR = JobOptions(
    "ottla.mirror.copy",
    (
        JobOption("topics", JobOptionKind.NAMES, "", "the topics to copy", metavar="NAMES"),
        JobOption("codec", JobOptionKind.TEXT, "zstd", "the compression", choices=("zstd", "none"), aliases=("plain",)),
        JobOption("target_size", JobOptionKind.SIZE, 64 << 20, "the size of a request"),
        JobOption("sync_every", JobOptionKind.DURATION, 60_000, "the time between two looks at groups"),
        JobOption("tasks_max", JobOptionKind.COUNT, 1, "the most tasks"),
        JobOption("metrics_port", JobOptionKind.PORT, None, "the port of metrics"),
        JobOption("follow", JobOptionKind.FLAG, True, "go on when all is copied"),
        JobOption("rename", JobOptionKind.LIST, (), "OLD=NEW"),
        JobOption("password", JobOptionKind.SECRET, "", "the password of the source"),
    ),
    beside=("source", "target"),
)
KEYWORDS: dict[str, object] = {
    "topics": "a,b", "codec": "none", "target_size": 1 << 20, "sync_every": 90_000, "tasks_max": 4,
    "metrics_port": 0, "follow": False, "rename": ("a=b", "c=d"), "password": "s3cret",
}  # fmt: skip


def of_arguments(arguments: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(exit_on_error=False)
    for option in MIRROR.all:
        add_flag(parser, option, read=typed(option))
    found = vars(parser.parse_args(arguments))
    return MIRROR.checked(found)


def test_flags_properties_and_keywords_give_the_same_values() -> None:
    arguments = (
        "--topics a,b --codec none --target-size 1MiB --sync-every 90s --tasks-max 4 --metrics-port 0 --no-follow "
        "--rename a=b --rename c=d --password s3cret"
    )
    properties = {
        "topics": "a,b", "codec": "none", "target.size": "1MiB", "sync.every": "90s", "tasks.max": "4",
        "metrics.port": "0", "follow": "false", "rename": "a=b, c=d", "password": "s3cret",
    }  # fmt: skip
    assert of_arguments(arguments.split()) == MIRROR.of_properties(properties) == MIRROR.checked(KEYWORDS) == KEYWORDS
    assert of_arguments([]) == MIRROR.of_properties({}) == {}
    assert set(MIRROR.defaults) == set(KEYWORDS)


def test_a_name_that_does_not_exist_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(TypeError, match=r"ottla\.mirror\.copy has no option targt; did you mean target"):
        MIRROR.checked({"targt": "x"})
    with pytest.raises(OptionRefused, match=r"no option tasks\.maxx; did you mean tasks\.max\?"):
        MIRROR.of_properties({"tasks.maxx": "1"})


def test_all_that_is_wrong_in_a_property_file_is_told_at_once() -> None:
    with pytest.raises(OptionRefused) as refused:
        MIRROR.of_properties(
            {"tasks.max": "0", "codec": "zst", "follow": "yes", "target.size": "big", "sync.every": "0s"}
        )
    assert str(refused.value).splitlines() == [
        "tasks.max 0: give a number above 0",
        "codec zst: give one of zstd, none; did you mean zstd?",
        "follow yes: write true or false",
        "target.size: 'big' is not a size: write e.g. 1000000, 512KiB, 64MiB or 1GiB",
        "sync.every 0s: give a duration above 0",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [("tasks_max", "4"), ("tasks_max", True), ("follow", 1), ("codec", 3), ("rename", [1]), ("topics", None)],
)
def test_a_value_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"{name} is"):
        value_of(MIRROR.by_name[name], value)


@pytest.mark.parametrize(("name", "value"), [("metrics_port", 65_536), ("topics", ["a,b"]), ("codec", "gzip")])
def test_a_value_that_is_not_allowed_is_refused(name: str, value: object) -> None:
    with pytest.raises(OptionRefused):
        MIRROR.checked({name: value})


def test_a_secret_is_shown_nowhere() -> None:
    secret = JobOption("password", JobOptionKind.SECRET, "changeit", "the password")
    with pytest.raises(TypeError) as refused:
        value_of(secret, 1234)
    assert "1234" not in str(refused.value)
    shown = JobOptions("job", [secret]).text()
    assert "changeit" not in shown
    assert HIDDEN in shown
