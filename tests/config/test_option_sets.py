"""Options as values: typed, checked, unchangeable; each honoured one is read somewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from ottla.config.broker import BrokerConfig
from ottla.config.broker_checks import RACK_AWARE
from ottla.config.group import GroupConfig
from ottla.config.known import broker_options
from ottla.config.option import ConfigError, Option, OptionKind, OptionStatus, nearest
from ottla.config.topic import TopicConfig

SOURCE = Path(ottla.__file__).parent


def test_a_set_without_values_has_kafkas_defaults():
    config = TopicConfig()
    assert config.segment_bytes == 1 << 30
    assert config.retention_ms == 7 * 24 * 3600 * 1000
    assert config.cleanup_policy == ("delete",)
    assert config.write_caching is False
    assert config.deleted and not config.compacted


def test_a_set_does_not_change_but_makes_another():
    config = TopicConfig(segment_bytes=5)
    with pytest.raises(AttributeError):
        config.segment_bytes = 6  # type: ignore[misc]
    assert config.replace(segment_ms=7) == TopicConfig(segment_bytes=5, segment_ms=7)
    assert config.segment_ms != 7
    assert hash(config) == hash(TopicConfig(segment_bytes=5))
    assert repr(config) == "TopicConfig(segment_bytes=5)"


def test_an_option_that_does_not_exist_cannot_be_given():
    with pytest.raises(TypeError, match="no option segment_byte"):
        TopicConfig(segment_byte=5)


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(ConfigError) as fault:
        TopicConfig.of_texts({"retention.ms": "abc", "segment.bytes": "1", "flush.ms": "5"})
    assert len(fault.value.problems) == 2


def test_a_refused_option_is_named_with_its_reason_and_its_default_is_allowed():
    with pytest.raises(ConfigError, match=r"preallocate: not supported here\. Segments grow"):
        TopicConfig.of_texts({"preallocate": "true"})
    assert TopicConfig.of_texts({"preallocate": "false"}) == TopicConfig()


def test_a_replica_selector_that_is_not_here_is_refused_by_its_name():
    assert BrokerConfig(replica_selector_class=RACK_AWARE).replica_selector_class == RACK_AWARE
    with pytest.raises(ConfigError, match=r"no replica selector com\.example\.Nearest here"):
        BrokerConfig.of_texts({"replica.selector.class": "com.example.Nearest"})


@pytest.mark.parametrize("text", ["", " ", "+", "-", "1_000", "١", "0x10", "9" * 50, "1e3", "2147483648"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ConfigError, match="Not a number of type INT"):
        Option("x", 1, OptionKind.INT).parse(text)


@pytest.mark.parametrize("text", ["nan", "inf", "1_0", "٣", "", "0x10"])
def test_what_java_does_not_read_as_a_double_is_refused(text):
    with pytest.raises(ConfigError, match="Not a number of type DOUBLE"):
        Option("x", 1.0, OptionKind.DOUBLE).parse(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ottla.scrub.interval.hours", "NaN"),
        ("ottla.scrub.interval.hours", "Infinity"),
        ("ottla.scrub.interval.hours", "1e300"),
        ("log.cleaner.io.max.bytes.per.second", "NaN"),
        ("log.cleaner.io.max.bytes.per.second", "0"),
    ],
)
def test_numbers_that_no_clock_or_throttle_can_use_are_refused(name, text):
    with pytest.raises(ConfigError, match="Value must be"):
        BrokerConfig.of_texts({name: text})


def test_what_a_list_names_twice_counts_once():
    assert BrokerConfig.of_texts({"log.dirs": "/b, /a,/b"}).log_dirs == ("/b", "/a")


def test_doubles_are_printed_as_java_prints_them():
    declared = TopicConfig.BY_NAME["min.cleanable.dirty.ratio"]
    assert [declared.text(value) for value in (0.5, 1.0, 0.00001)] == ["0.5", "1.0", "1.0E-5"]


def test_every_option_says_what_it_is_for():
    for declared in (*TopicConfig.OPTIONS, *GroupConfig.OPTIONS, *broker_options().values()):
        assert len(declared.doc) > 10, declared.name
        assert declared.doc.rstrip().endswith((".", ";")), declared.name


def test_a_misspelt_name_is_answered_with_the_one_that_was_meant():
    assert nearest("log.retention.hour", broker_options()) == " (did you mean log.retention.hours?)"
    assert nearest("zzzzzzzzzzzz", broker_options()) == ""


def test_importing_the_configuration_is_cheap():
    """Every start imports it. The bound counts modules, so that it also holds on a busy machine."""
    code = "import sys; before = set(sys.modules); import ottla.config.resolve; print(len(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env=_path())
    assert int(ran.stdout) < 75
    code = "import sys, ottla.config.resolve; print([m for m in ('asyncio', 'inspect', 'json') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env=_path())
    assert ran.stdout.strip() == "[]"


def _path() -> dict[str, str]:
    return {"PYTHONPATH": str(SOURCE.parent)}


def test_what_is_said_to_be_honoured_is_read_somewhere_and_the_rest_is_not():
    """Code reads each option that is declared as honoured, and no option that is declared without effect."""
    rooms = [path for path in SOURCE.rglob("*.py") if path.parent.name != "config"]
    rooms += [SOURCE / "config" / name for name in ("resolve.py", "listeners.py", "security.py")]
    source = "\n".join(path.read_text(encoding="utf-8") for path in rooms)
    for declared in (*TopicConfig.OPTIONS, *BrokerConfig.OPTIONS):
        read = f".{declared.attribute}" in source or f'"{declared.name}"' in source
        if declared.status is OptionStatus.HONOURED:
            assert read, f"nobody reads {declared.name}: it is refused, or has no effect"
        elif declared.status is OptionStatus.NO_EFFECT:
            assert f".{declared.attribute}" not in source, f"{declared.name} is read: it is honoured"
