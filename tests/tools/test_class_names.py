"""The check of class names finds a name of two classes, and accepts the words that rooms may have for themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import class_names  # noqa: E402


def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *rooms: str, allowed: str = "") -> list[tuple[str, str]]:
    """The faults of a tree where each of these modules has a class `Place`, under a table of exceptions."""
    monkeypatch.setattr(class_names, "ALLOWED", dict.fromkeys(allowed.split(), "a reason"))
    for room in rooms:
        (tmp_path / room).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / room).write_text("class Place: ...\nclass _Hidden: ...\n")
    return list(class_names.doubled(tmp_path))


def test_a_name_of_two_classes_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(tmp_path, monkeypatch, "jobs/a.py", "lake/b.py") == [
        ("lake/b.py", "class Place is also in jobs/a.py: let each name say which Place it is")
    ]


@pytest.mark.parametrize(
    "others",
    [("messages/a.py", "messages/b.py"), ("sim/a.py",), ("connect/plugins/x/a.py",)],
)
def test_kafkas_structs_worlds_and_plugins_have_their_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: tuple[str, ...]
) -> None:
    assert found(tmp_path, monkeypatch, "jobs/a.py", *others) == []


def test_the_two_faces_of_the_client_have_one_class_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(tmp_path, monkeypatch, "client/aio/a.py", "client/blocking/a.py") == []
    assert len(found(tmp_path, monkeypatch, "client/core/a.py")) == 1


def test_an_allowed_name_needs_two_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(tmp_path, monkeypatch, "jobs/a.py", "lake/b.py", allowed="Place") == []
    (tmp_path / "lake" / "b.py").unlink()
    assert found(tmp_path, monkeypatch, allowed="Place") == [
        ("tools/class_names.py", "Place is in ALLOWED, and one class has the name")
    ]
