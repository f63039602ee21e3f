"""The syslog source over real sockets, without a broker."""

import asyncio
import socket

import pytest

from ottla.connect.errors import ConfigException, RetriableException
from ottla.connect.plugins.syslog.source import SyslogSourceConnector
from ottla.connect.testing import OtherSide, check_source

CONFIG = {"topic": "t", "listen.port": "0"}
LINE = b"<13>1 2026-01-02T03:04:05Z web1 nginx 7 - - GET /%d"


def listening(story, **options):
    async def run():
        given = {name.replace("_", "."): value for name, value in options.items()}
        task = SyslogSourceConnector.task(CONFIG | given)
        await task.start(None)
        try:
            return await asyncio.wait_for(story(task), 60)
        finally:
            await task.close()

    return asyncio.run(run())


async def read(task, count):
    found = []
    while len(found) < count:
        some = await task.read()
        task.acknowledged(some)
        found += some
    return found


def datagram(task, content):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(content, ("127.0.0.1", task.port))


async def stream(task, content):
    _, writer = await asyncio.open_connection("127.0.0.1", task.port)
    writer.write(content)
    await writer.drain()
    return writer


def test_a_datagram_is_a_record_with_its_host_as_key_and_its_own_time():
    async def story(task):
        datagram(task, LINE % 1)
        return await read(task, 1)

    [record] = listening(story)
    assert (record.key, record.value["app"], record.timestamp) == ("web1", "nginx", 1767323045000)
    assert [(each.key, each.value) for each in record.headers] == [("syslog.sender", "127.0.0.1")]


def test_a_stream_is_cut_into_records_that_keep_their_text():
    async def story(task):
        writer = await stream(task, LINE % 1 + b"\n<5>not syslog\n")
        writer.close()
        return await read(task, 2)

    assert [each.value for each in listening(story, format="raw")] == [(LINE % 1).decode(), "<5>not syslog"]


def test_a_stream_waits_while_kafka_does_and_loses_nothing():
    async def story(task):
        writer = await stream(task, b"".join(LINE % n + b"\n" for n in range(50)))
        writer.close()
        first = await task.read()
        assert len(first) == 3
        task.acknowledged(first)
        return [*first, *await read(task, 47)]

    found = listening(story, max_pending="3")
    assert [each.value["message"] for each in found] == [f"GET /{n}" for n in range(50)]


def test_datagrams_beyond_the_bound_are_counted(caplog):
    async def story(task):
        for n in range(3):
            task.take_datagram(LINE % n, "127.0.0.1")
        assert task.dropped == 2
        return await read(task, 1)

    assert len(listening(story, max_pending="1")) == 1
    assert "1 datagrams were dropped so far" in caplog.text
    assert "2 datagrams were dropped since the start" in caplog.text


def test_a_connection_that_speaks_something_else_is_ended(caplog):
    async def story(task):
        reader, writer = await asyncio.open_connection("127.0.0.1", task.port)
        writer.write(b"1abc")
        assert await reader.read() == b""
        writer.close()

    listening(story)
    assert "the connection of 127.0.0.1 is ended: a message begins neither" in caplog.text


def test_a_port_that_is_taken_may_become_free():
    async def story(task):
        other = SyslogSourceConnector.task(CONFIG | {"listen.port": str(task.port)})
        with pytest.raises(RetriableException, match=r"or set listen\.port"):
            await other.start(None)
        await other.close()

    listening(story)


def test_a_time_zone_that_is_none_is_refused():
    with pytest.raises(ConfigException, match="no such time zone"):
        SyslogSourceConnector.task(CONFIG | {"timezone": "Europe/Bonn"})


def test_the_syslog_source_passes_the_kit():
    async def feed(task):
        writer = await stream(task, b"".join(LINE % n + b"\n" for n in range(3)))
        writer.close()

    check_source(SyslogSourceConnector, lambda: OtherSide(CONFIG, feed=feed), records=3)
