"""Writing one object: a small one by a single put, a larger one in pieces that leave as they fill.

At most `PIECES_IN_FLIGHT` + 3 pieces are in memory: those in flight, one in the client's buffer, one handed over and
one that is being filled; 8 MiB each, so 48 MiB for a file of any size.
"""

from __future__ import annotations

import threading
import uuid
import weakref
from collections.abc import Callable, Iterator

import obstore
import pyarrow as pa

from ottla.stores.base import LakeRefused
from ottla.stores.object_client import Client, asked

PIECE_BYTES = 8 * 1024 * 1024
PIECES_IN_FLIGHT = 3
MARK = "ottlawrite"
"""The attribute by which a writer recognizes its own object after a lost answer."""


class _Abandoned(Exception):
    """Raised into obstore's upload, which then aborts it."""


class ObjectOutput:
    """An object that is not visible before `finish`: closing the sink alone does not complete the upload."""

    def __init__(self, client: Client, key: str) -> None:
        self._client = client
        self._key = key
        self._mark = mark = uuid.uuid4().hex
        self._pieces = _Pieces(lambda: _Upload(client, key, mark))
        self.sink = pa.PythonFile(self._pieces, mode="w")
        # A thread inside obstore must not outlive the interpreter; and an output may be forgotten.
        weakref.finalize(self, self._pieces.give_up)

    def finish(self) -> int:
        self.sink.close()
        try:
            upload = self._pieces.upload
            if upload is None:
                with asked(f"writing {self._key}"):
                    obstore.put(
                        self._client, self._key, bytes(self._pieces.piece), attributes={MARK: self._mark},
                        use_multipart=False,
                    )  # fmt: skip
            else:
                upload.offer(self._pieces.piece)
                upload.end()
        except OSError:
            if not self._stands():
                raise
        return self._pieces.bytes

    def abandon(self) -> None:
        self._pieces.close()
        self._pieces.give_up()

    def _stands(self) -> bool:
        """True if the object of this very writer is there: the last answer was lost, or the repeat was refused."""
        try:
            with asked(f"looking for {self._key}"):
                found = obstore.get(self._client, self._key, options={"head": True})
                return found.attributes.get(MARK) == self._mark and found.meta["size"] == self._pieces.bytes
        except (OSError, LakeRefused):
            return False


class _Pieces:
    """The Python file under the sink: fills one piece after the other."""

    def __init__(self, begin: Callable[[], _Upload]) -> None:
        self._begin = begin
        self.upload: _Upload | None = None
        self.piece = bytearray()
        self.bytes = 0
        self.closed = False

    def write(self, data: object) -> int:
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        for at in range(0, len(view), PIECE_BYTES):
            self._take(view[at : at + PIECE_BYTES])
        self.bytes += len(view)
        return len(view)

    def _take(self, view: memoryview) -> None:
        room = PIECE_BYTES - len(self.piece)
        self.piece += view[:room]
        if len(self.piece) == PIECE_BYTES:
            if self.upload is None:
                self.upload = self._begin()
            self.upload.offer(self.piece)
            self.piece = bytearray(view[room:])

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        """Do nothing: a piece is sent when it is full."""

    def close(self) -> None:
        self.closed = True

    def give_up(self) -> None:
        if self.upload is not None:
            self.upload.abandon()

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


class _Upload:
    """A multipart upload in a thread of its own, fed piece by piece. It is aborted where it does not end well."""

    def __init__(self, client: Client, key: str, mark: str) -> None:
        self._client = client
        self._key = key
        self._mark = mark
        self._changed = threading.Condition()
        self._offered: bytearray | None = None
        self._all_offered = False
        self._given_up = False
        self._over = False
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="ottla-lake-upload", daemon=True)
        self._thread.start()

    def offer(self, piece: bytearray) -> None:
        """Hand over a piece; waits while the one before it has not been taken."""
        if not piece:
            return
        with self._changed:
            self._changed.wait_for(lambda: self._offered is None or self._over)
            self._refuse_failed()
            self._offered = piece
            self._changed.notify_all()

    def end(self) -> None:
        """Complete the upload."""
        with self._changed:
            self._all_offered = True
            self._changed.notify_all()
        self._thread.join()
        self._refuse_failed()

    def abandon(self) -> None:
        """Abort the upload; returns when the store has answered, or has not."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()
        self._thread.join()

    def _refuse_failed(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        try:
            with asked(f"uploading {self._key}"):
                obstore.put(
                    self._client, self._key, self._taken(), attributes={MARK: self._mark}, use_multipart=True,
                    chunk_size=PIECE_BYTES, max_concurrency=PIECES_IN_FLIGHT,
                )  # fmt: skip
        except _Abandoned:
            self._fault = OSError(f"the upload of {self._key} was given up")
        except (OSError, LakeRefused) as fault:
            self._fault = fault
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _taken(self) -> Iterator[bytearray]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._offered is not None or self._all_offered or self._given_up)
                if self._given_up:
                    raise _Abandoned
                piece, self._offered = self._offered, None
                if piece is None:
                    return
                self._changed.notify_all()
            yield piece
