"""The lake as a sink: its options in Connect's words, and one connector's life on a worker."""

import asyncio

import pytest

from ottla import lake
from ottla.client import Producer
from ottla.connect.errors import ConfigException
from ottla.connect.machine.connector_options import WorkerView
from ottla.connect.machine.decide import create, set_target
from ottla.connect.machine.records import Target
from ottla.connect.machine.refusals import CallRefused
from ottla.connect.machine.validation import validated
from ottla.connect.rest.plugins import listed
from ottla.connect.worker import Worker, WorkerSettings
from ottla.sinks.lake import LakeSinkConnector, in_properties, load_options
from ottla.stores import LakeHeld
from ottla.testing import TestBroker

_WAIT_S = 90


def a_config(**given):
    return {"name": "c", "to": "/lake", "topics": "t", **{name.replace("_", "."): each for name, each in given.items()}}


def test_options_are_those_of_a_load_by_their_names_in_property_files():
    given = a_config(json="true", partition_by="day, shop", target_size="64MiB", rename="a=b, c=d", max_offsets="5")
    assert load_options(given) == {
        "json": True, "partition_by": "day, shop", "target_size": 64 << 20, "rename": ("a=b", "c=d"), "max_offsets": 5,
        "on": "local", "group": "connect-c",
    }  # fmt: skip
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    found = load_options({"name": "c", "to": "/lake", "topics.regex": "ab+", "ottla.runner": "spark", **letters})
    assert (found["on"], found["pattern"], found["dead_letter"]) == ("spark", "ab+", "dead")


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"format": "parkett"}, "format parkett: give one of"),
        ({"json": "yes"}, "either true or false"),
        ({"every": "0s"}, "a time above 0"),
        ({"transforms": "a"}, "transforms.a.type"),
        ({"predicates": "a"}, "predicates has no effect without transforms"),
        ({"value.converter": "x"}, "value.converter has no effect"),
        ({"consumer.override.group.id": "x"}, "has no effect"),
        ({"errors.tolerance": "all"}, "go together here"),
        ({"to": "s4://x/y"}, "did you mean s3"),
        ({"spark.master": "yarn"}, "with ottla.runner=spark alone"),
    ],
)
def test_options_that_cannot_be_kept_are_refused(given, fault):
    with pytest.raises(ConfigException, match=fault):
        LakeSinkConnector.tasks({**a_config(), **given}, 3)


def test_refusals_of_the_loader_name_properties():
    said = in_properties("skip with --accept-loss, or name --dead-letter TOPIC and --on spark; --verbose stays")
    letters = "errors.deadletterqueue.topic.name TOPIC"
    assert said == f"skip with accept.loss, or name {letters} and ottla.runner spark; --verbose stays"


def test_a_runner_that_a_connector_does_not_have_is_refused():
    view, lake_sink = WorkerView(), {"name": "c", "connector.class": "LakeSink", "to": "/x", "topics": "t"}
    assert not validated({**lake_sink, "ottla.runner": "spark"}, view).errors
    file = {"name": "c", "connector.class": "FileStreamSink", "topics": "t", "ottla.runner": "spark"}
    assert validated(file, view).errors == [
        "Invalid value spark for configuration ottla.runner: String must be one of: light"
    ]
    assert [each["class"] for each in listed(connectors_only=True) if "runners" in each] == [
        "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
        "io.confluent.connect.hdfs.HdfsSinkConnector",
        "io.confluent.connect.jdbc.JdbcSourceConnector",
        "io.confluent.connect.s3.S3SinkConnector",
        "ottla.connect.LakeSinkConnector",
    ]


async def until(true):
    async with asyncio.timeout(_WAIT_S):
        while not true():
            await asyncio.sleep(0.02)


def send(broker, *values):
    with Producer(broker.bootstrap_servers) as producer:
        for value in values:
            producer.produce("t", value, partition=0)


def numbers(place):
    """The rows that are in the lake."""
    try:
        return sorted(lake.rows(place, "t").read_all()["n"].to_pylist())
    except (OSError, lake.LakeRefused):
        return []


def test_a_lake_is_loaded_paused_resumed_and_keeps_its_offsets(tmp_path):
    place = tmp_path / "lake"
    config = {
        "connector.class": "LakeSink", "topics": "t", "to": str(place), "every": "50ms", "json": "true",
        "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead",
    }  # fmt: skip

    async def story(broker):
        settings = WorkerSettings(broker.bootstrap_servers, status_partitions=1, offset_partitions=1)
        async with Worker(settings, "a:1") as worker:

            def stands(connector, task):
                found = worker.statuses.connectors.get("out")
                return found and (found.state, [each.state for each in worker.statuses.tasks("out").values()]) == (
                    connector, [task] if task else [],
                )  # fmt: skip

            async def wish(target):
                await worker.write(lambda: set_target(worker.configs, "out", target))

            await worker.write(lambda: create(worker.configs, worker.view, "out", config, Target.STARTED))
            await until(lambda: numbers(place) == [1, 2])
            await until(lambda: stands("RUNNING", "RUNNING"))
            await until(lambda: worker.statuses.uses("out", "t"))
            await wish(Target.PAUSED)
            await until(lambda: stands("PAUSED", "PAUSED"))
            await asyncio.to_thread(send, broker, b'{"n": 3}')
            await wish(Target.STARTED)
            await until(lambda: numbers(place) == [1, 2, 3])
            await wish(Target.STOPPED)
            await until(lambda: stands("STOPPED", None))
            found = worker.configs.get("out")
            assert await worker.offsets(found) == [
                {"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 4}}
            ]
            with pytest.raises(CallRefused, match="keeps its own offsets: to load records again") as refused:
                await worker.alter_offsets(found, None)
            assert refused.value.status == 400

    with TestBroker() as broker:
        send(broker, b'{"n": 1}', b"no object", b'{"n": 2}')
        asyncio.run(story(broker))
        assert [each.value for each in broker.records("dead")] == [b"no object"]


@pytest.mark.parametrize("error", [lake.NoTopic("there is no topic t"), LakeHeld("another loader is at work")])
def test_a_topic_that_is_not_made_yet_and_another_loader_are_waited_for(error):
    assert LakeSinkConnector.restarts(error)
    assert not LakeSinkConnector.restarts(lake.LakeRefused("the lake has another format"))
