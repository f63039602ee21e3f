"""The pages of `make site`: which there are, their order, and what lies beside them. MkDocs itself checks the links."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("doc_site", ROOT / "tools" / "doc_site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_has_one_place_in_the_navigation(site: ModuleType) -> None:
    found = site.pages(ROOT)
    tree = site.navigation(found, (ROOT / site.GUIDE).read_text("utf-8"))
    placed = [page for section in tree for part in section.values() for page in ([part] if type(part) is str else part)]
    assert sorted(placed) == sorted(found)
    assert "docs/guide/getting-started.md" in found and "examples/README.md" in found


def test_guides_stand_in_the_order_in_which_the_first_page_names_them(site: ModuleType) -> None:
    found = ["README.md", *(f"docs/guide/{name}.md" for name in ("README", "a", "b", "c"))]
    tree = site.navigation(found, "[c](c.md#part) then [a](a.md), [a web page](https://a.b/c.md) and [c](c.md)")
    assert tree[1] == {"Guide": [f"docs/guide/{name}.md" for name in ("README", "c", "a", "b")]}


def test_pages_are_laid_out_with_the_files_that_they_show_and_no_others(site: ModuleType, tmp_path: Path) -> None:
    root, target = tmp_path / "root", tmp_path / "target"
    for name, text in {
        "docs/one.md": "![picture](pictures/p.svg) [code](../src/x.py) [page](two.md) [folder](../src) [gone](no.png)",
        "docs/two.md": "",
        "docs/pictures/p.svg": "<svg/>",
        "docs/pictures/unused.svg": "<svg/>",
        "src/x.py": "x = 1",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    site.lay_out(root, target, ["docs/one.md"])
    laid = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
    assert laid == ["docs/one.md", "docs/pictures/p.svg", "src/x.py"]


@pytest.mark.parametrize(
    ("part", "elsewhere"),
    [
        ('<script src="https://unpkg.com/x"></script>', True),
        ('<link rel="stylesheet" href="//fonts.example/css">', True),
        ("<img alt=a src='http://h/p.png'>", True),
        ('<a href="https://kafka.apache.org">', False),
        ('<script src="../assets/x.js"></script>', False),
    ],
)
def test_a_page_that_would_fetch_a_part_from_elsewhere_is_found(
    site: ModuleType, tmp_path: Path, part: str, elsewhere: bool
) -> None:
    (tmp_path / "page.html").write_text(f"<html>{part}</html>")
    assert site.fetched_from_elsewhere(tmp_path) == (["page.html"] if elsewhere else [])
