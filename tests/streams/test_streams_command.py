"""`ottla streams` as a user calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.main import main

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "wordcount.py"


def test_graph_prints_the_topology_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "graph", f"{EXAMPLE}:topology"]) == 0
    assert "(topics: [word-lines])" in capsys.readouterr().out


def test_a_name_that_the_file_lacks_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "graph", f"{EXAMPLE}:topologie"]) == 1
    assert "has no topologie; did you mean topology?" in capsys.readouterr().err


def test_run_wants_an_application_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "run", str(EXAMPLE)]) == 2
    assert "--application-id is missing" in capsys.readouterr().err
