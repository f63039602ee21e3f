"""`ottla streams` as a user calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.streams import StreamsBuilder, TopologyError, run

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "wordcount.py"


def test_graph_prints_the_topology_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "graph", f"{EXAMPLE}:topology"]) == 0
    assert "(topics: [word-lines])" in capsys.readouterr().out


def test_a_name_that_the_file_lacks_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "graph", f"{EXAMPLE}:topologie"]) == 1
    assert "has no topologie; did you mean topology?" in capsys.readouterr().err


def test_graph_draws_into_a_file_and_compares_with_an_older_version(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["streams", "graph", "--svg", str(tmp_path / "words.svg"), str(EXAMPLE)]) == 0
    assert "word-lines" in (tmp_path / "words.svg").read_text()
    newer = tmp_path / "newer.py"
    newer.write_text(EXAMPLE.read_text().replace('store="counts"', 'store="words"'))
    assert main(["streams", "graph", "--compare", str(EXAMPLE), str(newer)]) == 1
    out = capsys.readouterr().out
    assert "breaks: the store counts is gone: its state would be lost" in out
    assert "needs a new application id" in out
    newer.write_text(EXAMPLE.read_text().replace("map_values(str)", 'map_values(str, name="shown")'))
    assert main(["streams", "graph", "--compare", str(EXAMPLE), str(newer)]) == 0
    assert "fine:   the node shown is new" in capsys.readouterr().out


def test_graph_shows_a_pattern_and_what_it_takes_the_place_of(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    newer = tmp_path / "newer.py"
    newer.write_text("import re\n" + EXAMPLE.read_text().replace('"word-lines"', 're.compile("word-.*s")'))
    assert main(["streams", "graph", str(newer)]) == 0
    assert "(topics: word-.*s)" in capsys.readouterr().out
    assert main(["streams", "graph", "--svg", str(tmp_path / "words.svg"), str(newer)]) == 0
    assert "word-.*s" in (tmp_path / "words.svg").read_text()
    capsys.readouterr()
    assert main(["streams", "graph", "--compare", str(EXAMPLE), str(newer)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "fine:   the topics that match word-.*s are read now"


def test_run_wants_an_application_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "run", str(EXAMPLE)]) == 2
    assert "--application-id is missing" in capsys.readouterr().err


def test_options_of_one_way_to_run_are_refused_with_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    run = ["streams", "run", str(EXAMPLE), "--application-id", "a"]
    assert main([*run, "--checkpoint", "here"]) == 2
    assert "--checkpoint is for --on spark" in capsys.readouterr().err


def test_an_option_that_run_does_not_have_is_refused_with_the_nearest() -> None:
    topology = StreamsBuilder()
    topology.stream("a").to("b")
    with pytest.raises(TypeError, match="on local has no option max_poll_record; did you mean max_poll_records"):
        run(topology.build(), application_id="a", max_poll_record=5)
    with pytest.raises(TopologyError, match=r"on='sparc' is not known; did you mean spark\?"):
        run(topology.build(), application_id="a", on="sparc")


def test_state_that_is_not_there_is_told_by_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "stop", "--application-id", "a", "--checkpoint", str(tmp_path)]) == 1
    assert f"there is no state of an application in {tmp_path.as_uri()}/ottla-state" in capsys.readouterr().err
