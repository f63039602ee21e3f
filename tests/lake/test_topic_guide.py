"""Carries out the guide that turns a topic into a table."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.guides import BLOCK, ROOT, steady

from ottla.lake.commands.load import command as lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]

GUIDE = "docs/guide/topic-to-table.md"
PROGRESS = re.compile(r"round \d+: [a-z]+(,| [\d,]+ records, \d+ s)")


def typed(text: str, bootstrap: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Type a command of the guide and return its output. Loads run in this process, where Spark is up already."""
    if text.startswith("ottla lake "):
        assert lake(text.split()[2:]) == 0, capsys.readouterr().err
        said = capsys.readouterr()
        return said.err + said.out
    done = subprocess.run(
        [
            "bash",
            "-c",
            f'ottla() {{ "{sys.executable}" -m ottla "$@"; }}; python() {{ "{sys.executable}" "$@"; }}; {text}',
        ],
        cwd=folder,
        env={**os.environ, "OTTLA_BOOTSTRAP_SERVERS": bootstrap, "XDG_CONFIG_HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{text}: {done.stdout}"
    return done.stdout


def test_the_guide_prints_what_it_says(bootstrap, spark, tmp_path, monkeypatch, capsys):  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", bootstrap)
    compared = 0
    for language, text in BLOCK.findall((ROOT / GUIDE).read_text("utf-8")):
        if language == "python":
            (tmp_path / text.split()[1]).write_text(text.replace("localhost:9092", bootstrap))
            continue
        for session in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, wanted = session.partition("\n")
            if command == "ottla start":
                continue
            printed = typed(command, bootstrap, tmp_path, capsys).strip().splitlines()
            lines = [steady(line) for line in printed if not PROGRESS.match(line)]
            assert lines == [steady(line) for line in wanted.splitlines()], command
            compared += len(lines)
    assert compared > 30
    page = (tmp_path / "shop.html").read_text()
    assert 'title="2026-03-10: ' in page
    assert page.count('class="s') > 27
