"""Transformations, predicates, literals and JSON answer as Apache Kafka's own classes do, on generated records.

Where ours differ on purpose, the test says so in `ON_PURPOSE`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.connect.envelopes import alike, envelope

from ottla.connect import data
from ottla.connect.converters.json import JsonConverter
from ottla.connect.data import DAY_MS, Instant, Schema, Struct, Type, struct
from ottla.connect.errors import ConnectException
from ottla.connect.java.dates import DatePattern
from ottla.connect.java.regex import compiled
from ottla.connect.java.text import float32
from ottla.connect.predicates import PREDICATES
from ottla.connect.records import Header, SinkRecord
from ottla.connect.transforms import TRANSFORMATIONS
from ottla.connect.values import parse_text, to_text

pytestmark = pytest.mark.kafka
PACKAGE = "org.apache.kafka.connect.transforms."
RUNS = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


class Oracle:
    """Connect's classes in a Java process that answers line by line."""

    def __init__(self, libs: Path, folder: Path) -> None:
        source = Path(__file__).with_name("Oracle.java")
        subprocess.run(["javac", "-nowarn", "-cp", f"{libs}/*", "-d", folder, source], check=True)
        quick = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", "-Duser.language=en")
        self._process = subprocess.Popen(
            ["java", *quick, "-Duser.country=US", "-cp", f"{folder}:{libs}/*", "Oracle"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8",
        )  # fmt: skip

    def ask(self, **request: Any) -> Any:
        """One answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


@pytest.fixture(scope="module")
def oracle(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Connect's classes."""
    started = Oracle(kafka_libs, tmp_path_factory.mktemp("oracle"))
    yield started
    started.close()


WORDS = st.sampled_from(
    ["", "text", "true", "TRUE", "12", "-7", "+5", "300", "1.5e3", " 5 ", "NaN", "1e400", "0x10", "2024-02-29",
     "2024-02-30 and more", "zwölf", "99999999999999999999", "1f", ".5", "-0"]
)  # fmt: skip
EIGHTHS = st.integers(-100_000, 100_000).map(lambda number: number / 8)
"""Floats that Java 17 writes without superfluous digits."""
LONGS = st.sampled_from([0, 1, -1, 127, 128, -129, 300, 70000, 1 << 40, -(1 << 63), (1 << 63) - 1, 1700000000123])
DOUBLES = EIGHTHS | st.sampled_from([float("nan"), float("inf"), -0.0, 1e20, -1e20, 300.9, 0.001])
INSTANTS = st.sampled_from([0, 1, 1700000000123, 1700006400000, -5, -DAY_MS, 253402300799999]).map(Instant)
SCALARS = {
    "i8": (Type.INT8, st.integers(-128, 127)),
    "i32": (Type.INT32, st.integers(-(1 << 31), (1 << 31) - 1)),
    "i64": (Type.INT64, LONGS),
    "f32": (Type.FLOAT32, EIGHTHS.map(float32)),
    "f64": (Type.FLOAT64, EIGHTHS | st.sampled_from([1e20, -1e300, 300.9, 0.001])),
    "b": (Type.BOOLEAN, st.booleans()),
    "s": (Type.STRING, WORDS),
    "by": (Type.BYTES, st.binary(max_size=3)),
}
LOGICAL = {
    "d": (data.DATE_SCHEMA, st.integers(-1000, 20000).map(lambda day: Instant(day * DAY_MS))),
    "t": (data.TIME_SCHEMA, st.integers(0, DAY_MS - 1).map(Instant)),
    "ts": (data.TIMESTAMP_SCHEMA, INSTANTS),
    "dec": (data.decimal(2), st.integers(-(10**6), 10**6).map(lambda number: Decimal(number).scaleb(-2))),
}


@st.composite
def structs(draw: st.DrawFn, depth: int = 2) -> Struct:
    """A struct of some fields, optional or not, with or without defaults."""
    fields, values = [], []
    names = draw(st.lists(st.sampled_from([*SCALARS, *LOGICAL]), unique=True, max_size=6))
    for name in names:
        schema, strategy = (Schema(SCALARS[name][0]), SCALARS[name][1]) if name in SCALARS else LOGICAL[name]
        optional = draw(st.booleans())
        default = draw(st.none() | strategy) if name not in LOGICAL else None
        fields.append((name, schema.but(optional=optional, default=default)))
        values.append(draw(st.none() | strategy if optional else strategy))
    if draw(st.booleans()):
        fields.append(("arr", data.array(data.INT32.but(optional=True), optional=True)))
        values.append(draw(st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3)))
    if depth and draw(st.booleans()):
        inner = draw(structs(depth - 1))
        optional = draw(st.booleans())
        fields.append(("sub", inner.schema.but(optional=optional)))
        values.append(None if optional and draw(st.booleans()) else Struct(fields[-1][1], inner.values))
    parts: dict[str, Any] = {"name": draw(st.sampled_from([None, "N"])), "version": draw(st.sampled_from([None, 2]))}
    schema = struct(fields, optional=draw(st.booleans()), **parts)
    return Struct(schema, values)


PLAIN = st.recursive(
    st.none() | st.booleans() | LONGS | DOUBLES | WORDS | st.binary(max_size=3) | INSTANTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "s", "q"]), inner, max_size=3),
    max_leaves=4,
)
MAPS = st.dictionaries(st.sampled_from([*SCALARS, *LOGICAL, "arr", "sub"]), PLAIN, max_size=6)
BARE = st.sampled_from(list(SCALARS.values())).flatmap(
    lambda pair: st.tuples(st.just(Schema(pair[0], optional=True)), st.none() | pair[1])
)
VALUES = (
    structs().map(lambda value: (value.schema, value))
    | MAPS.map(lambda value: (None, value))
    | PLAIN.map(lambda value: (None, value))
    | BARE
)
NAME = st.sampled_from([*SCALARS, *LOGICAL, "arr", "sub", "nope"])
NAMES = st.lists(NAME, min_size=1, max_size=3, unique=True).map(",".join)
KINDS = st.sampled_from(["int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string"])
FILL = {"replace.null.with.default": st.sampled_from(["true", "false"])}
PATTERNS = st.sampled_from(
    ["yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss.SSS", "dd/MM/yyyy hh:mm a", "EEE, d MMM yyyy", "yyyyMMdd", "D yyyy", "H:m:s",
     "yyyy-MM-dd'T'HH:mm:ssXXX", "EEEE MMMM G w W F u k K z Z X", "YYYY-'W'ww-u"]
)  # fmt: skip
ASKED = {
    "Cast$Value": {"spec": KINDS | st.lists(NAME, min_size=1, max_size=3, unique=True).flatmap(
        lambda names: st.tuples(*(KINDS.map(lambda kind, name=name: f"{name}:{kind}") for name in names)).map(",".join)
    ), **FILL},
    "ExtractField$Value": {
        "field": st.sampled_from(["s", "sub", "sub.i32", "sub.sub.s", "`sub`.s", "nope", "i32"]),
        "field.syntax.version": st.sampled_from(["V1", "v2"]), **FILL,
    },
    "Flatten$Value": {"delimiter": st.sampled_from([".", "_", ""])},
    "HoistField$Value": {"field": NAME},
    "HoistField$Key": {"field": NAME},
    "InsertField$Value": {
        "topic.field": st.sampled_from(["t1", "s", "t2!"]), "timestamp.field": st.sampled_from(["t3", "t3?"]),
        "offset.field": st.just("o"), "static.field": st.just("st"), "static.value": WORDS, **FILL,
    },
    "MaskField$Value": {"fields": NAMES, **FILL},
    "ReplaceField$Value": {
        "include": st.sampled_from(["", "s,i32,sub"]), "exclude": st.sampled_from(["", "s", "i32,dec"]),
        "renames": st.sampled_from(["", "s:text", "i32:number", "s:b,b:s"]), **FILL,
    },
    "SetSchemaMetadata$Value": {"schema.name": st.sampled_from(["M", "N"]), "schema.version": st.just("7"), **FILL},
    "TimestampConverter$Value": {
        "field": st.sampled_from(["", "ts", "d", "t", "s", "i64"]), "format": PATTERNS,
        "target.type": st.sampled_from(["string", "unix", "Date", "Time", "Timestamp"]),
        "unix.precision": st.sampled_from(["seconds", "milliseconds", "microseconds", "nanoseconds"]), **FILL,
    },
    "HeaderFrom$Value": {
        "fields": NAME, "headers": st.sampled_from(["a", "h"]), "operation": st.sampled_from(["move", "copy"]), **FILL,
    },
    "ValueToKey": {"fields": NAMES, **FILL},
    "DropHeaders": {"headers": st.sampled_from(["h", "k", "h,k", "x"])},
    "RegexRouter": {
        "regex": st.sampled_from([r"(\w+)-(\w+)", ".*", "(?<a>\\w+)-eu", "(?i)ORDERS-.+", "orders|orders-eu", "[a-f-]+",
                                  r"\p{Alpha}+-\p{Lower}{2}", "o.*?(r)?.*", r"\Qorders-\Eeu"]),
        "replacement": st.sampled_from(["$0", "x", "$1-$1", "a$", "\\$x", "${a}", "$12", "t\\u"]),
    },
    "TimestampRouter": {"timestamp.format": PATTERNS, "topic.format": st.sampled_from(["${topic}-${timestamp}", "x"])},
    "predicates.TopicNameMatches": {"pattern": st.sampled_from(["orders-.*", "orders", "^o.*$", "[^x]+"])},
    "predicates.HasHeaderKey": {"name": st.sampled_from(["h", "k", "x"])},
    "predicates.RecordIsTombstone": {},
}  # fmt: skip
ON_PURPOSE = {"java.lang.NullPointerException", "java.lang.IllegalArgumentException", "java.lang.ClassCastException"}
"""Java's errors for which ours are DataException or ConfigException, in our words."""
ORDERED = (
    "Timestamp missing on record: ",
    "Value (",
    "Cast transformation ",
    "Unexpected type in Cast",
    "Kafka Connect Date type ",
    "Invalid value null for configuration static.value: ",
)
"""Messages that show a whole record, that of the first of several fields in the order of Java's hash, or dates that
no long holds."""


def ours(plugin: str, config: dict[str, str], record: SinkRecord) -> dict[str, Any]:
    """Our answer, in the oracle's form."""
    try:
        if plugin.startswith("predicates."):
            return {"test": PREDICATES[PACKAGE + plugin].make(config).test(record)}
        made = TRANSFORMATIONS[PACKAGE + plugin].make(config).apply(record)
        if made is None:
            return {"dropped": True}
        return {
            "topic": made.topic,
            "key": envelope(made.key_schema, made.key),
            "value": envelope(made.value_schema, made.value),
            "headers": [[header.key, envelope(header.schema, header.value)] for header in made.headers],
        }
    except ConnectException as fault:
        return {"error": fault.java_class, "message": str(fault)}


def same_answer(mine: dict[str, Any], theirs: dict[str, Any]) -> bool:
    if theirs.get("error") in ON_PURPOSE and "error" in mine:
        return True
    if mine.get("message", "").startswith("Kafka Connect Date type holds days of 32 bits"):
        return True  # Java drops the upper bits of such a date without a word
    if "error" in theirs and "error" in mine and mine["error"] == theirs["error"]:
        said = theirs["message"].replace("java.util.LinkedHashMap", "java.util.HashMap")
        return mine["message"] == said or said.startswith(ORDERED)
    return alike(mine, theirs)


@pytest.mark.parametrize("plugin", ASKED)
def test_a_plugin_answers_as_apache_kafkas_class_does(oracle: Oracle, plugin: str) -> None:
    asked = ASKED[plugin]
    inserts = plugin.startswith("Insert")
    configs = st.fixed_dictionaries({}, optional=asked) if inserts else st.fixed_dictionaries(asked)

    @RUNS
    @given(config=configs, value=VALUES, timestamp=st.sampled_from([1700000000123, 0, None]))
    def compare(config: dict[str, str], value: tuple[Schema | None, Any], timestamp: int | None) -> None:
        headers = (Header("h", data.STRING, "v"), Header("k", data.INT32, 5))
        record = SinkRecord("orders-eu", 3, None, {"id": 1}, *value, timestamp, headers, offset=77)
        theirs = oracle.ask(
            op="apply", config=config, topic=record.topic, timestamp=timestamp, key=envelope(None, record.key),
            value=envelope(*value), headers=[[each.key, envelope(each.schema, each.value)] for each in headers],
            **{"class": plugin},
        )  # fmt: skip
        mine = ours(plugin, config, record)
        assert same_answer(mine, theirs), f"ours {mine}\ntheirs {theirs}"

    compare()


LITERALS = st.lists(
    st.sampled_from(["[", "]", "{", "}", ",", ":", '"', "1", "-2.5", "300", "null", "true", "a", " ", "\\", "1e5",
                     "2024-05-01", "12:34:56.789Z", "2024-05-01T00:00:00.000Z", "99999999999", "0x1"]),
    max_size=8,
).map("".join)  # fmt: skip


@settings(parent=RUNS, max_examples=250)
@given(text=LITERALS)
def test_a_literal_is_read_as_connect_reads_headers(oracle: Oracle, text: str) -> None:
    theirs = oracle.ask(op="parse", text=text)
    if "error" in theirs:
        assert theirs["error"] in ON_PURPOSE | {"org.apache.kafka.connect.errors.DataException"}
        return
    found = parse_text(text)
    assert alike(envelope(found.schema, found.value), theirs["value"]), f"{text!r}: {found} {theirs}"


@RUNS
@given(value=VALUES)
def test_a_value_is_written_as_text_as_connect_writes_headers(oracle: Oracle, value: tuple[Schema | None, Any]) -> None:
    theirs = oracle.ask(op="text", value=envelope(*value))
    assert to_text(value[1], value[0]) == theirs["text"] or "E" in theirs["text"]


@RUNS
@given(
    value=VALUES,
    config=st.fixed_dictionaries(
        {"schemas.enable": st.sampled_from(["true", "false"]), "decimal.format": st.sampled_from(["BASE64", "NUMERIC"]),
         **FILL}
    ),
)  # fmt: skip
def test_json_is_written_to_the_byte_as_json_converter_does(
    oracle: Oracle, value: tuple[Schema | None, Any], config: dict[str, str]
) -> None:
    theirs = oracle.ask(op="write", value=envelope(*value), config=config)
    try:
        content = JsonConverter({"converter.type": "value", **config}).from_connect("t", *value)
        mine = {"text": None if content is None else content.decode()}
    except ConnectException as fault:
        mine = {"error": fault.java_class, "message": str(fault)}
    if isinstance(value[1], dict) and mine.get("text") and theirs.get("text"):
        mine, theirs = json.loads(mine["text"]), json.loads(theirs["text"])
    assert mine == theirs or alike_text(mine, theirs), f"ours {mine}\ntheirs {theirs}"


def alike_text(mine: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Java 17 writes some floats with more digits than they need."""
    if mine.get("text") is None or theirs.get("text") is None:
        return False
    first, second = json.loads(mine["text"]), json.loads(theirs["text"])
    return json.dumps(first).count(",") == json.dumps(second).count(",") and alike(first, second)


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | LONGS | SCALARS["f64"][1] | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)


@RUNS
@given(document=DOCUMENTS)
def test_plain_json_is_read_as_json_converter_does(oracle: Oracle, document: Any) -> None:
    text = json.dumps(document)
    theirs = oracle.ask(op="read", text=text, config={"schemas.enable": "false"})
    found = JsonConverter({"converter.type": "value", "schemas.enable": "false"}).to_connect("t", text.encode())
    assert alike(envelope(found.schema, found.value), theirs["value"])


@RUNS
@given(value=structs(), drop=st.sampled_from([None, "type", "schema", "fields", "payload", "optional"]))
def test_json_with_schemas_is_read_as_json_converter_does(oracle: Oracle, value: Struct, drop: str | None) -> None:
    document = envelope(value.schema, value)
    for place in (document, document["schema"]):
        place.pop(drop, None)
    text = json.dumps(document)
    theirs = oracle.ask(op="read", text=text, config={"replace.null.with.default": "false"})
    try:
        found = JsonConverter({"converter.type": "value", "replace.null.with.default": "false"}).to_connect(
            "t", text.encode()
        )
        mine = {"value": envelope(found.schema, found.value)}
    except ConnectException as fault:
        mine = {"error": fault.java_class, "message": str(fault)}
    assert same_answer(mine, theirs), f"ours {mine}\ntheirs {theirs}"


@settings(parent=RUNS, max_examples=250)
@given(pattern=PATTERNS, ms=st.integers(-(10**14), 4 * 10**14) | st.integers(-12_300_000_000_000, -12_100_000_000_000))
def test_a_time_is_written_and_read_as_simple_date_format_does(oracle: Oracle, pattern: str, ms: int) -> None:
    theirs = oracle.ask(op="date", pattern=pattern, ms=ms)
    mine = DatePattern(pattern)
    assert mine.format(ms) == theirs["text"]
    assert mine.parse(theirs["text"]) == theirs["ms"]


DATES = st.lists(
    st.sampled_from(["2024", "02", "30", "13", "7", "-", "/", ":", " ", "T", "Z", "+0130", "-05:00", "PM", "am", "Fri",
                     "friday", "Mar", "December", ",", ".", "AD", "UTC", "GMT+2:00", "x", "W"]),
    max_size=9,
).map("".join)  # fmt: skip


@settings(parent=RUNS, max_examples=250)
@given(pattern=PATTERNS, text=DATES)
def test_any_text_is_read_as_simple_date_format_does(oracle: Oracle, pattern: str, text: str) -> None:
    theirs = oracle.ask(op="date", pattern=pattern, read=text)
    try:
        mine = {"ms": DatePattern(pattern).parse(text)}
    except ValueError:
        mine = {"unread": True}
    assert mine == theirs, f"{pattern!r} {text!r}"


PARTS = st.lists(
    st.sampled_from([
        "a", "b", "-", ".", r"\d", r"\w", r"\W", r"\s", "[ab]", "[^a-c]", r"[\d_]", "(a|b)", "(?:ab)", "(?<n>a)",
        r"\k<n>", r"\1", "*", "+", "?", "{2}", "{1,}", "*?", "++", "^", "$", r"\Qa.b\E", r"\x61", r"\u0062",
        r"\p{Lower}", r"\P{Digit}", "(?i)", "(?i:A)", "(?=a)", "(?<!b)", r"\b", r"\.", "é", r"\z", "{", "[",
    ]),
    min_size=1, max_size=6,
).map("".join)  # fmt: skip
SUBJECTS = st.lists(st.sampled_from(["a", "b", "c", "A", "-", ".", "1", " ", "_", "é"]), max_size=6).map("".join)


@settings(parent=RUNS, max_examples=400)
@given(pattern=PARTS, subject=SUBJECTS)
def test_a_regular_expression_matches_as_in_java_or_is_refused(oracle: Oracle, pattern: str, subject: str) -> None:
    theirs = oracle.ask(op="regex", pattern=pattern, text=subject)
    try:
        mine = compiled(pattern).fullmatch(subject) is not None
    except ValueError:
        return
    assert {"matches": mine} == theirs
