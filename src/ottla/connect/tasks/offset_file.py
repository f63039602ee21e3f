"""The offsets of a standalone worker, in one JSON file that is replaced as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.connect.errors import ConfigException
from ottla.connect.tasks.offsets import Kept, Offset, Partition, SourceOffsets

_JAVA: Final = b"\xac\xed\x00\x05"
"""The beginning of a Java object: Kafka's own worker writes its offsets so."""


class OffsetFile:
    """Keeps offsets in `offset.storage.file.filename`: a list of `[["NAME", {partition}], {offset}]`."""

    def __init__(self, path: str) -> None:
        """Read the file where there is one; ConfigException for one that holds something else."""
        self._path = Path(path)
        self._offsets = SourceOffsets()
        content = self._path.read_bytes() if self._path.exists() else b""
        if content.startswith(_JAVA):
            raise ConfigException(
                f"the file {path} holds the offsets of Kafka's own worker as a Java object, which is not read here: "
                "name another file in offset.storage.file.filename; the connectors then begin anew"
            )
        try:
            for key, value in json.loads(content or b"[]"):
                self._offsets.apply(json.dumps(key).encode(), json.dumps(value).encode())
        except (ValueError, TypeError) as fault:
            raise ConfigException(f"the file {path} holds no offsets: {fault}") from None

    async def read(self, connector: str, partitions: Sequence[Partition]) -> list[Offset | None]:
        """The offset of each partition."""
        return [self._offsets.read(connector, each) for each in partitions]

    async def write(self, connector: str, offsets: Sequence[Kept]) -> None:
        """Keep offsets; they are on the disk once this returns."""
        for partition, offset in offsets:
            self._offsets.apply(*self._offsets.record(connector, partition, offset))
        lines = [f"[{key.decode()},{value.decode()}]" for key, value in self._offsets.records()]
        beside = self._path.with_name(f"{self._path.name}.new")
        with beside.open("w", encoding="utf-8") as file:
            file.write("[" + ",\n ".join(lines) + "]\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)

    async def all(self, connector: str) -> list[tuple[Partition, Offset]]:
        """All offsets of a connector."""
        return self._offsets.all(connector)
