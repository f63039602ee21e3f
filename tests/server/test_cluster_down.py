"""`ottla cluster down` beside real clusters: it ends the one in its directory, waits, and touches nothing else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from cluster_processes import until
from tests.ports import free_port
from up_process import Up, alive


def ottla(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla", "cluster", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=cwd)


def test_a_cluster_is_ended_from_elsewhere_and_is_gone_then(tmp_path):
    base = free_port()
    with Up(tmp_path / "ottla-cluster", "--brokers", "1", "--port", str(base)) as up:
        up.wait_for_all(1)
        broker = up.brokers()[1]
        assert broker["port"] == base
        done = ottla("down", cwd=tmp_path)  # the same default as for `up`
        assert done.returncode == 0, done.stderr
        assert not alive(broker["pid"])
        assert done.stdout.splitlines() == [
            f"ending the cluster in {tmp_path / 'ottla-cluster'}",
            "stopping all brokers",
            "broker 1 has stopped",
            f"the cluster in {tmp_path / 'ottla-cluster'} is down",
        ]
        output, _ = up.process.communicate(timeout=60)
        assert up.process.returncode == 0, output
        assert "broker 1 has stopped" in output
    with Up(tmp_path / "ottla-cluster", "--brokers", "1") as again:
        again.wait_for_all(1)
        assert again.brokers()[1]["port"] == base, "the port is kept"
        assert ottla("down", "--data", str(tmp_path / "ottla-cluster")).returncode == 0


def test_nothing_to_end_is_one_sentence_and_exit_status_1(tmp_path):
    done = ottla("down", "--data", str(tmp_path / "none"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"ottla: no cluster is up in {tmp_path / 'none'}\n"
    assert not (tmp_path / "none").exists()


def test_what_a_killed_cluster_leaves_behind_ends_nobody(tmp_path):
    """Neither the socket nor the process ids in cluster.json are trusted: another process may have them by now."""
    bystander = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        with Up(tmp_path, "--brokers", "1", "--port", "0") as up:
            up.wait_for_all(1)
            broker = up.brokers()[1]
            up.process.kill()
            up.process.wait()
            until(lambda: not alive(broker["pid"]))
        state = (tmp_path / "cluster.json").read_text()
        (tmp_path / "cluster.json").write_text(state.replace(f'"pid": {broker["pid"]}', f'"pid": {bystander.pid}'))
        assert (tmp_path / "control").is_socket()
        done = ottla("down", "--data", str(tmp_path))
        assert (done.returncode, done.stderr) == (1, f"ottla: no cluster is up in {tmp_path}\n")
        assert bystander.poll() is None
        (tmp_path / "cluster.json").unlink()
        with Up(tmp_path, "--brokers", "1", "--port", "0") as again:  # another cluster can still start
            again.wait_for_all(1)
            assert ottla("down", "--data", str(tmp_path)).returncode == 0
    finally:
        bystander.communicate()


def test_a_cluster_that_stands_still_is_not_said_to_be_down(tmp_path):
    with Up(tmp_path, "--brokers", "1", "--port", "0") as up:
        up.wait_for_all(1)
        broker = up.brokers()[1]
        up.process.send_signal(signal.SIGSTOP)
        done = ottla("down", "--data", str(tmp_path), "--timeout", "1")
        assert done.returncode == 1
        assert "has said nothing for 1 s" in done.stderr
        assert alive(broker["pid"])
        up.process.send_signal(signal.SIGCONT)
        assert up.process.wait(60) == 0, "what was asked meanwhile is done"
        assert not alive(broker["pid"])


def test_a_taken_port_is_one_sentence_and_nothing_is_started(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = ottla("up", "--data", str(tmp_path), "--brokers", "1", "--port", str(port))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"ottla: port {port} of broker 1 cannot be had (Address already in use): end what ")
    assert len(done.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == [".lock"]
