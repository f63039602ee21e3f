"""Spark's workers answer at once; other processes keep their sockets as they are."""

import os
import socket
import sys
from collections.abc import Iterator
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
from tests.descriptors import descriptors

from ottla.spark import workers
from ottla.spark.workers import hurry_answers, import_ahead


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as made:
        yield made


@pytest.fixture
def in_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.daemon", ModuleType("pyspark.daemon"))
    monkeypatch.setattr(workers, "_hurried", set())


def delayed(connection: socket.socket) -> bool:
    return not connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.usefixtures("in_worker")
def test_the_sockets_of_a_worker_wait_for_no_acknowledgement(connection: socket.socket) -> None:
    one_end, other_end = socket.socketpair()
    with one_end, other_end:
        own = {f"socket:[{os.fstat(end.fileno()).st_ino}]" for end in (connection, one_end, other_end)}
        hurry_answers()
        assert not delayed(connection)
        assert sorted(target for target in descriptors() if target in own) == sorted(own)


@pytest.mark.usefixtures("in_worker")
def test_a_worker_looks_at_its_sockets_once(connection: socket.socket) -> None:
    hurry_answers()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
    hurry_answers()
    assert delayed(connection)


def test_a_process_that_is_no_worker_keeps_its_sockets(
    connection: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pyspark.daemon", raising=False)
    hurry_answers()
    assert delayed(connection)


def test_a_module_is_imported_while_the_worker_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this_comes_late", raising=False)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Late()])
    thread = import_ahead("this_comes_late")
    assert thread is not None
    thread.join(30)
    assert sys.modules["this_comes_late"].here
    assert import_ahead("this_comes_late") is None


def test_a_module_that_is_not_installed_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    thread = import_ahead("no_such_module_anywhere")
    assert thread is not None
    thread.join(30)
    assert "no_such_module_anywhere" not in sys.modules
    assert capfd.readouterr().err == ""


class Late(Loader):
    """An importer for one module, which it makes itself."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == "this_comes_late" else None

    def exec_module(self, module: ModuleType) -> None:
        module.here = True  # type: ignore[attr-defined]
