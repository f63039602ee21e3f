"""The reference pages match the declarations in the code."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import python_reference  # noqa: E402
import python_sections  # noqa: E402

BOATS = '''
from dataclasses import dataclass


class Boat:
    """Floats.

    Carries `crew`.

        print(Boat("Ida"))
    """

    def __init__(self, name: str, *, crew: int = 1) -> None:
        """It has a `name`."""

    @property
    def crew(self) -> int:
        """How many row."""

    async def sail(self, to: Harbour) -> int: ...

    def _sink(self) -> None: ...


@dataclass(frozen=True)
class Harbour:
    """Lets boats in."""

    berths: int = 2
    """Ships at once."""


def launch(): ...
'''
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


def test_every_public_name_has_a_docstring() -> None:
    assert not python_reference.undocumented()


def test_every_name_that_a_public_package_hands_on_is_on_the_page() -> None:
    listed = {found.path for section in python_sections.SECTIONS for found in python_reference.declared(section)}
    for package in python_sections.PACKAGES:
        public = {python_reference.find(package, name).path for name in python_reference.public(package)}
        assert public
        assert not public - listed


def test_every_class_in_a_signature_is_on_the_page() -> None:
    assert not python_reference.unlisted()


def test_a_name_without_a_docstring_or_a_class_off_the_page_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boats.py").write_text(BOATS)
    monkeypatch.setattr(python_reference, "SOURCES", tmp_path)
    monkeypatch.setattr(python_reference, "SECTIONS", (python_sections.Section("boats", "", "Boat launch"),))
    assert python_reference.undocumented() == ["boats.Boat.sail", "boats.launch"]
    assert python_reference.unlisted() == ["Harbour"]


def test_a_page_shows_calls_fields_and_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "boats_shown.py").write_text(BOATS)
    monkeypatch.setattr(python_reference, "SOURCES", tmp_path)
    section = python_sections.Section("boats_shown", "", "Boat Harbour")
    monkeypatch.setattr(python_reference, "SECTIONS", (section,))
    page = python_reference.page("made")
    assert "```py\nBoat(name: str, *, crew: int = 1)\n```\n\nFloats.\n\nCarries `crew`.\n\nIt has a `name`." in page
    assert '```python\nprint(Boat("Ida"))\n```' in page
    assert "```py\nawait boat.sail(to: Harbour) -> int\n```" in page
    assert "```py\nboat.crew: int\n```\n\nHow many row." in page
    assert "| `berths` | `int` | `2` | Ships at once. |" in page


def test_a_method_made_from_a_story_is_shown_as_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = tmp_path / "ottla" / "ports"
    ports.mkdir(parents=True)
    (ports / "harbours.py").write_text(
        'async def admit(plan: Plan, boat: Boat, *, berth: int = 1) -> bool:\n    """Let a boat in."""\n'
    )
    (ports / "pilots.py").write_text(
        'from ottla.ports import harbours as stories\n\n\nclass PilotCalls:\n    """Helps."""\n\n'
        "    admit_one = on_plan(stories.admit)\n\n\n"
        'class Pilot(PilotCalls, Blocking):\n    """Helps."""\n'
    )
    monkeypatch.setattr(python_reference, "SOURCES", tmp_path)
    section = python_sections.Section("ottla.ports.pilots", "", "Pilot")
    monkeypatch.setattr(python_reference, "SECTIONS", (section,))
    shown = "```py\npilot.admit_one(boat: Boat, *, berth: int = 1) -> bool\n```\n\nLet a boat in."
    assert shown in python_reference.page("made")
    assert not python_reference.undocumented()


def test_links_into_the_python_reference_lead_to_its_headings() -> None:
    reference = (ROOT / "docs/reference/python.md").read_text("utf-8")
    headings = re.findall(r"^#+ (.*)", reference, re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings]
    assert len(set(anchors)) == len(anchors)
    wanted = re.findall(r"\]\(#([^)]+)\)", reference)
    for page in ROOT.glob("docs/**/*.md"):
        wanted += re.findall(r"reference/python\.md#([^)]+)\)", page.read_text("utf-8"))
    assert len(wanted) > len(python_sections.SECTIONS)
    assert not set(wanted) - set(anchors)


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    broken = [target for target in LINK.findall(page.read_text("utf-8")) if not (page.parent / target).exists()]
    assert not broken


def test_usage_is_wrapped_alike_for_every_version_of_argparse(docs: ModuleType) -> None:
    rest = "\n\nDo it.\n"
    of_311 = (
        "usage: ottla lake load [-h] --to PLACE\n                       [--every TIME | --continuous] [--kind {a,b}]\n"
        "                       [TOPIC ...]" + rest
    )
    of_314 = (
        "usage: ottla lake load [-h] --to PLACE [--every TIME |\n"
        "                       --continuous] [--kind {a,b}] [TOPIC ...]" + rest
    )
    wrapped = docs._with_steady_usage(of_314, "ottla lake load")
    assert docs._with_steady_usage(of_311, "ottla lake load") == wrapped
    assert wrapped == (
        "usage: ottla lake load [-h] --to PLACE [--every TIME | --continuous] [--kind {a,b}] [TOPIC ...]" + rest
    )
    assert docs._with_steady_usage("usage: ottla stop [-h]" + rest, "ottla stop") == "usage: ottla stop [-h]" + rest
