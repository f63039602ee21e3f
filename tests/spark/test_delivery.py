"""The options of delivery, the task that they make, and the plans that exactly-once refuses."""

import pytest

from ottla.spark.delivery import (
    ADAPTIVE,
    BATCH_ID,
    QUERY_ID,
    SORTED,
    STATELESS_ADAPTIVE,
    SparkDelivery,
    batch_task,
    streaming_task,
)
from ottla.spark.marker import SparkTask
from ottla.spark.options import sink_options

STREAM = {QUERY_ID: "q", BATCH_ID: "5", ADAPTIVE: "false"}
EITHER = ({ADAPTIVE: "false"}, {STATELESS_ADAPTIVE: "false"}, {ADAPTIVE: "true", STATELESS_ADAPTIVE: "false"})
DELIVERY = SparkDelivery("p", "t")


def understood(**more):
    given = {name.replace("__", "."): text for name, text in more.items()}
    return sink_options({"kafka.bootstrap.servers": "b:1", **given}).delivery


def test_rows_are_written_at_least_once_by_default():
    assert understood(topic="t") is None
    assert understood(topic="t", delivery="At-Least-Once") is None


def test_exactly_once_has_defaults_for_all_but_the_topic():
    assert understood(topic="t", delivery="exactly-once") == SparkDelivery("ottla", "t")
    given = understood(
        delivery="exactly-once",
        delivery__prefix="p",
        delivery__marker__topic="m",
        delivery__missing__marker="write",
        delivery__query="q",
        delivery__batch="4",
    )
    assert given == SparkDelivery("p", "m", True, "q", 4)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"topic": "t", "delivery": "twice"}, "must be at-least-once or exactly-once, got 'twice'"),
        ({"topic": "t", "delivery__prefix": "p"}, "'delivery.prefix' needs option 'delivery' to be exactly-once"),
        ({"delivery": "exactly-once"}, "'delivery.marker.topic' says under which"),
        ({"topic": "t", "delivery": "exactly-once", "delivery__missing__marker": "skip"}, "must be fail or write"),
        ({"topic": "t", "delivery": "exactly-once", "delivery__query": "q"}, "go together"),
        (
            {"topic": "t", "delivery": "exactly-once", "delivery__query": "q", "delivery__batch": "-1"},
            "must be a whole number",
        ),
        (
            {"topic": "t", "delivery": "exactly-once", "delivery__query": " ", "delivery__batch": "1"},
            "'delivery.query' is blank",
        ),
        ({"topic": "t", "kafka__transactional__id": "x"}, "begins with option 'delivery.prefix'"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(options, reason):
    with pytest.raises(ValueError, match=reason):
        understood(**options)


def test_transactions_may_be_open_for_as_long_as_kafka_is_told():
    given = sink_options({"kafka.bootstrap.servers": "b:1", "topic": "t", "kafka.transaction.timeout.ms": "7"})
    assert given.kafka.transaction_timeout_ms == 7


def test_a_task_of_a_stream_is_named_after_its_query_and_batch():
    assert streaming_task(DELIVERY, STREAM.get, 2) == SparkTask("q", 5, 2, "p")
    assert SparkTask("q", 5, 2, "p").name == "p-q-2"


@pytest.mark.parametrize("settings", EITHER)
def test_a_stream_may_have_adaptive_execution_off_altogether_or_for_streams_alone(settings):
    assert streaming_task(DELIVERY, {QUERY_ID: "q", BATCH_ID: "5", **settings}.get, 2).batch == 5


def test_a_micro_batch_of_foreach_batch_must_have_it_off_altogether():
    with pytest.raises(ValueError, match=r"spark\.sql\.adaptive\.enabled=false"):
        batch_task(SparkDelivery("p", "t", query="q"), "job-1", {STATELESS_ADAPTIVE: "false"}.get, 0)


def test_a_task_of_a_job_has_a_name_of_its_own_unless_it_is_a_micro_batch():
    assert batch_task(DELIVERY, "job-1", {}.get, 2) == SparkTask("job-1", 0, 2, "p")
    named = SparkDelivery("p", "t", query="q", batch=9)
    assert batch_task(named, "job-1", STREAM.get, 2) == SparkTask("q", 9, 2, "p")


@pytest.mark.parametrize("missing", [QUERY_ID, BATCH_ID])
def test_a_stream_that_does_not_say_which_batch_it_writes_is_refused(missing):
    with pytest.raises(ValueError, match="does not say which micro-batch"):
        streaming_task(DELIVERY, {**STREAM, missing: None}.get, 0)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({ADAPTIVE: "true"}, "needs adaptive execution off"),
        ({ADAPTIVE: None}, "needs adaptive execution off"),
        ({SORTED: "false"}, "sortBeforeRepartition=true"),
    ],
)
def test_a_plan_that_may_deal_rows_out_anew_is_refused(settings, reason):
    given = {**STREAM, **settings}
    with pytest.raises(ValueError, match=reason):
        streaming_task(DELIVERY, given.get, 0)
    with pytest.raises(ValueError, match=reason):
        batch_task(SparkDelivery("p", "t", query="q"), "job-1", given.get, 0)
