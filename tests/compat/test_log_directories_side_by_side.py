"""Several log directories in Apache Kafka and in ottla, through Kafka's own tools and ours: all say the same."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from apache_kafka import ApacheKafka, run_tool
from cluster_processes import until
from ottla_process import run_our_tool
from processes import OttlaProcess

from ottla.client.admin.admin import NewTopic
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.producer import Producer

pytestmark = [pytest.mark.kafka, pytest.mark.compat]


class Place(NamedTuple):
    """One broker with two log directories."""

    bootstrap: str
    directories: tuple[str, str]


def test_a_directory_that_is_offline_is_described_alike(kafka_libs: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("OTTLA_KAFKA_JARS", str(kafka_libs))
    directories = (tmp_path / "data", tmp_path / "more")
    with OttlaProcess(Path(",".join(map(str, directories)))) as broker:
        with Admin(broker.address) as admin:
            admin.create_topics([NewTopic("t", 2, 1)])
        assert broker.stop() == 0
        identity = directories[1] / "meta.properties"
        identity.unlink()
        identity.mkdir()  # it cannot be read
        broker.start()
        words = ["--bootstrap-server", broker.address, "--describe"]
        said = [as_said(run("kafka-log-dirs", words)) for run in tools().values()]
    assert said[0] == said[1]
    assert "KafkaStorageException" in said[0]
    assert '"partition":"t-0"' in said[0]


@pytest.fixture(scope="module", params=["apache", "ottla"])
def place(request: pytest.FixtureRequest, kafka_libs: Path) -> Iterator[Place]:
    folder = Path(tempfile.mkdtemp(prefix="directories-"))
    directories = (str(folder / "data"), str(folder / "more"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTTLA_KAFKA_JARS", str(kafka_libs))
        if request.param == "apache":
            with ApacheKafka({"log.dirs": ",".join(directories)}, folder=folder) as broker:
                yield Place(broker.bootstrap, directories)
        else:
            with OttlaProcess(Path(",".join(directories))) as ottla:
                yield Place(ottla.address, directories)
    shutil.rmtree(folder, ignore_errors=True)


def tools() -> dict[str, Callable[[str, list[str]], Any]]:
    return {"ours": run_our_tool, "theirs": run_tool}


def described(place: Place, run: Callable[[str, list[str]], Any], topic: str) -> tuple[str, dict[str, list[str]]]:
    """The output of kafka-log-dirs for a topic without sizes, and the partitions of each directory."""
    said = run("kafka-log-dirs", ["--bootstrap-server", place.bootstrap, "--describe", "--topic-list", topic]).stdout
    (line,) = [one for one in said.splitlines() if one.startswith("{")]
    (broker,) = json.loads(line)["brokers"]
    held = {one["logDir"]: [part["partition"] for part in one["partitions"]] for one in broker["logDirs"]}
    return re.sub(r'"size":\d+', '"size":0', said), held


def alike(place: Place, text: str, topic: str, home: str) -> str:
    """Text with the same names on both sides."""
    other = next(path for path in place.directories if path != home)
    text = text.replace(topic, "T").replace(home, "HOME").replace(other, "OTHER")
    return re.sub(r"(brokers |broker\":|replica )\d+", r"\1N", re.sub(r"(partition|broker) \d+", r"\1 N", text))


def as_said(result: Any) -> str:
    """Output without Java's traces, in which directories may come in another order."""
    lines = [line for line in result.stdout.splitlines() if not line.startswith(("\tat ", "SLF4J"))]
    return "\n".join(lines)


def test_a_replica_is_moved_to_another_directory_alike(place: Place, tmp_path: Path) -> None:
    said: dict[str, list[str]] = {}
    with Admin(place.bootstrap) as admin:
        number = next(iter(admin.cluster.brokers()))
        for name, run in tools().items():
            topic = f"move-{name}"
            admin.create_topics([NewTopic(topic, 1, 1)])
            with Producer(place.bootstrap) as producer:
                for at in range(500):
                    producer.produce(topic, b"%d" % at + bytes(200))
            until(lambda run=run, topic=topic: any(described(place, run, topic)[1].values()))
            _, before = described(place, run, topic)
            home = next(path for path, partitions in before.items() if partitions)
            other = next(path for path in place.directories if path != home)
            wanted = {"topic": topic, "partition": 0, "replicas": [number], "log_dirs": [other]}
            path = tmp_path / f"{name}.json"
            path.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
            at = ["--bootstrap-server", place.bootstrap, "--reassignment-json-file", str(path)]
            lines = [as_said(run("kafka-reassign-partitions", [*at, "--execute"]))]
            until(lambda run=run, at=at: "completed successfully" in _log_dir_line(run, at))
            lines.append(as_said(run("kafka-reassign-partitions", [*at, "--verify"])))
            text, after = described(place, run, topic)
            assert after == {home: [], other: [f"{topic}-0"]}
            lines.append("\n".join(sorted(text.replace("},{", "}\n{").splitlines())))
            wanted["log_dirs"] = ["/nowhere"]
            path.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
            refused = run("kafka-reassign-partitions", [*at, "--execute"])
            assert refused.returncode == 1
            told = r"Failed to alter dir for \S+-\d+-\d+|\w+NotFoundException"
            lines += sorted(set(re.findall(told, refused.stdout)))
            said[name] = [alike(place, line, topic, home) for line in lines]
    assert "Successfully started moving log directory to OTHER for replica" in said["ours"][0]
    assert said["ours"] == said["theirs"]


def _log_dir_line(run: Callable[[str, list[str]], Any], at: list[str]) -> str:
    lines = run("kafka-reassign-partitions", [*at, "--verify"]).stdout.splitlines()
    return next((line for line in lines if line.startswith("Reassignment of replica")), "")
