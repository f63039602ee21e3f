"""The reference pages match the declarations in the code."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs", ROOT / "tools" / "docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_pages_are_those_that_the_code_makes(docs: ModuleType) -> None:
    assert docs.main(["--check"]) == 0, "run `python tools/docs.py`"


def test_a_page_that_differs_fails_the_check(
    docs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docs, "REFERENCE", tmp_path)
    monkeypatch.setattr(docs, "PAGES", {"apis.md": docs.apis})
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0
    with (tmp_path / "apis.md").open("a") as page:
        page.write("| 0 | Invented |\n")
    assert docs.main(["--check"]) == 1
    assert "-| 0 | Invented |" in capsys.readouterr().err


def test_every_option_metric_and_api_is_on_its_page(docs: ModuleType) -> None:
    from ottla.broker import measures as of_broker
    from ottla.config.known import broker_options
    from ottla.server import measures as of_process
    from ottla.wire.apis import APIS

    configuration, metrics, apis = docs.configuration(), docs.metrics(), docs.apis()
    assert all(f"| `{name}` |" in configuration for name, option in broker_options().items() if not option.internal)
    assert all(f"| `{family.name}` |" in metrics for family in (*of_broker.families(), *of_process.families()))
    assert all(f"| {key} | {api.name} |" in apis for key, api in APIS.items())


def test_every_command_has_its_help_on_the_page(docs: ModuleType) -> None:
    page = docs.commands()
    for heading in ("## ottla start", "### ottla topic create", "### ottla lake load", "### kafka-console-consumer"):
        assert f"\n{heading}\n" in page
    assert "Traceback" not in page


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    broken = [target for target in LINK.findall(page.read_text("utf-8")) if not (page.parent / target).exists()]
    assert not broken
