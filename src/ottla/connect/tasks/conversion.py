"""Records between a connector and a topic: transformations and converters, made once for a task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn, TypeVar, cast

from ottla.client.model import ConsumedRecord
from ottla.client.model import Header as RawHeader
from ottla.connect.chain import Chain, TransformationStep
from ottla.connect.converters import CONVERTERS, HEADER_CONVERTERS
from ottla.connect.converters.common import Converter
from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.plugin import found
from ottla.connect.records import ConnectRecord, Header, SinkRecord, SourceRecord
from ottla.connect.tasks.clients import below

R = TypeVar("R")
M = TypeVar("M")
_SIMPLE_HEADERS: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_TIMES: Final = ("CreateTime", "LogAppendTime")
TOLERABLE: Final = (ConnectException, ValueError, TypeError, LookupError, ArithmeticError)
"""The errors by which a converter or a transformation refuses a record."""


class StageFault(Exception):
    """One stage refused one record."""

    def __init__(self, stage: str, at_class: str, error: Exception) -> None:
        super().__init__(f"{stage}: {error}")
        self.stage, self.at_class, self.error = stage, at_class, error

    @property
    def java_class(self) -> str:
        """The class of the error, as dead letters carry it."""
        kind = type(self.error)
        return getattr(self.error, "java_class", None) or f"{kind.__module__}.{kind.__qualname__}"


class Outgoing(NamedTuple):
    """A record for the producer."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int | None
    headers: list[RawHeader]
    timestamp: int | None


class Conversion:
    """The chain and the three converters of a task."""

    def __init__(self, worker: Mapping[str, str], config: Mapping[str, str]) -> None:
        """Make them of the resolved configuration; `ConfigException` names a wrong option."""
        self.strange: list[str] = []
        """A sentence for each option of a converter that it does not have."""
        self._chain = Chain(config)
        self._key, self._key_class = self._made("key", worker, config)
        self._value, self._value_class = self._made("value", worker, config)
        self._header, self._header_class = self._made("header", worker, config)
        made = (self._key, self._value, self._header)
        self._calls_out = any(getattr(each, "calls_out", False) for each in made)

    @property
    def steps(self) -> tuple[TransformationStep, ...]:
        """The transformations in their order."""
        return self._chain.steps

    async def all_incoming(self, records: Sequence[ConsumedRecord]) -> list[SinkRecord] | None:
        """Records of topics at once, without those that a transformation dropped; None where a stage refuses one."""
        return await asyncio.to_thread(self._at_once, records) if self._calls_out else self._at_once(records)

    async def each(self, convert: Callable[[R], M], records: Sequence[R]) -> AsyncIterator[tuple[R, M | StageFault]]:
        """Records with what `convert`, one of the two below, makes of each, or the fault of a stage that refused it."""
        at = 0
        while at < len(records):
            for one in await self.until_fault(convert, records, at):
                yield records[at], one
                at += 1

    async def until_fault(self, convert: Callable[[R], M], records: Sequence[R], at: int) -> list[M | StageFault]:
        """The results of `convert` for the records from here on, up to the first that is refused.

        It is called in a thread where a converter calls out: a registry that is slow must not hold up other tasks.
        """
        if self._calls_out:
            return await asyncio.to_thread(_until_fault, convert, records, at)
        return _until_fault(convert, records, at)

    async def again(self, convert: Callable[[R], M], record: R) -> M:
        """One record anew; StageFault where a stage refuses it."""
        return await asyncio.to_thread(convert, record) if self._calls_out else convert(record)

    def outgoing(self, record: SourceRecord) -> Outgoing | None:
        """The bytes of a record, None for one that a transformation dropped; StageFault where one stage refused it."""
        if record.fault is not None:
            raise StageFault("TASK_POLL", "", record.fault) from record.fault
        made = self._transformed(record)
        return None if made is None else self.written(made)

    def written(self, made: ConnectRecord) -> Outgoing:
        """The bytes of a record behind all transformations; StageFault where a converter refuses it."""
        stage, at_class = "KEY_CONVERTER", self._key_class
        try:
            key = self._key.from_connect(made.topic, made.key_schema, made.key)
            stage, at_class = "VALUE_CONVERTER", self._value_class
            value = self._value.from_connect(made.topic, made.value_schema, made.value)
            stage, at_class = "HEADER_CONVERTER", self._header_class
            headers = [
                (each.key, self._header.from_connect(made.topic, each.schema, each.value)) for each in made.headers
            ]
        except TOLERABLE as error:
            raise StageFault(stage, at_class, error) from error
        return Outgoing(made.topic, value, key, made.partition, headers, made.timestamp)

    def incoming(self, read: ConsumedRecord) -> SinkRecord | None:
        """The record of a topic, None for one that a transformation dropped; StageFault where one stage refused it."""
        made = self._transformed(self.taken(read))
        assert made is None or isinstance(made, SinkRecord)
        return made

    def taken(self, read: ConsumedRecord) -> SinkRecord:
        """The record of a topic before all transformations; StageFault where a converter refuses it."""
        stage, at_class = "KEY_CONVERTER", self._key_class
        try:
            key = self._key.to_connect(read.topic, read.key)
            stage, at_class = "VALUE_CONVERTER", self._value_class
            value = self._value.to_connect(read.topic, read.value)
            stage, at_class = "HEADER_CONVERTER", self._header_class
            headers = tuple([self._read_header(read.topic, each) for each in read.headers])
        except TOLERABLE as error:
            raise StageFault(stage, at_class, error) from error
        return SinkRecord(
            read.topic, read.partition, key.schema, key.value, value.schema, value.value, read.timestamp, headers,
            read.offset, _TIMES[read.timestamp_type],
        )  # fmt: skip

    def _at_once(self, records: Sequence[ConsumedRecord]) -> list[SinkRecord] | None:
        """Do what `incoming` does for each, in one loop: most lists have no record that is refused."""
        key_of, value_of, made = self._key.to_connect, self._value.to_connect, []
        try:
            for topic, partition, offset, timestamp, kind, key, value, headers, _ in records:
                key_schema, own_key = key_of(topic, key)
                value_schema, own_value = value_of(topic, value)
                own_headers = tuple([self._read_header(topic, each) for each in headers]) if headers else ()
                made.append(
                    SinkRecord(
                        topic, partition, key_schema, own_key, value_schema, own_value, timestamp, own_headers, offset,
                        _TIMES[kind],
                    )
                )  # fmt: skip
            return cast("list[SinkRecord]", self._chain.apply_all(made, _refuse)) if self._chain.steps else made
        except (StageFault, *TOLERABLE):
            return None

    def _made(self, part: str, worker: Mapping[str, str], config: Mapping[str, str]) -> tuple[Converter, str]:
        """The connector's own converter with its own options, or else the worker's with the worker's."""
        name = f"{part}.converter"
        source = config if config.get(name) else worker
        java_class = source.get(name) or (_SIMPLE_HEADERS if part == "header" else None)
        if java_class is None:
            raise ConfigException(f'Missing required configuration "{name}" which has no default value.')
        plugin = found(HEADER_CONVERTERS if part == "header" else CONVERTERS, java_class)
        options = {key: value for key, value in below(source, f"{name}.").items() if key != "plugin.version"}
        if "converter.type" in plugin.options.options:
            options["converter.type"] = part
        self.strange += [f"{name} {plugin.java_class}: {sentence}" for sentence in plugin.options.unknown(options)]
        return plugin.make(options), plugin.java_class

    def _read_header(self, topic: str, header: RawHeader) -> Header:
        found = self._header.to_connect(topic, header[1])
        return Header(header[0], found.schema, found.value)

    def _transformed(self, record: ConnectRecord) -> ConnectRecord | None:
        if not self._chain.steps:
            return record
        try:
            made = self._chain.apply_all([record], _refuse)
        except TOLERABLE as error:  # a defect of ours in a step costs the record, as in Kafka
            raise StageFault("TRANSFORMATION", "", error) from error
        return made[0] if made else None


def _until_fault(convert: Callable[[R], M], records: Sequence[R], at: int) -> list[M | StageFault]:
    """The records from here on, up to the first that is refused: it may be tried again before those behind it."""
    made: list[M | StageFault] = []
    for place in range(at, len(records)):
        try:
            made.append(convert(records[place]))
        except StageFault as fault:
            return [*made, fault]
    return made


def _refuse(_: ConnectRecord, step: TransformationStep, fault: ConnectException) -> NoReturn:
    raise StageFault("TRANSFORMATION", step.java_class, fault) from fault
