"""`ottla connect` against the REST interface of a worker without topics."""

import contextlib
import json

import pytest
from tests.connect.rest.fake_worker import FakeWorker

from ottla.cli.main import main
from ottla.connect.machine.records import Status, TaskStatus
from ottla.connect.rest.app import ConnectApp
from ottla.web.server import listening, serving, url_of
from ottla.web.thread import LoopThread

LINES = {"connector.class": "FileStreamSource", "file": "/in", "topic": "lines", "name": "a/b"}


@pytest.fixture
def worker():
    return FakeWorker()


@pytest.fixture
def run(worker, capsys):
    bound = listening("127.0.0.1", 0)
    url = url_of("127.0.0.1", bound)

    @contextlib.asynccontextmanager
    async def opening():
        async with serving(ConnectApp(worker), bound):
            yield

    def call(*words):
        status = main(["connect", *words, "--url", url])
        said = capsys.readouterr()
        return status, said.out, said.err

    with LoopThread("connect", opening):
        yield call


@pytest.fixture
def lines(tmp_path):
    file = tmp_path / "lines.json"
    file.write_text(json.dumps(LINES))
    return str(file)


def test_a_connector_is_made_listed_paused_and_deleted(run, lines):
    assert run("create", lines) == (0, "a/b: a source connector\n", "")
    status, out, _ = run("list")
    assert status == 0
    assert out.splitlines()[1].split() == ["a/b", "source", "RUNNING", "1", "RUNNING", "FileStreamSource"]
    assert run("pause", "a/b")[:2] == (0, "a/b: is paused\n")
    assert "PAUSED" in run("status", "a/b")[1]
    assert run("delete", "a/b")[0] == 0
    assert run("list")[2] == "there are no connectors; `ottla connect create FILE` makes one\n"


def test_a_failure_is_shown_with_its_trace_and_exit_status(run, worker, lines):
    worker.faults["/in"] = "the disk is gone"
    run("create", lines)
    status, out, _ = run("status", "a/b")
    assert status == 1
    assert "task 0:\nthe disk is gone" in out


def test_the_phase_of_a_task_is_shown_where_it_has_one(run, worker, lines):
    run("create", lines)
    assert "PHASE" not in run("status", "a/b")[1]
    worker.statuses.apply(TaskStatus("a/b", 0, Status("RUNNING", "w:1", 1, None, "1", "snapshot")))
    shown = [line.split() for line in run("status", "a/b")[1].splitlines()]
    assert shown[0] == ["PART", "STATE", "PHASE", "WORKER"] and shown[2] == ["task", "0", "RUNNING", "snapshot", "w:1"]
    assert json.loads(run("status", "a/b", "--format", "json")[1])["tasks"][0]["phase"] == "snapshot"


def test_a_connector_can_be_made_stopped_and_its_offsets_set(run, lines, tmp_path):
    run("create", lines, "--state", "stopped")
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps({"offsets": [{"partition": {"filename": "/in"}, "offset": {"position": 7}}]}))
    assert "altered successfully" in run("offsets", "a/b", "--set", str(offsets))[1]
    assert '{"position": 7}' in run("offsets", "a/b")[1]
    assert "reset successfully" in run("offsets", "a/b", "--reset")[1]


def test_a_configuration_is_checked_option_by_option(run, tmp_path):
    file = tmp_path / "bad.json"
    file.write_text(json.dumps({**LINES, "tasks.max": "0"}))
    expected = "tasks.max: Invalid value 0 for configuration tasks.max: Value must be at least 1\n"
    assert run("validate", str(file))[:2] == (1, expected)


def test_a_refusal_is_the_workers_sentence(run):
    status, _, err = run("stop", "nope")
    assert status == 1
    assert "answers 404: Unknown connector nope" in err


def test_where_no_worker_answers_the_remedy_is_said(capsys):
    bound = listening("127.0.0.1", 0)
    url = url_of("127.0.0.1", bound)
    bound.close()
    assert main(["connect", "list", "--url", url]) == 1
    assert "name another with --url" in capsys.readouterr().err


def test_a_file_that_names_no_connector_is_refused(run, tmp_path):
    file = tmp_path / "x.json"
    file.write_text("{}")
    status, _, err = run("create", str(file))
    assert status != 0
    assert "names no connector" in err
