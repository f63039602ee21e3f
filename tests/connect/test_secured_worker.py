"""Workers that speak TLS to the brokers and log in."""

import asyncio
import json

import pytest
from tests.access.secured import Secured

from ottla import lake
from ottla.cli.main import main
from ottla.connect.standalone import Standalone
from ottla.connect.tasks.clients import require_login
from ottla.kernel.errors import ApiError, ErrorCode

STRING = "org.apache.kafka.connect.storage.StringConverter"
LINES = ["one", "zwei", "três"]


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    one = Secured(tmp_path_factory.mktemp("secured"))
    with one.broker:
        yield one


def worker_of(secured, folder, *, password="b", prefix=""):
    """A worker's properties; the login is behind a prefix, where one is given."""
    host, port = secured.address("SASL_SSL")
    login = {
        "security.protocol": "SASL_SSL", "ssl.truststore.location": str(secured.trusted), "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
                            f'username="bob" password="{password}";',
    }  # fmt: skip
    return {
        "bootstrap.servers": f"{host}:{port}", "key.converter": STRING, "value.converter": STRING,
        "offset.storage.file.filename": str(folder / "offsets"), "offset.flush.interval.ms": "50",
        **{prefix + name: value for name, value in login.items()},
    }  # fmt: skip


def in_lake(folder, topic):
    try:
        return [value.decode() for value in lake.rows(folder, topic).read_all()["value"].to_pylist()]
    except (OSError, lake.LakeRefused, KeyError):
        return []  # nothing is loaded yet


async def ran(standalone, is_done):
    """Run connectors until a condition holds; the exit status."""
    running = asyncio.create_task(standalone.run())
    while not is_done():
        assert not running.done(), [task.status for task in standalone.tasks]
        await asyncio.sleep(0.02)
    standalone.stop()
    return await running


def test_lines_go_over_tls_and_a_login_into_a_file_and_into_a_lake(secured, tmp_path):
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES))
    target = tmp_path / "out"
    configs = [
        {"name": "in", "connector.class": "FileStreamSource", "file": str(tmp_path / "in"), "topic": "lines"},
        {"name": "out", "connector.class": "FileStreamSink", "file": str(target), "topics": "lines"},
        {
            "name": "lake",
            "connector.class": "LakeSink",
            "to": str(tmp_path / "lake"),
            "topics": "lines",
            "every": "50ms",
        },
    ]
    standalone = Standalone(worker_of(secured, tmp_path), configs)

    def is_done():
        return (
            target.exists()
            and target.read_text().splitlines() == LINES
            and in_lake(tmp_path / "lake", "lines") == LINES
        )

    assert asyncio.run(ran(standalone, is_done)) == 0
    assert json.loads((tmp_path / "offsets").read_text())[0][1] == {"position": 15}


def test_the_lake_sink_logs_in_as_the_workers_consumers_do(secured, tmp_path):
    (tmp_path / "in").write_text("one\n")
    worker = {**worker_of(secured, tmp_path, password="x", prefix="consumer."), **worker_of(secured, tmp_path)}
    sink = {"name": "lake", "connector.class": "LakeSink", "to": str(tmp_path / "lake"), "topics": "lines"}
    standalone = Standalone(worker, [sink])
    assert asyncio.run(standalone.run()) == 1
    assert "refused the login by PLAIN" in standalone.tasks[0].status.fault.reason


@pytest.mark.parametrize("kind", ["alone", "of a group"])
def test_a_worker_whose_password_is_wrong_ends_with_a_sentence(kind, secured, tmp_path, capsys):
    properties = worker_of(secured, tmp_path, password="x") | {"listeners": "http://127.0.0.1:0"}
    if kind == "of a group":
        del properties["offset.storage.file.filename"]
        topics = {f"{each}.storage.topic": each for each in ("config", "status", "offset")}
        properties |= {"group.id": "g", **topics}
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    assert main(["connect", "start", str(file)]) == 1
    said = capsys.readouterr().err
    assert "the worker cannot log in: " in said
    assert "refused the login by PLAIN" in said
    assert "Check sasl.mechanism and the user and the password" in said


def test_brokers_that_are_away_are_no_refused_login():
    require_login(ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    require_login(OSError("away"))
