"""Files of the shared store that cannot be opened give one sentence with the file, the reason and advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.coordination.database import Database, DatabaseFailure
from ottla.coordination.presence import Presence
from ottla.kernel.ids import BrokerId


@pytest.mark.parametrize("whose", [1, 2])
def test_a_lock_that_is_a_directory_is_named_with_what_to_do(tmp_path: Path, whose: int) -> None:
    (tmp_path / f"{whose}.lock").mkdir()
    with pytest.raises(OSError, match=f"{tmp_path}/{whose}.lock is a directory.*remove it, start again"):
        presence = Presence(str(tmp_path), BrokerId(1), session_timeout_ms=1000)
        presence.look()


@pytest.mark.parametrize(
    ("name", "remedy"), [("metadata.db", "put the store back from a backup"), ("metadata.db-journal", "start again")]
)
def test_a_file_of_the_database_that_is_a_directory_is_named_with_what_to_do(
    tmp_path: Path, name: str, remedy: str
) -> None:
    path = tmp_path / "metadata.db"
    database = Database(str(path), "PERSIST")
    database.append([b"one"], 0)
    database.close()
    file = tmp_path / name
    file.unlink(missing_ok=True)
    file.mkdir()
    with pytest.raises(DatabaseFailure, match=f"{file} is a directory.*move it away, and {remedy}"):
        Database(str(path), "PERSIST").head()
