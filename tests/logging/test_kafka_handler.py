"""The handler of Python's logging: what arrives, what is counted, and that it never waits."""

import json
import logging
import subprocess
import sys

import pytest

from ottla.logging import KafkaHandler

NOBODY = "127.0.0.1:1"


@pytest.fixture
def logger():
    made = logging.Logger("shop")
    yield made
    for handler in list(made.handlers):
        handler.close()


def test_records_arrive_as_json_with_their_numbers(ottla_broker, ottla_topic, logger):
    handler = KafkaHandler(ottla_broker.bootstrap_servers, ottla_topic)
    logger.addHandler(handler)
    logger.info("sold %d", 3)
    try:
        raise KeyError("x")
    except KeyError:
        logger.exception("failed")
    handler.flush()
    first, second = (json.loads(each.value) for each in ottla_broker.records(ottla_topic, at_least=2))
    assert (first["message"], first["level"], first["logger"], first["number"]) == ("sold 3", "INFO", "shop", 1)
    assert "KeyError: 'x'" in second["exception"]
    assert first["sender"] == second["sender"] == handler.sender
    assert (handler.delivered, handler.dropped) == (2, 0)


def test_a_formatter_makes_the_text(ottla_broker, ottla_topic, logger):
    handler = KafkaHandler(ottla_broker.bootstrap_servers, ottla_topic)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.warning("grüße")
    handler.flush()
    assert ottla_broker.records(ottla_topic, at_least=1)[0].value == "WARNING grüße".encode()


def test_what_there_is_no_room_for_is_dropped_counted_and_told(logger, capsys):
    handler = KafkaHandler(NOBODY, "t", capacity=2, flush_seconds=0.01)
    logger.addHandler(handler)
    for n in range(5):
        logger.info("%d", n)
    assert handler.dropped == 3
    handler.close()
    assert capsys.readouterr().err == "ottla: 5 log records are not in the topic t\n"


def test_a_record_that_cannot_be_formatted_takes_no_room(logger, capsys):
    handler = KafkaHandler(NOBODY, "t", capacity=1, flush_seconds=0.01)
    logger.addHandler(handler)
    logger.info("%d", "no number")
    assert "--- Logging error ---" in capsys.readouterr().err
    assert handler.dropped == 1
    logger.info("there is room")
    assert handler.dropped == 1


def test_records_of_the_client_itself_are_left_out(logger):
    handler = KafkaHandler(NOBODY, "t", capacity=1, flush_seconds=0.01)
    handler.handle(logging.makeLogRecord({"name": "ottla.client", "msg": "lost a connection"}))
    assert (handler.dropped, handler._open) == (0, 0)
    handler.close()


def test_a_wrong_option_is_refused_at_once():
    with pytest.raises(TypeError, match="compresion"):
        KafkaHandler(NOBODY, "t", compresion="zstd")
    with pytest.raises(ValueError, match="capacity is at least 1"):
        KafkaHandler(NOBODY, "t", capacity=0)


PROGRAM = """
import logging, os, sys
from ottla.logging import KafkaHandler
logging.getLogger().addHandler(KafkaHandler(sys.argv[1], sys.argv[2], flush_seconds=30))
logging.warning("parent")
if not os.fork():
    logging.warning("child")
else:
    os.wait()
"""


def test_a_program_and_its_fork_deliver_before_they_end(ottla_broker, ottla_topic):
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, ottla_broker.bootstrap_servers, ottla_topic]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "not in the topic" not in done.stderr
    found = [json.loads(each.value) for each in ottla_broker.records(ottla_topic, at_least=2)]
    assert sorted(each["message"] for each in found) == ["child", "parent"]
    assert [each["number"] for each in found] == [1, 1]
    assert len({each["sender"] for each in found}) == 2
