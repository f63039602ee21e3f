"""Files of an Iceberg table on a local disk: on disk, with their names, before the catalog points at them."""

from __future__ import annotations

import io
import os
from pathlib import Path

from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO


class DurableFileIO(PyArrowFileIO):
    """The library's own file IO, except that a written file is synced when it is closed."""

    def new_output(self, location: str) -> PyArrowFile:
        scheme, _, path = self.parse_location(location, self.properties)
        if scheme != "file":
            return super().new_output(location)
        return DurableFile(location, path, self.fs_by_scheme(scheme, None))


class DurableFile(PyArrowFile):
    """A local file of a table."""

    def create(self, overwrite: bool = False) -> OutputStream:
        path = Path(self._path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return _Synced(io.FileIO(path, "w" if overwrite else "x"), path)


class _Synced(io.BufferedWriter):
    """A stream whose bytes and whose name are on disk once it is closed."""

    def __init__(self, raw: io.FileIO, path: Path) -> None:
        super().__init__(raw)
        self._home = path.parent

    def close(self) -> None:
        if not self.closed:
            self.flush()
            os.fsync(self.fileno())
            super().close()
            for folder in (self._home, self._home.parent):
                descriptor = os.open(folder, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
