"""A Delta table's place: its file system, options, library's errors, and its log made durable on a disk."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs as pa_fs
from deltalake import DeltaTable
from deltalake.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)
from deltalake.fs import DeltaStorageHandler

from ottla.lake.tables.attempts import CommitConflict, CommitUnknown
from ottla.stores import local_path
from ottla.stores.base import LakeRefused
from ottla.stores.object_client import azure_endpoint

_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")


class DeltaPlace:
    """A folder below a lake's URL, through the library's own stores."""

    def __init__(self, url: str) -> None:
        self.url = url
        if self._is_local and _ESCAPE.search(path := str(local_path(url))):
            raise LakeRefused(f"a Delta table cannot lie in {path}: deltalake takes % and two digits for one character")
        self._options = storage_options(url)

    def load(self) -> DeltaTable | None:
        """The table as it is now; None where there is none."""
        try:
            return DeltaTable(self.url, storage_options=self._options)
        except TableNotFoundError:
            return None

    def existing(self) -> DeltaTable:
        """The table as it is now, which was there a moment ago."""
        table = self.load()
        if table is None:
            raise LakeRefused(f"there is no Delta table at {self.url} any more")
        return table

    def files(self) -> pa_fs.FileSystem:
        """The folder as a file system whose paths begin in it."""
        return pa_fs.PyFileSystem(DeltaStorageHandler(self.url, self._options))

    @property
    def options(self) -> dict[str, str]:
        return dict(self._options)

    def make_durable(self, version: int) -> None:
        """On a local disk the library leaves its log to the page cache; a power cut must not take a commit back."""
        if self._is_local:
            folder = local_path(self.url)
            _sync(folder / "_delta_log" / f"{version:020d}.json", folder / "_delta_log", folder, folder.parent)

    def make_files_durable(self, paths: Iterable[str]) -> None:
        """Put data files, and the names of them and of their folders, on a local disk before the log names them."""
        if self._is_local:
            root = local_path(self.url)
            files = [root / path for path in paths]
            folders = {folder for file in files for folder in file.parents if folder.is_relative_to(root)}
            _sync(*files, *sorted(folders))

    @property
    def _is_local(self) -> bool:
        return self.url.startswith("file://")


def _sync(*paths: Path) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def storage_options(url: str) -> dict[str, str]:
    """Options that the library does not read from the environment: a test's endpoint may be plain HTTP."""
    if url.startswith(("az://", "abfs://", "abfss://")):
        return {"azure_allow_http": "true"} if azure_endpoint().startswith("http://") else {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    if not url.startswith(("s3://", "s3a://")) or not endpoint:
        return {}
    options = {"AWS_ENDPOINT_URL": endpoint}
    return options | {"AWS_ALLOW_HTTP": "true"} if endpoint.startswith("http://") else options


@contextmanager
def told_apart() -> Iterator[None]:
    """The library's errors by their meaning here: another commit came first, refused for good, or unknown."""
    try:
        yield
    except CommitFailedError as fault:
        raise CommitConflict(str(fault)) from fault
    except (SchemaMismatchError, DeltaProtocolError) as fault:
        raise LakeRefused(f"the Delta table refuses this: {fault}") from fault
    except (CommitConflict, CommitUnknown):
        raise
    except (DeltaError, OSError) as fault:
        raise CommitUnknown(str(fault)) from fault
