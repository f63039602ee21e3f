"""A task fails, here and on Spark: a repeating loader says why and goes on, a single load ends with the reason."""

import json
import threading

import pytest

from ottla.lake.causes import cause, job_errors
from ottla.records.reader import Record

pytestmark = pytest.mark.slow

MANY = 10_001


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request):
    return request.param


def fill(topics, topic):
    """Records of more folders than a lake may have."""
    values = [json.dumps({"c": at}).encode() for at in range(MANY)]
    topics.fill(topic, 0, [Record(0, 1_356_998_400_000, None, value) for value in values])


def test_a_repeating_loader_says_why_a_task_failed_and_tries_again(load, topics, eventually):
    topic = topics.new()
    fill(topics, topic)
    stop = threading.Event()
    options = {"json": True, "partition_by": "c", "every": "50ms", "stop": stop}
    loader = threading.Thread(target=load, args=[topic], kwargs=options)
    loader.start()
    try:
        eventually(lambda: sum("makes 10,001 folders" in line for line in load.told) > 1 or not loader.is_alive())
        assert loader.is_alive()
    finally:
        stop.set()
        loader.join()


def test_the_cause_of_a_failed_job_is_one_line(load, topics):
    topic = topics.new()
    fill(topics, topic)
    with pytest.raises(job_errors()) as failed:
        load(topic, json=True, partition_by="c")
    said = cause(failed.value)
    assert said.startswith("ottla.stores.base.LakeRefused: --partition-by c makes 10,001 folders")
