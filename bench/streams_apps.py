"""Topologies of the race, the same as those of `StreamsRace.java`; STREAMS_RACE holds the names of their topics."""

from __future__ import annotations

import json
import os

from ottla.streams import TEXT, SessionWindows, StreamsBuilder, TimeWindows, Topology

TOPICS = json.loads(os.environ["STREAMS_RACE"])


def map_values() -> Topology:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    builder.stream(TOPICS["a"]).map_values(lambda value: value + "!").to(TOPICS["out"])
    return builder.build()


def count() -> Topology:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    counted = builder.stream(TOPICS["a"]).group_by_key().count(store="counts")
    counted.to_stream().map_values(str).to(TOPICS["out"])
    return builder.build()


def tumbling() -> Topology:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    counted = builder.stream(TOPICS["a"]).group_by_key().windowed_by(TimeWindows(60_000)).count(store="counts")
    counted.to_stream().map(lambda window, count: (window.key, str(count))).to(TOPICS["out"])
    return builder.build()


def session() -> Topology:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    counted = builder.stream(TOPICS["a"]).group_by_key().windowed_by(SessionWindows(30_000)).count(store="counts")
    counted.to_stream().map(lambda window, count: (window.key, str(count))).to(TOPICS["out"])
    return builder.build()


def stream_table() -> Topology:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    table = builder.table(TOPICS["t"], store="table")
    builder.stream(TOPICS["a"]).join(table, lambda left, right: left + right).to(TOPICS["out"])
    return builder.build()


def table_table() -> Topology:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    other = builder.table(TOPICS["b"], store="b")
    joined = builder.table(TOPICS["a"], store="a").join(other, lambda left, right: left + right)
    joined.to_stream().to(TOPICS["out"])
    return builder.build()
