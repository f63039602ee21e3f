"""Manifests and data files in a store: listed, read with their checksums, put, removed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from ottla.backup.manifest import DATA, FOLDER, Backup, BackupFile, BackupRefused, decoded, encoded
from ottla.stores import Store

_BEGUN = "begun"


def backup_ids(store: Store) -> list[str]:
    """The ids of all backups, oldest first."""
    names = [entry.name for entry in store.entries(FOLDER, deep=False)]
    return sorted(name[len(FOLDER) : -len(".json")] for name in names if name.endswith(".json"))


def read_backup(store: Store, backup_id: str) -> Backup:
    """One backup's manifest."""
    name = f"{FOLDER}{backup_id}.json"
    text = store.read(name)
    if text is None:
        raise BackupRefused(f"{store.url} has no backup {backup_id}: `ottla backup list` shows those that are there")
    return decoded(text, f"{store.url}/{name}")


def publish(store: Store, backup: Backup) -> None:
    """Put the manifest: from here on the backup is there."""
    if not store.create(backup.name, encoded(backup)):
        raise BackupRefused(f"{store.url} has another backup {backup.id}: is the clock right? Start again")


def read_file(store: Store, file: BackupFile) -> bytes:
    """A file's content; BackupRefused where it is not what was written."""
    content = store.read(file.name)
    if content is None:
        raise BackupRefused(f"{store.url}/{file.name} is missing: this backup cannot be restored as a whole")
    if len(content) != file.bytes or hashlib.sha256(content).hexdigest() != file.sha256:
        raise BackupRefused(
            f"{store.url}/{file.name} is damaged: it has {len(content)} bytes and another checksum than the "
            f"{file.bytes} bytes that were written"
        )
    return content


def remove_backups(store: Store, gone: Iterable[str]) -> None:
    """Remove manifests; `sweep` frees what only they named."""
    store.remove([f"{FOLDER}{each}.json" for each in gone])


def run_folder(run_id: str) -> str:
    """The folder of the files that one run writes; runs that are killed leave theirs."""
    return f"{DATA}{run_id}/"


def begin_run(store: Store, run_id: str) -> None:
    """Make a run's folder known, so that `sweep` finds it though no file in it was finished."""
    store.replace(f"{run_folder(run_id)}{_BEGUN}", b"")


def sweep(store: Store, backups: Iterable[Backup]) -> None:
    """Remove data files that none of the backups names: of removed backups, of runs that were killed."""
    named = {file.name for backup in backups for file in backup.files()}
    runs: dict[str, list[str]] = {}
    for entry in store.entries(DATA):
        runs.setdefault(entry.name.split("/")[1], []).append(entry.name)
    for run_id, names in runs.items():
        loose = [name for name in names if name not in named]
        if len(loose) == len(names):
            store.remove_folder(run_folder(run_id))
        elif loose:
            store.remove(loose)
