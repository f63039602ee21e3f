"""The commands in the README and the guides do what the text says, against a broker in this process."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guides import BLOCK, ROOT, blocks, sessions, steady

from ottla.testing import TestBroker

pytest_plugins = ["pytester"]


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker({"offsets.topic.num.partitions": "5"}) as broker:
        yield broker


@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/guide/{name}.md" for name in ("README", "getting-started", "dead-letters"))]
)
def test_what_a_page_tells_to_type_prints_what_it_says(page: str, tmp_path: Path) -> None:
    commands = sessions(page)
    assert commands
    with TestBroker({"offsets.topic.num.partitions": "5"}) as broker:
        address = broker.bootstrap_servers.replace("127.0.0.1", "localhost")
        program = tmp_path / "path" / "ottla"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla "$@"\n')
        program.chmod(0o755)
        for command, said in commands:
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command.replace("localhost:9092", address)],
                cwd=tmp_path,
                env={
                    **os.environ,
                    "PATH": f"{program.parent}:{os.environ['PATH']}",
                    "OTTLA_BOOTSTRAP_SERVERS": address,
                    "XDG_CONFIG_HOME": str(tmp_path),
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, f"{command}: {done.stdout}"
            printed = [steady(line) for line in done.stdout.splitlines()]
            assert not said or printed == [steady(line) for line in said], command


@pytest.mark.parametrize("page", ["README.md", "docs/guide/client.md", "docs/guide/transactions.md"])
def test_the_python_of_a_page_runs(page: str, broker: TestBroker) -> None:
    programs = [program for program in blocks(page, "python") if "pyspark" not in program]
    assert programs
    for program in programs:
        done = subprocess.run(
            [sys.executable, "-c", program.replace("localhost:9092", broker.bootstrap_servers)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip(), "it prints something"


def examples() -> dict[str, str]:
    """The examples of the Python reference, by class or function, joined to one program each."""
    found = {}
    for entry in (ROOT / "docs/reference/python.md").read_text("utf-8").split("\n### ")[1:]:
        programs = [body for language, body in BLOCK.findall(entry) if language == "python"]
        if programs:
            found[entry.partition("\n")[0]] = "\n".join(programs)
    return found


FIXTURES = ("ottla_broker", "ottla_topic", "kafka", "kafka_topic")
PROGRAMS = {
    name: program
    for name, program in examples().items()
    if name not in FIXTURES and not ("ottla.spark" in program or "ottla.lake" in program)
}
"""Those of Spark and the lake are run by tests/spark/test_reference.py."""


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_examples_of_the_python_reference_run(program: str, broker: TestBroker) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program.replace("localhost:9092", broker.bootstrap_servers)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "it prints something"


def test_the_example_tests_of_the_python_reference_pass(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("\n\n".join(examples()[name] for name in FIXTURES))
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=4)


def test_the_tests_of_the_testing_guide_pass(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("\n\n".join(blocks("docs/guide/testing.md", "python")))
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=4)


TOPIC_PLACES = (
    r"ottla (?:produce|consume|topic create|lake load) ([\w.]+)",
    r"ottla config set topic ([\w.]+)",
    r"\bproduce\(\s*\"([\w.]+)\"",
    r"\bsubscribe\(\[\"([\w.]+)\"",
    r"\"subscribe\", \"([\w.]+)\"",
)


def test_no_two_pages_of_the_guide_use_one_topic() -> None:
    pages: dict[str, set[str]] = {}
    for path in (ROOT / "docs" / "guide").glob("*.md"):
        text = path.read_text("utf-8")
        for topic in {topic for place in TOPIC_PLACES for topic in re.findall(place, text)}:
            pages.setdefault(topic, set()).add(path.name)
    assert len(pages) > 12
    assert not {topic: sorted(found) for topic, found in pages.items() if len(found) > 1}


def test_the_index_of_the_guide_leads_to_every_page() -> None:
    folder = ROOT / "docs" / "guide"
    index = (folder / "README.md").read_text("utf-8")
    assert not [path.name for path in folder.glob("*.md") if path.name != "README.md" and f"({path.name})" not in index]
