"""Command lines read as Kafka's tools read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.connect import parse_pairs, read_properties
from ottla.cli.faults import BadInput, Misuse
from ottla.cli.kafka.client_options import consumer_settings, producer_settings
from ottla.cli.kafka.configs import parse_added
from ottla.cli.options import Option, Parser

PARSER = Parser(
    "About.",
    [
        Option("topic", "The topic.", "topic"),
        Option("count", "How many.", "n", "Integer", default="3"),
        Option("state", "Any.", "", optional=True),
        Option("list", "A switch."),
        Option("bootstrap-server", "Where.", "HOST:PORT", short="b"),
    ],
)


def test_values_come_after_a_space_or_an_equals_sign() -> None:
    for words in (["--topic", "a=b"], ["--topic=a=b"]):
        assert PARSER.parse(words).text("topic") == "a=b"
    assert PARSER.parse(["-b", "h:1"]).text("bootstrap-server") == "h:1"
    assert PARSER.parse(["--topic", "-1"]).text("topic") == "-1"


def test_a_value_that_may_be_left_out_takes_no_option_for_one() -> None:
    given = PARSER.parse(["--state", "--list"])
    assert "state" in given
    assert given.all("state") == []
    assert "list" in given
    assert PARSER.parse(["--state", "stable"]).text("state") == "stable"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--foo"], "foo is not a recognized option"),
        (["--topi", "x"], "topi is not a recognized option; did you mean --topic?"),
        (["-topic", "x"], "topic is not a recognized option"),
        (["--topic"], "Option topic requires an argument"),
        (["--list=x"], "Option list does not take an argument"),
        (["word"], "belongs to no option"),
    ],
)
def test_what_cannot_be_read_is_said(words: list[str], message: str) -> None:
    with pytest.raises(Misuse) as raised:
        PARSER.parse(words)
    assert message in str(raised.value)


def test_numbers_are_checked_and_defaulted() -> None:
    assert PARSER.parse([]).count("count") == 3
    assert PARSER.parse(["--count", "-7"]).number("count") == -7
    for wrong in ("x", str(2**31)):
        with pytest.raises(Misuse, match=f"Cannot parse argument '{wrong}' of option count"):
            PARSER.parse(["--count", wrong]).number("count")


def test_an_option_given_twice_has_no_single_value() -> None:
    given = PARSER.parse(["--topic", "a", "--topic", "b"])
    assert given.all("topic") == ["a", "b"]
    with pytest.raises(Misuse, match="multiple arguments for option topic"):
        given.text("topic")


def test_usage_goes_to_stderr_with_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        PARSER.read(["--help"])
    assert ended.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("About.\nOption ")
    assert all(f"--{name}" in err for name in PARSER.options)
    assert all(len(line) <= 80 for line in err.splitlines())


def test_properties_files_are_javas(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# note\n! note\na=1\nb : 2\n\nc=x=y\nlong=one,\\\n  two\nempty\n")
    assert read_properties(str(path)) == {"a": "1", "b": "2", "c": "x=y", "long": "one,two", "empty": ""}


def test_escapes_and_blanks_of_properties_files_are_javas(tmp_path: Path) -> None:
    path = tmp_path / "reader.properties"
    path.write_text("key.separator=\\t\nnull.marker=\\u00e9\\\\\npath c:\\\\d\nblank= \\ \nacks=all \n")
    written = {"key.separator": "\t", "null.marker": "é\\", "path": "c:\\d", "blank": " ", "acks": "all "}
    assert read_properties(str(path), trim=False) == written
    assert read_properties(str(path))["acks"] == "all"
    path.write_text("a=\\u00g0\n")
    with pytest.raises(BadInput, match="broken"):
        read_properties(str(path))
    path.write_text("a=\\ud83d\\ude80\n")
    assert read_properties(str(path)) == {"a": "🚀"}
    path.write_text("a=\\ud83d\n")
    with pytest.raises(BadInput, match="half a character"):
        read_properties(str(path))


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"max.poll.records": "0"}, "Invalid value 0 for configuration max.poll.records: Value must be at least 1"),
        ({"fetch.max.bytes": "99999999999"}, "fetch.max.bytes: Not a number of type INT"),
        ({"fetch.min.bytes": "1_0"}, "fetch.min.bytes: Not a number of type INT"),
        ({"heartbeat.interval.ms": "-1"}, "heartbeat.interval.ms: Value must be at least 1"),
    ],
)
def test_options_of_consumers_have_kafkas_bounds(properties: dict[str, str], said: str) -> None:
    with pytest.raises(Misuse) as refused:
        consumer_settings(properties)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"linger.ms": "-1"}, "Invalid value -1 for configuration linger.ms: Value must be at least 0"),
        ({"batch.size": "1e3"}, "batch.size: Not a number of type INT"),
        ({"compression.type": "zstd", "compression.zstd.level": "high"}, "zstd.level: Not a number of type INT"),
        ({"compression.type": "lz4", "compression.lz4.level": "18"}, "lz4.level: Value must be no more than 17"),
        ({"compression.type": "gzip", "compression.gzip.level": "0"}, "gzip.level: Value must be between 1 and 9"),
    ],
)
def test_options_of_producers_have_kafkas_bounds(properties: dict[str, str], said: str) -> None:
    with pytest.raises(Misuse) as refused:
        producer_settings(properties)
    assert said in str(refused.value)


def test_a_level_of_the_codec_is_taken() -> None:
    assert producer_settings({"compression.type": "zstd", "compression.zstd.level": "-5"}).compression_level == -5
    assert producer_settings({"compression.type": "snappy", "linger.ms": "9999999999"}).compression_level is None


def test_pairs_need_a_key_and_an_equals_sign() -> None:
    assert parse_pairs(["a=1", "b="]) == {"a": "1", "b": ""}
    for wrong in ("a", "=1"):
        with pytest.raises(Misuse):
            parse_pairs([wrong])


def test_commas_in_brackets_belong_to_the_value() -> None:
    assert parse_added(["a=1,b=[x,y],c="]) == {"a": "1", "b": "x,y", "c": ""}
    with pytest.raises(Misuse, match="key=val"):
        parse_added(["a"])


def test_a_config_to_add_that_is_empty_is_refused() -> None:
    for empty in ("", " ", ","):
        with pytest.raises(Misuse, match="key=val"):
            parse_added([empty])
    assert parse_added(["a=1,"]) == {"a": "1"}
