"""The offsets of a standalone worker, in one file that is replaced as a whole: JSON, or Java's form if it began so."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from ottla.connect.errors import ConfigException
from ottla.connect.java.byte_map import STREAM, read_map, written_map
from ottla.connect.tasks.offsets import Kept, Offset, Partition, SourceOffsets

log = logging.getLogger("ottla.connect")


class OffsetFile:
    """Keeps offsets in `offset.storage.file.filename`: a list of `[["NAME", {partition}], {offset}]`.

    A file of Kafka's own worker stays in the form of that worker, which can go on with it later.
    """

    def __init__(self, path: str) -> None:
        """Read the file where there is one; ConfigException for one that holds something else."""
        self._path = Path(path)
        self._offsets = SourceOffsets()
        content = self._path.read_bytes() if self._path.exists() else b""
        self._is_java = content.startswith(STREAM)
        try:
            if self._is_java:
                for record in read_map(content):
                    self._offsets.apply(*record)
            else:
                for key, value in json.loads(content or b"[]"):
                    self._offsets.apply(json.dumps(key).encode(), json.dumps(value).encode())
        except (ValueError, TypeError) as fault:
            whose = " of Kafka's own worker" if self._is_java else ""
            raise ConfigException(
                f"the file {path} holds no offsets{whose}: {fault}. Name another file in offset.storage.file.filename, "
                "and the connectors begin anew"
            ) from None
        if self._is_java:
            log.warning(
                "the file %s holds %d offsets of Kafka's own worker: the connectors of the same names go on behind "
                "them. The file stays in Java's form, and one worker at a time may use it",
                path, len(self._offsets.records()),
            )  # fmt: skip

    async def read(self, connector: str, partitions: Sequence[Partition]) -> list[Offset | None]:
        """The offset of each partition."""
        return [self._offsets.read(connector, each) for each in partitions]

    async def write(self, connector: str, offsets: Sequence[Kept]) -> None:
        """Keep offsets; they are on the disk once this returns."""
        for partition, offset in offsets:
            self._offsets.apply(*self._offsets.record(connector, partition, offset))
        beside = self._path.with_name(f"{self._path.name}.new")
        with beside.open("wb") as file:
            file.write(self._content())
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)

    async def all(self, connector: str) -> list[tuple[Partition, Offset]]:
        """All offsets of a connector."""
        return self._offsets.all(connector)

    def _content(self) -> bytes:
        if self._is_java:
            return written_map(self._offsets.records())
        return b"[" + b",\n ".join(b"[%b,%b]" % record for record in self._offsets.records()) + b"]\n"
