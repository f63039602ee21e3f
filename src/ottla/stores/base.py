"""The interface of a store that may hold a lake: the same few calls on every kind of store.

Names are relative to the lake, with slashes. The effect of a call is durable when it returns. Credentials
come from the store's own default chain in each process; they are never part of a URL, an option or a plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class LakeRefused(Exception):
    """The lake cannot go on by itself; the sentence says what to do."""


class LakeHeld(LakeRefused):
    """Another loader is at work on the lake; it may have ended another time."""


class StoreUnreachable(OSError):
    """The store did not answer, or answered with a passing fault, as often as the store's client tries."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of the store."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class FinishedFile:
    """A finished file, its final name, and its size in bytes by which the final file is recognised."""

    temporary: str
    final: str
    bytes: int


class StoreOutput(Protocol):
    """A file that is being written. It is not visible under its name before `finish`, nor ever after `abandon`."""

    sink: pa.NativeFile

    def finish(self) -> int:
        """Close the sink and make the file durable; returns its size in bytes."""

    def abandon(self) -> None:
        """Give the file up and free its space in the store; no error where that fails."""


class Hold(Protocol):
    """The right to be the one loader of a lake."""

    def check(self) -> None:
        """Wait while the right is in doubt; LakeRefused where it was lost, as to another loader that took over."""

    def release(self) -> None:
        """Let the next loader in."""


class Store(Protocol):
    """One lake's place. Errors of the store rise as OSError; `StoreUnreachable` is worth another try later."""

    url: str
    """The user's URL, made absolute; `open_store(url)` opens the same place on another machine."""

    def create(self, name: str, body: bytes) -> bool:
        """Create a whole file; False, and nothing changed, where one with another body exists.

        This is the fence between two loaders: of racing creators exactly one gets True. A creator whose answer was
        lost, and who finds its own body on the second try, has won too.
        """

    def replace(self, name: str, body: bytes) -> None:
        """Put a whole file, over an older one; a reader sees the old or the new body, never a part."""

    def read(self, name: str) -> bytes | None:
        """A whole file; None where there is none."""

    def entries(self, prefix: str, *, deep: bool = True) -> list[StoredFile]:
        """All files whose name begins with `prefix` (a folder, ending with a slash), sorted by name.

        Those of folders below it too, at any depth, unless `deep` is False.
        """

    def remove(self, names: Iterable[str]) -> None:
        """Delete files; no error where one is gone already."""

    def remove_folder(self, prefix: str) -> None:
        """Delete all files below a folder, and the unfinished uploads that the store keeps for it."""

    def reveal(self, moves: Sequence[FinishedFile]) -> None:
        """Give finished files their final names. May be repeated after a kill at any point.

        A temporary file that is gone is fine where its final file stands with the planned size; where that is
        missing too, LakeRefused names the removed file.
        """

    def open_output(self, name: str) -> StoreOutput:
        """Begin a new file."""

    def open_input(self, name: str) -> pa.NativeFile:
        """Open a file for reading at random; FileNotFoundError where there is none."""

    def hold(self, owner: str) -> Hold:
        """Become the lake's one loader; LakeRefused, naming the other's `owner`, where there is one."""
