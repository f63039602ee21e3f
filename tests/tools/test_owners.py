"""The check of owners finds assignments to another module's attributes, and nothing else."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import owners  # noqa: E402

LOG = "class Log:\n    def __init__(self):\n        self.epochs = self.end = 0\n    @property\n    def start(self): ..."
PARTITION = "class Partition:\n    def __init__(self, log: Log):\n        self.log = log\n        self.watches = {}"
OTHERS = "class Segment:\n    end: int\nclass Move:\n    def __init__(self):\n        self.log = 1"


def a_package() -> owners.Attributes:
    modules = {"storage/log.py": LOG, "broker/replicas/partition.py": PARTITION, "broker/moves.py": OTHERS}
    return owners.attributes_in((module, ast.parse(source)) for module, source in modules.items())


def found(source: str, module: str = "broker/moves.py") -> list[str]:
    return [sentence for _, sentence in owners.foreign_assignments(module, ast.parse(source), a_package())]


@pytest.mark.parametrize(
    "source",
    [
        "def f(one: Log):\n    one.end = 1",
        "def f(one: 'Log | None'):\n    one.end += 1",
        "def f(one: Log):\n    one.epochs[3] = 1",
        "def f(one: Log):\n    del one.epochs",
        "def f(one: Log):\n    for one.end in (1, 2):\n        pass",
        "def f(one: Log):\n    one.start = 1",
        "def f():\n    one = Log.open()\n    one.end = 1",
        "class A:\n    def __init__(self, a: Log):\n        self.a = a\n    def f(self):\n        self.a.end = 1",
        "class A:\n    one: Log\n    def f(self):\n        one = self.one\n        one.end = 1",
        "def f(one: Log):\n    def g():\n        one.end = 1\n    g()",
        "def f(place):\n    place.log.end = 1",
        "def f(unknown):\n    unknown.epochs = 1",
        "def f(partition):\n    partition.log = 1",
    ],
)
def test_a_field_that_another_module_owns_is_found(source: str) -> None:
    (sentence,) = found(source)
    assert "only" in sentence


@pytest.mark.parametrize(
    "source",
    [
        "def f(one: Segment):\n    one.end = 1",
        "def f(log: Segment):\n    log.end = 1",
        "def f():\n    log = Segment()\n    log.end = 1",
        "def f(unknown):\n    unknown.end = 1",
        "def f(log: Log):\n    end = log.end",
        "def f(log: Log):\n    log.other = 1",
        "class A:\n    def f(self):\n        self.end = 1",
        "def f(move: Move):\n    move.log = 1",
    ],
)
def test_fields_of_other_classes_are_left_alone(source: str) -> None:
    assert found(source) == []


def test_the_owner_assigns_its_own_fields() -> None:
    assert found("def f(log: Log):\n    log.end = 1", "storage/log.py") == []
    assert found("def f(log: Log):\n    log.end = 1", "broker/replicas/partition.py")


def test_every_owned_class_stands_where_it_is_said_to() -> None:
    for one in owners.OWNED:
        assert owners.tree_attributes().owned[one.name], one
        assert f"class {one.name}" in (owners.SOURCES / one.modules[0]).read_text(), one


def test_nobody_in_the_package_assigns_what_is_not_his() -> None:
    paths = sorted(owners.SOURCES.rglob("*.py"))
    assert [found for path in paths for found in owners.check(path, ast.parse(path.read_text()))] == []
