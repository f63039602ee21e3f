"""`ottla start` as a user meets it."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families
from tests.ports import free_port, free_ports
from tests.server.processes import OttlaProcess


def start(*arguments: str, cwd: Path, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ottla", "start", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
    )


def refused(*arguments: str, cwd: Path) -> str:
    process = start(*arguments, cwd=cwd)
    out, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert out == ""
    return err


def run(*arguments: str, cwd: Path, environment: dict[str, str] | None = None) -> tuple[str, str]:
    """Start, wait until ready, and stop; return stdout and stderr."""
    process = start(*arguments, cwd=cwd, environment=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return line + out, err


def test_stdout_carries_one_line_and_the_lines_to_paste_go_to_stderr(tmp_path: Path):
    port = free_port()
    out, err = run("--port", str(port), "--http-port", "0", cwd=tmp_path)
    assert out == f"ottla 0.1.0 ready: 127.0.0.1:{port}\n"
    assert "kcat -b" in err
    assert "ottla produce -b 127.0.0.1" in err
    assert (tmp_path / "ottla-data" / "meta.properties").exists()


def test_a_log_in_json_has_nothing_but_json(tmp_path: Path):
    out, err = run("--listen", "0.0.0.0:0", "--insecure", "--http-port", "0", "--log-format", "json", cwd=tmp_path)
    lines = [json.loads(line) for line in err.splitlines()]
    assert {line["level"] for line in lines} >= {"info", "warning"}
    assert any(line["message"].startswith("ready: 127.0.0.1:") for line in lines)
    assert out.count("\n") == 1
    assert [json.loads(line)["level"] for line in refused("--set", "x", "--log-format=json", cwd=tmp_path).splitlines()]


def test_options_of_a_broker_take_units_and_a_wrong_one_is_one_line(tmp_path: Path):
    said = refused("--memory", "--set", "log.retention.ms=soon", cwd=tmp_path)
    assert said == (
        "ottla: Invalid value soon for configuration log.retention.ms: not a number or a duration; "
        "write e.g. 500ms, 90s, 15m, 1h30m or 7d\n"
    )
    run("--memory", "--port", "0", "--http-port", "0", "--set", "log.retention.ms=7d", cwd=tmp_path)
    assert "did you mean log.retention.ms?" in refused("--memory", "--set", "log.retension.ms=1h", cwd=tmp_path)
    assert refused("--memry", cwd=tmp_path).startswith("ottla: there is no option --memry; did you mean --memory?\n")
    assert "'9092x': not a whole number" in refused("--port", "9092x", cwd=tmp_path).replace("--port 9092x", "'9092x'")


def test_in_memory_nothing_is_left_behind(tmp_path: Path):
    run("--memory", "--port", "0", "--http-port", "0", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_soft_limit_of_open_files_is_raised_to_the_hard_one(tmp_path: Path):
    """Most systems allow 1,024 open files: a hundred partitions need three hundred, and connections come on top."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Lowered in the child only: this process may have more files open because of other tests.
    command = ["sh", "-c", 'ulimit -S -n 256; exec "$@"', "sh", sys.executable, "-m", "ottla", "start"]
    process = subprocess.Popen(
        [*command, "--memory", "--port", "0", "--http-port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    assert "ready" in process.stdout.readline()
    assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)


BROKEN_TIMER = """
import sys
from ottla.kernel.errors import InvariantBroken
from ottla.server import broker_server, main

def purge():
    raise InvariantBroken("two segments overlap")

start = broker_server.BrokerServer.start

async def start_and_break(server):
    await start(server)
    server._loop.call_later(0.05, purge)

broker_server.BrokerServer.start = start_and_break
sys.exit(main.start(main.StartOptions(memory=True, port=0, http_port=0)))
"""


def test_an_invariant_of_storage_that_breaks_in_a_timer_stops_the_broker(tmp_path: Path):
    """Rule F holds also without a request under way."""
    done = subprocess.run(
        [sys.executable, "-c", BROKEN_TIMER], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "two segments overlap" in done.stderr


BROKEN_STORE = """
import sys
from ottla.coordination.database import Database
from ottla.server import main

def head(database):
    raise TypeError("nobody foresaw this")

Database.head = head
sys.exit(main.start(main.StartOptions(data="data", port=0, http_port=0)))
"""


def test_a_thread_that_ends_by_what_nobody_foresaw_stops_the_broker(tmp_path: Path):
    """Otherwise the broker went on without metadata, fenced by the others, and kept its lock."""
    done = subprocess.run(
        [sys.executable, "-c", BROKEN_STORE], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "ottla: stopped: its thread ottla-metadata ended: TypeError: nobody foresaw this" in done.stderr


def test_at_the_level_info_the_broker_tells_what_it_does(tmp_path: Path):
    _, err = run("--data", "d", "--port", "0", "--http-port", "0", "--log-level", "info", cwd=tmp_path)
    assert "serves cluster" in err
    assert "has stopped" in err
    _, err = run("--data", "d", "--port", "0", "--http-port", "0", cwd=tmp_path)
    assert "serves cluster" not in err


def test_an_unknown_option_in_a_file_is_refused_with_the_one_that_was_meant(tmp_path: Path):
    (tmp_path / "server.properties").write_text("num.partitons=3\n")
    assert "num.partitions" in refused("--config", "server.properties", cwd=tmp_path)


def test_an_unknown_variable_is_a_warning(tmp_path: Path):
    _, err = run("--port", "0", "--http-port", "0", cwd=tmp_path, environment={"KAFKA_NUM_PARTITONS": "3"})
    assert "num.partitons" in err


def test_the_command_line_goes_over_the_environment_and_that_over_the_file(tmp_path: Path):
    (tmp_path / "f.properties").write_text("num.partitions=2\nlog.retention.hours=1\nlog.segment.bytes=2000000\n")
    broker = OttlaProcess(tmp_path / "d", "--config", str(tmp_path / "f.properties"), "--set", "num.partitions=4")
    os.environ["KAFKA_NUM_PARTITIONS"] = "3"
    os.environ["KAFKA_LOG_RETENTION_HOURS"] = "5"
    try:
        broker.start()
    finally:
        del os.environ["KAFKA_NUM_PARTITIONS"], os.environ["KAFKA_LOG_RETENTION_HOURS"]
    from confluent_kafka.admin import AdminClient, ConfigResource

    admin = AdminClient({"bootstrap.servers": broker.address})
    (described,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    values = {name: entry.value for name, entry in described.result(30).items()}
    broker.stop()
    assert (values["num.partitions"], values["log.retention.hours"], values["log.segment.bytes"]) == (
        "4",
        "5",
        "2000000",
    )


def test_a_taken_port_is_said_with_what_to_do(tmp_path: Path):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        err = refused("--port", str(sock.getsockname()[1]), "--http-port", "0", cwd=tmp_path)
    assert "--port" in err


def test_a_kept_port_that_is_taken_is_said_and_not_changed(tmp_path: Path):
    out, _ = run("--port", "0", "--http-port", "0", cwd=tmp_path)
    port = int(out.rsplit(":", 1)[1])
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen()
        assert str(port) in refused("--port", "0", "--http-port", "0", cwd=tmp_path)
    again, _ = run("--port", "0", "--http-port", "0", cwd=tmp_path)
    assert again == out


def test_a_preferred_port_is_taken_where_it_is_free_and_kept(tmp_path: Path):
    preferred, other = free_ports(2)
    ready = f"ottla 0.1.0 ready: 127.0.0.1:{preferred}\n"
    assert run("--port", "0", "--prefer-port", str(preferred), "--http-port", "0", cwd=tmp_path)[0] == ready
    assert run("--port", "0", "--prefer-port", str(other), "--http-port", "0", cwd=tmp_path)[0] == ready


def test_a_preferred_port_that_is_taken_gives_way_to_a_free_one_even_where_it_is_kept(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ("--port", "0", "--prefer-port", str(port), "--http-port", "0")
        other, _ = run(*arguments, cwd=tmp_path)
        assert not other.endswith(f":{port}\n")
        (tmp_path / "ottla-data" / "port").write_text(f"127.0.0.1:{port}\n")
        other, _ = run(*arguments, cwd=tmp_path)
    assert not other.endswith(f":{port}\n")
    assert run("--port", "0", "--http-port", "0", cwd=tmp_path)[0] == other, "the other one is kept"


def test_a_preference_is_refused_where_the_port_is_not_chosen(tmp_path: Path):
    assert "goes with --port 0" in refused("--prefer-port", "9092", cwd=tmp_path)
    assert "is not a port" in refused("--port", "0", "--prefer-port", "70000", cwd=tmp_path)


@pytest.mark.parametrize(
    "kept", [b"", b"PLAINTEXT", b"PLAINTEXT x\n", b"h:70000\n", b"a:1\nb:2\n", b"\xff\xfe:1\n", None]
)
def test_a_damaged_file_of_kept_ports_is_a_warning_and_mended(tmp_path: Path, kept: bytes | None):
    """None: a directory is in the file's place, and is left alone."""
    run("--port", "0", "--http-port", "0", cwd=tmp_path)
    file = tmp_path / "ottla-data" / "port"
    file.unlink()
    if kept is None:
        file.mkdir()
    else:
        file.write_bytes(kept)
    out, err = run("--port", "0", "--http-port", "0", cwd=tmp_path)
    assert f"warning: {file}, which keeps the ports" in err
    if kept is None:
        assert "is not kept for the next start" in err
    else:
        assert file.read_text() == out.split()[-1] + "\n"


def test_a_taken_http_port_is_a_warning(tmp_path: Path):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        _, err = run("--port", "0", "--http-port", str(sock.getsockname()[1]), cwd=tmp_path)
    assert "no /metrics" in err


@pytest.mark.parametrize("option", ["--http-port", "--registry-port", "--console-port"])
@pytest.mark.parametrize("port", ["-1", "65536"])
def test_what_is_no_port_is_refused(tmp_path: Path, option: str, port: str):
    assert f"{option} {port} is not a port: ports are 0 to 65535" in refused(
        "--memory", "--port", "0", option, port, cwd=tmp_path
    )


def test_listening_to_everybody_without_security_needs_a_word(tmp_path: Path):
    anywhere = ("--listen", f"0.0.0.0:{free_port()}", "--http-port", "0", "--memory")
    said = refused(*anywhere, cwd=tmp_path)
    assert "asks nobody who they are" in said
    assert "--insecure" in said
    out, err = run(*anywhere, cwd=tmp_path, environment={"KAFKA_OTTLA_INSECURE": "true"})
    assert "asks nobody who they are" in err
    assert out.startswith("ottla 0.1.0 ready: 127.0.0.1:")


def test_python_without_asserts_is_refused(tmp_path: Path):
    process = subprocess.run(
        [sys.executable, "-O", "-m", "ottla", "start"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert process.returncode == 2
    assert "-O" in process.stderr


def test_what_is_no_request_closes_that_connection_and_no_other(tmp_path: Path):
    with OttlaProcess(tmp_path) as broker:
        host, port = broker.address.split(":")
        for garbage in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x00\x00\x00\x04\xff\xff\xff\xff",
            b"\x7f\xff\xff\xff",
            b"\xff" * 64,
        ):
            with socket.create_connection((host, int(port)), timeout=60) as sock:
                sock.sendall(garbage)
                assert sock.recv(100) == b""
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce("t", b"v")
        assert producer.flush(30) == 0
        assert broker.log().count("closed") == 4


def test_no_more_connections_from_one_address_than_allowed(tmp_path: Path):
    with OttlaProcess(tmp_path, "--set", "max.connections.per.ip=2") as broker:
        host, port = broker.address.split(":")
        first, second, third = (socket.create_connection((host, int(port)), timeout=60) for _ in range(3))
        assert third.recv(1) == b""
        first.close()
        api_versions = b"\x00\x00\x00\x0a" + b"\x00\x12\x00\x00" + b"\x00\x00\x00\x07" + b"\xff\xff"
        second.sendall(api_versions)
        assert second.recv(8)[4:] == b"\x00\x00\x00\x07"
        with socket.create_connection((host, int(port)), timeout=60) as fourth:
            fourth.sendall(api_versions)
            assert fourth.recv(8)[4:] == b"\x00\x00\x00\x07"
        second.close()
        third.close()


def test_metrics_are_what_dashboards_and_lag_exporters_read(tmp_path: Path):
    port = free_port()
    process = start("--memory", "--port", "0", "--http-port", str(port), cwd=tmp_path)
    assert process.stdout is not None
    address = process.stdout.readline().split(" ready: ")[1].strip()
    try:
        producer = Producer({"bootstrap.servers": address})
        for number in range(10):
            producer.produce("t", b"%d" % number)
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition("t", 0, 4)], asynchronous=False)
        consumer.close()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        samples = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert samples[("kafka_server_brokertopicmetrics_messagesin_total", (("topic", "t"),))] == 10
        here = (("partition", "0"), ("topic", "t"))
        assert samples[("kafka_topic_partition_current_offset", here)] == 10
        assert samples[("kafka_consumergroup_lag", (("consumergroup", "g"), *here))] == 6
        assert samples[("kafka_controller_kafkacontroller_activecontrollercount", ())] == 1
        assert samples[("ottla_request_seconds_count", (("api", "Produce"),))] >= 1
        assert samples[("ottla_request_seconds_bucket", (("api", "OffsetCommit"), ("le", "+Inf")))] == 1
        (syncs,) = [count for (name, _), count in samples.items() if name == "ottla_sync_seconds_count"]
        assert syncs >= 1
        assert ("ottla_queue_seconds_count", ()) in samples
        assert samples[("kafka_server_socket_server_metrics_connection_count", (("listener", "PLAINTEXT"),))] >= 1
        assert samples[("process_cpu_seconds_total", ())] > 0
        assert samples[("process_resident_memory_bytes", ())] > 10_000_000
        assert 5 < samples[("process_open_fds", ())] < samples[("process_max_fds", ())]
        assert samples[("process_start_time_seconds", ())] == pytest.approx(time.time(), abs=600)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60) as answer:
            assert answer.read() == b"serving\n"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/nothing", timeout=60)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


def test_the_lines_to_paste_do_what_they_say(tmp_path: Path):
    """Run the first two commands of the greeting as printed."""
    with OttlaProcess(tmp_path) as broker:
        deadline = time.monotonic() + 300
        while "spark.read" not in broker.log():
            assert time.monotonic() < deadline
        pasted = [line.partition("  (")[0].removeprefix("  try").split() for line in broker.log().splitlines()]
        produce, consume = (words for words in pasted if words[:1] == ["ottla"])
        ours = [sys.executable, "-m", *produce]
        subprocess.run(ours, input="a\nb\n", text=True, check=True, timeout=60, capture_output=True)
        ours = [sys.executable, "-m", *consume, "--exit"]
        shown = subprocess.run(ours, check=True, timeout=60, capture_output=True, text=True)
        assert shown.stdout == "a\nb\n"


def test_a_missing_compiled_part_is_said_at_start(tmp_path: Path):
    program = (
        "import sys; sys.modules['ottla.records._records'] = None; from ottla.cli.start import command; "
        "sys.exit(command(['--memory', '--port', '0', '--http-port', '0']))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OTTLA_PURE"}
    for forbidden in ("", "1"):
        process = subprocess.Popen(
            [sys.executable, "-c", program], cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment | {"OTTLA_PURE": forbidden},
        )  # fmt: skip
        assert process.stdout is not None
        assert " ready: " in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
        said = "warning: the compiled part is not there" in err and "pure Python" in err
        assert said == (not forbidden), err
