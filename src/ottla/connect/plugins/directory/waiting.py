"""Decides which files of a directory are to be read next, and where. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.connect.errors import ConfigException


class Version(NamedTuple):
    """The marks by which two contents of one name are told apart."""

    size: int
    modified_ns: int


class Waiting:
    """Files become ready once they have not changed over two looks, or at once if others vouch for them."""

    def __init__(self, *, by_time: bool) -> None:
        self._by_time = by_time
        self._before: Mapping[str, Version] = {}
        self._settled: dict[str, Version] = {}

    def ready(self, found: Mapping[str, Version], *, complete: bool) -> list[tuple[str, Version]]:
        """The files to read, in their order. `complete`: their writers have said that they are whole."""
        still = found if complete else {name: each for name, each in found.items() if self._before.get(name) == each}
        self._before = found
        wanted = [(name, each) for name, each in still.items() if self._settled.get(name) != each]
        return sorted(wanted, key=lambda one: (one[1].modified_ns if self._by_time else 0, one[0]))

    def settle(self, name: str, version: Version) -> None:
        """Read no more of this version: it was read, or it cannot be."""
        self._settled[name] = version

    def forget(self, name: str) -> None:
        """Learn that the file is gone."""
        self._settled.pop(name, None)


def offset_of(position: int, version: Version, *, done: bool) -> dict[str, Any]:
    """The offset of a file behind so many of its items."""
    return {"position": position, "done": done, "size": version.size, "modified_ns": version.modified_ns}


def is_same(offset: Mapping[str, Any], version: Version) -> bool:
    """True if the offset is one of this version. An offset that was set by hand may leave size and time out."""
    kept = (offset.get("size", version.size), offset.get("modified_ns", version.modified_ns))
    return kept == version


def check(partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
    """Raise `ConfigException` for an offset that no file could be read from."""
    if set(partition) != {"file"} or not isinstance(partition["file"], str):
        raise ConfigException('A partition is {"file": NAME}, the name relative to input.directory')
    if offset is None:
        return
    if strange := sorted(set(offset) - {"position", "done", "size", "modified_ns"}):
        raise ConfigException(f"An offset has position, done, size and modified_ns, and no {strange[0]}")
    if not isinstance(offset.get("done", False), bool):
        raise ConfigException(f"The value for the 'done' key is true or false, not {offset['done']!r}")
    for name in ("position", "size", "modified_ns"):
        value = offset.get(name, 0 if name != "position" else None)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConfigException(f"The value for the '{name}' key in an offset is a whole number, not {value!r}")
