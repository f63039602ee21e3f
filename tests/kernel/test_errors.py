"""The table of error codes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ottla.kernel.errors import ApiError, ErrorCode, clipped


def test_codes_are_numbers_with_a_sentence() -> None:
    assert ErrorCode(6) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == 6
    assert sorted(ErrorCode) == list(range(-1, 134))
    assert all(code.message.endswith(".") for code in ErrorCode if code is not ErrorCode.NONE)
    assert ErrorCode.REQUEST_TIMED_OUT.retriable and not ErrorCode.INVALID_REQUEST.retriable


def test_an_api_error_says_its_code_and_its_sentence() -> None:
    assert str(ApiError(ErrorCode.INVALID_CONFIG, "no such option")) == "INVALID_CONFIG: no such option"
    assert ApiError(ErrorCode.INVALID_CONFIG).message == ErrorCode.INVALID_CONFIG.message


def test_of_a_long_sentence_an_api_error_says_the_beginning_and_the_end() -> None:
    """The longest string of a client, quoted in a message of ours, is longer than a string field can be."""
    for letter in ("a", "ä", "\N{SNOWMAN}", "\N{GRINNING FACE}"):
        said = ApiError(ErrorCode.INVALID_CONFIG, f"Unknown option {letter * 32767} of this topic").message
        assert said.startswith(f"Unknown option {letter}") and said.endswith(f"{letter} of this topic")
        assert len(said.encode()) <= 0x7FFF


def test_a_text_of_ordinary_length_stays_whole() -> None:
    text = "".join(map(str, range(1100)))
    assert clipped(text) == text and len(text) > 3000


PROGRAM = """
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;
public class PrintErrors {
    public static void main(String[] none) {
        for (Errors each : Errors.values())
            System.out.println(each.name() + " " + each.code()
                + " " + (each.exception() instanceof RetriableException));
    }
}
"""


@pytest.mark.kafka
def test_names_numbers_and_retriability_are_apache_kafkas(kafka_libs: Path, tmp_path: Path) -> None:
    source = tmp_path / "PrintErrors.java"
    source.write_text(PROGRAM)
    done = subprocess.run(
        ["java", "-cp", f"{kafka_libs}/*", str(source)], capture_output=True, text=True, check=True, timeout=60
    )
    theirs = [line.split() for line in done.stdout.splitlines()]
    ours = [[code.name, str(code.value), str(code.retriable).lower()] for code in ErrorCode]
    assert theirs == ours
