"""The checks of house rules find violations, and accept correct code."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import tidy  # noqa: E402


def sentences(room: str, source: str) -> list[str]:
    return [sentence for _, sentence in tidy.check_room(room, ast.parse(source))]


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("storage/log.py", "open('x')"),
        ("broker/node.py", "import os\nos.rename('a', 'b')"),
        ("broker/node.py", "from os import fsync"),
        ("wire/frame.py", "from pathlib import Path"),
        ("broker/control/peers.py", "import socket"),
        ("groups/shard.py", "async def decide(): ..."),
        ("storage/log.py", "try:\n    f()\nexcept Exception:\n    pass"),
        ("storage/log.py", "try:\n    f()\nexcept (OSError, BaseException):\n    pass"),
        ("storage/log.py", "try:\n    f()\nexcept:\n    pass"),
        ("kernel/ids.py", "print(1)"),
        ("cluster/placement.py", "for broker in {1, 2}:\n    use(broker)"),
        ("cluster/placement.py", "def f(live: set[int]) -> list[int]:\n    return [b for b in live]"),
        ("cluster/placement.py", "self.live = set()\nfor broker in self.live | other:\n    use(broker)"),
        ("cluster/placement.py", "live: frozenset[int] = frozenset()\nfirst = next(iter(live))"),
    ],
)
def test_a_room_that_reaches_too_far_is_found(room: str, source: str) -> None:
    assert sentences(room, source)


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("storage/disk/local.py", "import os\nos.rename(open('a').name, 'b')"),
        ("server/listener.py", "import socket\ntry:\n    f()\nexcept Exception:\n    pass"),
        ("broker/requests/dispatch.py", "try:\n    f()\nexcept Exception:\n    pass"),
        ("cli/topic.py", "print(1)"),
        ("kernel/ids.py", "import os\nos.environ['x']"),
        ("broker/handlers/fetch.py", "async def fetch(): await slot"),
        ("cluster/placement.py", "def f(live: set[int]) -> list[int]:\n    return [b for b in sorted(live)]"),
        ("cluster/placement.py", "def f(live: set[int]) -> int:\n    return sum(weight[b] for b in live)"),
        ("cluster/placement.py", "live: dict[int, int] = {}\nfor broker in live:\n    use(broker)"),
    ],
)
def test_what_a_room_may_do_is_left_alone(room: str, source: str) -> None:
    assert sentences(room, source) == []


def test_sizes_docstrings_and_todos_are_seen_in_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidy, "ROOT", tmp_path)
    file = tmp_path / "src" / "ottla" / "kernel" / "long.py"
    file.parent.mkdir(parents=True)
    body = "\n".join(f"    x = {number}" for number in range(60))
    file.write_text(f"# TODO later\n# TODO (#7) later\ndef f():\n{body}\n" + "\n" * 450)
    found = sorted(tidy.check(file))
    assert [line for line, _ in found] == [1, 1, 3, 513]
    assert "TODO" in " ".join(sentence for line, sentence in found if line == 1)


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("from tests.broker.test_moves import alter", True),
        ("from test_moves import alter", True),
        ("def test_it():\n    import tests.broker.test_moves", True),
        ("from tests.broker import test_moves", True),
        ("from .test_moves import alter", True),
        ("from moving import alter", False),
        ("from tests.ports import free_port", False),
        ("from ottla.testing import TestBroker", False),
    ],
)
def test_an_import_from_a_test_module_is_found(
    source: str, is_found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidy, "ROOT", tmp_path)
    file = tmp_path / "tests" / "broker" / "test_twins.py"
    file.parent.mkdir(parents=True)
    file.write_text(source + "\n")
    assert any("what tests share" in sentence for _, sentence in tidy.check(file)) == is_found


CIRCLE = {
    "one.py": "from shop.broker.two import b",
    "two.py": "def f():\n    import shop.broker.three",
    "three.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from shop.broker import four",
    "four.py": "from shop.broker.one import a",
    "beside.py": "from shop.broker.one import a",
}


def a_package(root: Path, files: dict[str, str]) -> dict[str, set[str]]:
    """The imports of a package `shop` whose folder `broker` has these files."""
    folder = root / "shop" / "broker"
    folder.mkdir(parents=True)
    for init in (root / "shop" / "__init__.py", folder / "__init__.py"):
        init.write_text("")
    for name, source in files.items():
        (folder / name).write_text(source)
    return tidy.imports_within(root, "shop")


@pytest.mark.parametrize(
    "source",
    [
        '"""What happens here."""',
        'def f():\n    """Whether it holds."""',
        'class C:\n    """A class."""\n\n    limit: int\n    """Of all of them."""',
        'LIMIT = 3\n"""\nHow many may be open."""',
    ],
)
def test_a_docstring_that_opens_with_a_clause_is_found(source: str) -> None:
    ((_, sentence),) = tidy.docstrings_that_open_with_a_clause(ast.parse(source))
    assert sentence.startswith("a docstring opens with a plain statement, not with ")


@pytest.mark.parametrize(
    "source",
    ['"""Whole batches."""', 'def f():\n    """True if it holds."""', 'def f():\n    return "What else"', "f('Why')"],
)
def test_a_docstring_that_opens_plainly_is_left_alone(source: str) -> None:
    assert list(tidy.docstrings_that_open_with_a_clause(ast.parse(source))) == []


def test_a_circle_is_found_through_functions_and_type_checking(tmp_path: Path) -> None:
    imports = a_package(tmp_path, CIRCLE)
    around = [f"shop.broker.{name}" for name in ("four", "one", "three", "two")]
    assert tidy.circles(imports) == [around]
    ((place, sentence),) = tidy.circles_too_large(imports)
    assert place == around[0]
    assert sentence.startswith("4 modules import each other, 3 may at most: ")


def test_a_circle_of_three_is_left_alone(tmp_path: Path) -> None:
    imports = a_package(tmp_path, {**CIRCLE, "three.py": "from shop.broker.one import a"})
    assert [len(circle) for circle in tidy.circles(imports)] == [3]
    assert list(tidy.circles_too_large(imports)) == []


def test_a_package_is_named_by_its_folder_and_nothing_imports_itself(tmp_path: Path) -> None:
    imports = a_package(tmp_path, {"one.py": "import shop.broker.one\nfrom shop.broker import CONSTANT"})
    assert imports["shop.broker.one"] == {"shop.broker"}
    assert tidy.circles(imports) == []


def test_a_room_without_a_folder_of_tests_is_found(tmp_path: Path) -> None:
    source, tests = tmp_path / "src", tmp_path / "tests"
    for module in ("shop/cellar/wine.py", "shop/till.py", "yard/gate.py"):
        (source / module).parent.mkdir(parents=True, exist_ok=True)
        (source / module).touch()
    for folder in ("shop/cellar", "yard"):
        (tests / folder).mkdir(parents=True)
    (tests / "shop/cellar/test_wine.py").touch()
    (tests / "yard/desk.py").touch()  # a helper is no test
    assert list(tidy.rooms_without_tests(source, tests)) == [("yard", "tests/yard holds no test")]


def test_an_exemption_of_what_is_not_there_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAY_CALL_FILES", "MAY_CALL_SOCKETS", "MAY_CATCH_ALL"):
        monkeypatch.setattr(tidy, name, ("server",))
    monkeypatch.setattr(tidy, "MAY_PRINT", ("server", "console"))
    (tmp_path / "server").mkdir()
    assert list(tidy.exemptions_of_nothing(tmp_path)) == [("console", "is exempt from a rule, and is not there")]
