"""The pictures of the pages are those that the code draws, small, and legible in light and in dark."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ottla.lake.audit.picture import page

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import pictures  # noqa: E402


@pytest.mark.parametrize(("name", "drawn"), [
        ("system.svg", pictures.drawn_system), ("load.svg", pictures.drawn_load), ("logs.svg", pictures.drawn_logs),
        ("mail.svg", pictures.drawn_mail),
    ])  # fmt: skip
def test_the_committed_drawings_are_those_that_the_code_makes(name, drawn) -> None:  # type: ignore[no-untyped-def]
    assert (pictures.PICTURES / name).read_bytes() == drawn(), f"run `python tools/pictures.py {name}`"


@pytest.mark.parametrize("parts", [pictures.SYSTEM, pictures.LOAD, pictures.LOGS, pictures.MAIL])
def test_the_text_of_a_box_fits_into_it(parts) -> None:  # type: ignore[no-untyped-def]
    for box in (part for part in parts if isinstance(part, pictures.Box)):
        assert 14 + 7.0 * max(len(line) for line in (*box.lines, "")) <= box.width, box.title
        assert 49 + 19 * (len(box.lines) - 1) < box.height, box.title


@pytest.mark.parametrize("path", sorted(pictures.PICTURES.iterdir()), ids=lambda path: path.name)
def test_a_picture_is_small_and_shown_on_a_page(path: Path) -> None:
    assert path.stat().st_size <= pictures.MOST_BYTES
    pages = [ROOT / "README.md", *ROOT.glob("docs/guide/*.md")]
    assert any(f"pictures/{path.name})" in shown.read_text("utf-8") for shown in pages)
    if path.suffix == ".svg":
        ElementTree.fromstring(path.read_bytes())
        assert b"prefers-color-scheme: dark" in path.read_bytes()


def test_a_page_of_a_lake_becomes_a_picture() -> None:
    made = pictures.in_svg(page("shop & sons", "today", []), 880, 300)
    assert "Completeness of shop & sons" in "".join(ElementTree.fromstring(made).itertext())
