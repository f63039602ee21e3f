"""Programs, commands and expected output of the pages that users read, for the tests that type them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("ottla start", "ottla lake", "python3 -m venv", "pip install", "kill ", "cp ")
"""Commands that start brokers, Spark or other processes; other tests cover them."""
VARYING = (
    (r"(localhost|127\.0\.0\.1):\d+", "ADDRESS"),
    (r"\b[\w-]{22}\b", "ID"),
    (r"in \d+ ms", "in N ms"),
    (r" in [\d.]+ s, [\d.,]+/s", " in N s"),
    (r"\([\d.]+ KiB\)", "(SIZE)"),
    (r"\b20\d\d-\d\d-\d\dT[\d:]+Z", "TIME"),
    (r"Python [\d.]+", "Python X"),
    (r"decoded by .*", "decoded by SOMETHING"),
    (r"\d+ topics", "N topics"),
    (r"PATH=\S*/bin", "PATH=BIN"),
)


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    return [body for found, body in BLOCK.findall(text) if found == language]


def sessions(page: str) -> list[tuple[str, list[str]]]:
    """Each `$ command` of a page, with its expected output."""
    found: list[tuple[str, list[str]]] = []
    for body in blocks(page, ""):
        for line in body.splitlines():
            if line.startswith("$ "):
                found.append((line[2:].partition("   #")[0], []))
            elif found and body.startswith("$ "):
                found[-1][1].append(line)
    return [(command, said) for command, said in found if not command.startswith(ELSEWHERE)]


def steady(text: str) -> str:
    """Text without values that differ between runs, and with single spaces between columns."""
    for pattern, instead in VARYING:
        text = re.sub(pattern, instead, text)
    return " ".join(text.split())
