"""Counts the commits that changed the hot path since it was measured last.

That is by the race that docs/reference/performance.md shows, or beside an earlier commit (bench/beside.py).
`python -m bench.freshness` lists them.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from bench.brokers import ROOT

PAGE = ROOT / "docs" / "reference" / "performance.md"
COMPARISONS = ROOT / "docs" / "internals" / "campaigns.md"
HOT_PATH = (
    "src/ottla/broker/handlers/fetch.py",
    "src/ottla/broker/handlers/produce.py",
    "src/ottla/broker/replicas/admission.py",
    "src/ottla/broker/replicas/fetcher.py",
    "src/ottla/broker/replicas/partition.py",
    *(
        f"src/ottla/broker/requests/{name}.py"
        for name in (
            "call", "dispatch", "fetch_sessions", "look_again", "produce_again", "produce_in_transaction",
            "produce_refused", "refusals", "request_times", "services", "topic_answers",
        )
    ),
    "src/ottla/broker/waiting.py",
    "src/ottla/kernel/story.py",
    "src/ottla/records",
    "src/ottla/replication",
    "src/ottla/server/channel.py",
    "src/ottla/server/cold_reads.py",
    "src/ottla/server/listener.py",
    "src/ottla/server/native",
    "src/ottla/server/sync_loop.py",
    "src/ottla/server/sync_round.py",
    "src/ottla/server/transport.py",
    "src/ottla/storage/bounds.py",
    "src/ottla/storage/disk/local.py",
    "src/ottla/storage/leader_epochs.py",
    "src/ottla/storage/log.py",
    "src/ottla/storage/lookup.py",
    "src/ottla/storage/producers",
    "src/ottla/storage/reading.py",
    "src/ottla/storage/replica_append.py",
    "src/ottla/storage/rolling.py",
    "src/ottla/storage/segment",
    "src/ottla/storage/syncing.py",
    *(f"src/ottla/wire/{name}.py" for name in ("apis", "connection", "frame", "hot", "hot_answers", "hot_shape")),
)  # fmt: skip
"""The files and folders that a record crosses in the broker, from the socket to the disk and to its readers.

Logins, rights, quotas and the audit log are asked once by one of these, where they are switched on.
"""
MOST_CHANGES = 30
"""The commits on the hot path after which it is measured again: by the race, or beside an earlier commit."""
MOST_SINCE_RACE = 90
"""The commits on the hot path after which the race itself is due, whatever was compared meanwhile."""


class Freshness(NamedTuple):
    """The commits that have changed the hot path, the newest first."""

    since_race: list[str]
    unmeasured: list[str]
    """Those since the race, or since the last comparison with an earlier commit."""

    @property
    def is_due(self) -> bool:
        return len(self.unmeasured) > MOST_CHANGES or len(self.since_race) > MOST_SINCE_RACE


def freshness(
    page: str, comparisons: str, repository: Path = ROOT, paths: tuple[str, ...] = HOT_PATH
) -> Freshness | None:
    """The changes since the race of the page, and those that nothing has measured; None without the history."""
    since_race = changes_since(raced_commit(page), repository, paths)
    if since_race is None:
        return None
    since = (changes_since(commit, repository, paths) for commit in compared_commits(comparisons))
    return Freshness(since_race, min([since_race, *(each for each in since if each is not None)], key=len))


def compared_commits(text: str) -> list[str]:
    """The commits that the page says were run beside an earlier one."""
    return re.findall(r"^Commit ([0-9a-f]{7,40}) beside", text, re.MULTILINE)


def raced_commit(page: str) -> str:
    """The commit that the page says it measured."""
    found = re.search(r"\bcommit `?([0-9a-f]{7,40})\b", page, re.IGNORECASE)
    if found is None:
        raise ValueError("the page names no commit")
    return found[1]


def changes_since(commit: str, repository: Path = ROOT, paths: tuple[str, ...] = HOT_PATH) -> list[str] | None:
    """The commits since then that changed code under the paths, the newest first; None if the history is not here.

    Merges are not counted beside what they bring in, and neither are commits that change alone docstrings, comments,
    a module's imports, and the names of classes, arguments and local variables in Python.
    """
    if output_of("rev-parse", "--is-shallow-repository", repository=repository) != "false\n":
        return None
    if output_of("merge-base", "--is-ancestor", commit, "HEAD", repository=repository) is None:
        return None
    log = output_of("log", "--no-merges", "--no-renames", "--raw", "--no-abbrev", "--format=%x00%H", f"{commit}..HEAD",
                    "--", *paths, repository=repository)  # fmt: skip
    assert log is not None
    parts = [[line for line in part.split("\n") if line] for part in log.split("\0")[1:]]
    commits = {commit: rows for commit, *rows in parts}
    blobs = sorted({blob for rows in commits.values() for row in rows for blob in modules_of(row)})
    codes = dict(zip(blobs, map(code, contents(blobs, repository)), strict=True))
    return [commit for commit, rows in commits.items() if any(changes_code(row, codes) for row in rows)]


def modules_of(row: str) -> list[str]:
    """The blobs before and after of a row of `git log --raw`, for a Python file that was modified; else none."""
    facts, _, name = row.partition("\t")
    _, _, before, after, status = facts.split(" ")
    return [before, after] if status == "M" and name.endswith(".py") else []


def changes_code(row: str, codes: dict[str, str]) -> bool:
    """True for a file whose code differs, beyond docstrings and comments."""
    modules = modules_of(row)
    return not modules or codes[modules[0]] != codes[modules[1]]


def contents(blobs: list[str], repository: Path) -> list[str]:
    """The text of each blob, by one process."""
    command = ["git", "-C", repository, "cat-file", "--batch"]
    rest = subprocess.run(command, input="\n".join(blobs).encode(), capture_output=True, check=True).stdout
    found = []
    for _ in blobs:
        head, _, rest = rest.partition(b"\n")
        size = int(head.split()[2])
        found.append(rest[:size].decode())
        rest = rest[size + 1 :]
    return found


def code(text: str) -> str:
    """The syntax tree of a module, without strings that stand alone, imports, and names of classes and locals."""
    tree = ast.parse(text)
    tree.body = [
        part for part in tree.body if not isinstance(part, ast.Import | ast.ImportFrom) and not for_types(part)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [part for part in node.body if not is_text(part)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            number_locals(node)
    numbers: dict[str, int] = {}
    return CLASS_NAME.sub(lambda name: f"'{numbers.setdefault(name[1], len(numbers))}'", ast.dump(tree))


CLASS_NAME = re.compile(r"(?:(?<=id=)|(?<=attr=)|(?<=name=))'(_?[A-Z]\w*[a-z]\w*)'")
"""A class where a dumped tree has it: `id`, `attr` or `name`. Constants have no small letters."""


def number_locals(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Put numbers, by first use, in place of the names of the function's arguments and variables."""
    nodes = list(ast.walk(function))
    outer = {name for each in nodes if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names}
    bound = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)} - outer
    bound |= {each.arg for each in nodes if isinstance(each, ast.arg)}
    numbers: dict[str, int] = {}
    for each in nodes:
        if isinstance(each, ast.Name) and each.id in bound:
            each.id = f"local {numbers.setdefault(each.id, len(numbers))}"
        elif isinstance(each, ast.arg):
            each.arg = f"local {numbers.setdefault(each.arg, len(numbers))}"


def for_types(part: ast.stmt) -> bool:
    return isinstance(part, ast.If) and isinstance(part.test, ast.Name) and part.test.id == "TYPE_CHECKING"


def is_text(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str)


def output_of(*arguments: str, repository: Path) -> str | None:
    """The output of git; None where it fails or is not installed."""
    try:
        result = subprocess.run(["git", "-C", repository, *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return result.stdout if result.returncode == 0 else None


def main() -> int:
    """Print the commits that nothing has measured; return 1 if something is due again."""
    page = PAGE.read_text()
    found = freshness(page, COMPARISONS.read_text())
    if found is None:
        print(f"commit {raced_commit(page)}, which the page shows, is not in the history here")
        return 0
    for change in found.unmeasured:
        print((output_of("log", "-1", "--format=%h %s", change, repository=ROOT) or change).rstrip())
    print(f"{len(found.unmeasured)} changes of the hot path that nothing has measured, of {MOST_CHANGES} at most")
    print(f"{len(found.since_race)} since the race of {raced_commit(page)}, of {MOST_SINCE_RACE} at most")
    return 1 if found.is_due else 0


if __name__ == "__main__":
    sys.exit(main())
