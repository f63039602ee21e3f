"""Builds the documentation site: `make site` writes build/site, which a browser reads from the disk or from any server.

The pages are those of the repository: README, docs/, examples/. They are laid out as in the repository, so that the
relative links between them hold; a link that does not stops the build. MkDocs with its Material theme makes the pages,
and a search index that needs no server. Nothing in the site is fetched from elsewhere.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ROOT / ".cache" / "site"
SHIM = "node_modules/iframe-worker/shim/index.js"
"""Lets the search run in pages that come from the disk, where browsers start no worker."""
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(?:#[^)\s]*)?\)")
ELSEWHERE = re.compile(r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(?:https?:)?//|<link[^>]*\shref=["']?(?:https?:)?//""")
"""A part of a page that a browser would fetch from another host; plain links for a reader to follow are not."""
GUIDE = "docs/guide/README.md"
SECTIONS = (
    ("Reference", "docs/reference"),
    ("Internals", "docs/internals"),
    ("Decisions", "docs/decisions"),
    ("Examples", "examples"),
)


def main() -> int:
    source, target = ROOT / "build" / "site-pages", ROOT / "build" / "site"
    for folder in (source, target):
        shutil.rmtree(folder, ignore_errors=True)
    found = pages(ROOT)
    lay_out(ROOT, source, found)
    shutil.copyfile(LIBRARIES / SHIM, source / "iframe-worker.js")
    sys.path.insert(0, str(LIBRARIES))
    built(source, target, found)
    if wrong := fetched_from_elsewhere(target):
        print("pages that would fetch parts from elsewhere: " + ", ".join(wrong), file=sys.stderr)
        return 1
    print(f"{len(found)} pages: {target / 'index.html'}")
    return 0


def pages(root: Path) -> list[str]:
    """The pages of the site, by their paths in the repository."""
    folders = [page for folder in ("docs", "examples") for page in (root / folder).rglob("*.md")]
    return ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", *sorted(str(page.relative_to(root)) for page in folders)]


def lay_out(root: Path, target: Path, found: Iterable[str]) -> None:
    """Copy pages, and the files that they link to or show."""
    for page in found:
        text = (root / page).read_text("utf-8")
        linked = {(root / page).parent.joinpath(link).resolve() for link in LINK.findall(text)}
        files = [path for path in linked if path.is_file() and path.suffix != ".md"]
        for path in [root / page, *files]:
            copy = target / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def navigation(found: list[str], guide: str) -> list[dict[str, Any]]:
    """The tree of pages: guides in the order in which the text of the guide's first page names them."""
    named = [str(Path(GUIDE).parent / link) for link in LINK.findall(guide)]
    guides = [page for page in dict.fromkeys(named) if page in found]
    guides += [page for page in found if page.startswith("docs/guide/") and page not in (GUIDE, *guides)]
    tree: list[dict[str, Any]] = [{"What is this?": "README.md"}, {"Guide": [GUIDE, *guides]}]
    for title, folder in SECTIONS:
        tree.append({title: [page for page in found if page.startswith(f"{folder}/")]})
    placed = {page for section in tree for part in section.values() for page in ([part] if type(part) is str else part)}
    return [*tree, {"Project": [page for page in found if page not in placed]}]


def built(source: Path, target: Path, found: list[str]) -> None:
    """Let MkDocs write the site; a link or an anchor that leads nowhere ends the program."""
    import logging

    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort
    from pymdownx.slugs import slugify

    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    configuration = source.with_name("mkdocs.yml")
    configuration.write_text("site_name: ottla\n", "utf-8")
    config = load_config(
        str(configuration),
        docs_dir=str(source),
        site_dir=str(target),
        strict=True,
        use_directory_urls=False,
        nav=navigation(found, (source / GUIDE).read_text("utf-8")),
        plugins=["search", "offline"],
        extra={"polyfills": ["iframe-worker.js"]},
        theme=THEME,
        validation=dict.fromkeys(("omitted_files", "not_found", "anchors", "absolute_links"), "warn"),
        markdown_extensions=[
            {"toc": {"permalink": True, "slugify": slugify(case="lower")}},
            *("tables", "sane_lists", "pymdownx.superfences", "pymdownx.highlight"),
        ],
    )
    try:
        build(config)
    except Abort as fault:
        raise SystemExit(f"the site was not built: {fault}") from None


THEME = {
    "name": "material",
    "font": False,  # else the browser would fetch fonts
    "features": ["navigation.sections", "navigation.footer", "navigation.top", "search.highlight", "content.code.copy"],
    "palette": [
        {
            "media": f"(prefers-color-scheme: {shade})",
            "scheme": scheme,
            "primary": "indigo",
            "toggle": {"icon": icon, "name": f"To {other} colours"},
        }
        for shade, scheme, icon, other in (
            ("light", "default", "material/weather-night", "dark"),
            ("dark", "slate", "material/weather-sunny", "light"),
        )
    ],
}


def fetched_from_elsewhere(target: Path) -> list[str]:
    """The pages that would have a browser fetch a part from another host."""
    return [page.name for page in sorted(target.rglob("*.html")) if ELSEWHERE.search(page.read_text("utf-8"))]


if __name__ == "__main__":
    sys.exit(main())
