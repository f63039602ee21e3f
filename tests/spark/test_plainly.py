"""A Spark process shows only the sentence for the user; other processes show exceptions as ever."""

from __future__ import annotations

import io
import os

import pytest
from pyspark.util import handle_worker_exception

from ottla.client.registry_client import RegistryUnavailable
from ottla.rows.plan import DataLoss
from ottla.spark.attempt import NotWritten
from ottla.spark.plainly import said_plainly


def shown(fault: Exception) -> str:
    """The text of a fault as Spark's worker writes it."""
    out = io.BytesIO()
    try:
        with said_plainly():
            raise fault
    except Exception as error:
        handle_worker_exception(error, out)
    return out.getvalue()[8:].decode()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "s")
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")


@pytest.mark.usefixtures("worker")
def test_a_worker_shows_the_sentence_in_the_first_line() -> None:
    assert shown(DataLoss("gone")).startswith("ottla.rows.plan.DataLoss: ")
    assert shown(ValueError("wrong")) == "ValueError: wrong\n"
    assert shown(NotWritten("came again")) == "ottla.spark.attempt.NotWritten: came again\n"
    unavailable = shown(RegistryUnavailable("no schema registry answers"))
    assert unavailable == "ottla.client.registry_client.RegistryUnavailable: no schema registry answers\n"


@pytest.mark.usefixtures("worker")
def test_a_fault_that_nobody_foresaw_keeps_its_traceback() -> None:
    assert shown(KeyError("a bug")).startswith("Traceback")


def test_other_processes_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("PYTHON_WORKER_FACTORY_", "SPARK_HIDE"))]:
        monkeypatch.delenv(name)
    assert shown(ValueError("wrong")).startswith("Traceback")
    assert "SPARK_HIDE_TRACEBACK" not in os.environ
