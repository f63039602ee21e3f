"""Workers of this machine: results in order, and one sentence where a task fails or its process dies."""

import os
import signal
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from ottla.rows.workers import Here, Processes, TaskFailed, cores


def squared(number):
    return number * number, os.getpid()


def refusing(number):
    if number == 3:
        raise LookupError("there is no three")
    return number


def killed(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()


def locked(number):
    return number, threading.Lock()


def exiting(number):
    os._exit(number)


def waiting(number, port):
    """Tell who we are, and wait for ever."""
    with socket.create_connection(("127.0.0.1", port)) as way:
        way.sendall(str(os.getpid()).encode())
        threading.Event().wait()


@pytest.fixture
def processes():
    made = Processes(2)
    yield made
    made.close()


@pytest.mark.parametrize("make", [Here, partial(Processes, 2)])
def test_results_come_in_the_order_of_the_items(make):
    workers = make()
    try:
        assert [square for square, _ in workers.map(squared, range(7))] == [0, 1, 4, 9, 16, 25, 36]
        assert workers.map(squared, []) == []
    finally:
        if isinstance(workers, Processes):
            workers.close()


def test_processes_are_kept_for_later_tasks_and_are_not_this_one(processes):
    first, second = ({pid for _, pid in processes.map(squared, range(6))} for _ in range(2))
    assert len(first | second) <= 2 and os.getpid() not in first | second


@pytest.mark.parametrize("make", [Here, partial(Processes, 2)])
def test_a_failed_task_fails_all_with_the_words_of_its_error(make):
    with pytest.raises(TaskFailed, match=r"^LookupError: there is no three$"):
        make().map(refusing, [1, 2, 3, 4])


def test_a_killed_process_fails_all_and_the_others_are_ended(processes):
    with pytest.raises(TaskFailed, match=r"killed .SIGKILL.; the kernel does that where memory is short"):
        processes.map(killed, [1, 3])
    assert [square for square, _ in processes.map(squared, [5, 6])] == [25, 36]


def test_a_process_that_died_while_it_waited_is_replaced(processes):
    ((_, pid),) = processes.map(squared, [1])
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # until it has ended, without taking its status
    ((square, other),) = processes.map(squared, [3])
    assert square == 9 and other != pid


def test_a_process_that_exits_is_told_with_its_status(processes):
    with pytest.raises(TaskFailed, match="ended with status 7 before its task was done"):
        processes.map(exiting, [7])


def test_a_result_that_cannot_leave_its_process_is_a_failed_task(processes):
    with pytest.raises(TaskFailed, match=r"cannot pickle|Can't pickle"):
        processes.map(locked, [1])


def test_processes_end_with_the_one_that_started_them():
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = (
            "from functools import partial; from test_workers import waiting; from ottla.rows.workers import Processes;"
            f"Processes(1).map(partial(waiting, port={server.getsockname()[1]}), [1])"
        )
        paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        parent = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths})
        way, _ = server.accept()
        with way:
            assert int(way.recv(20)) != parent.pid
            parent.kill()
            parent.wait()
            assert way.recv(1) == b""  # the worker's end is closed: it is gone


def test_a_script_without_a_guard_is_not_run_again_by_its_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from operator import neg\nfrom ottla.rows.workers import Processes\nprint('begun')\n"
        "print(Processes(2).map(neg, [1, 2, 3]))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["begun", "[-1, -2, -3]"]


def test_there_is_a_core_to_work_on():
    assert 1 <= cores() <= (os.cpu_count() or 1)
