"""Moves a single broker's cluster into ZooKeeper: the content of its own store goes on there.

stores.py calls this before it opens the store; coordination/zookeeper.py begins the log. At any moment one of the two
stores is the cluster's: a mark in the directory says that the other may be, until the own one is set aside.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import StoredSnapshot

PUT_AWAY = ".carried-over"
MARK = "carrying-over"
Begin = Callable[[StoredSnapshot, bytes], bool]
"""Begin the log of the other store with a snapshot; False if it holds another cluster."""


def carry_over(own: str, join: str, begin: Begin) -> None:
    """Continue the directory's store in the one that `join` names, and rename the old one."""
    from ottla.coordination.database import sync_directory
    from ottla.coordination.sqlite import FILE_NAME

    source, mark = os.path.join(own, FILE_NAME), os.path.join(own, MARK)
    if os.path.exists(source):
        snapshot = _whole_state(source)
        if snapshot.version and not begin(snapshot, _marked(mark)):
            os.unlink(mark)
            raise two_clusters(own, join)
        os.rename(source, source + PUT_AWAY)
        sync_directory(own)
    if os.path.exists(mark):
        os.unlink(mark)
        sync_directory(own)


def refuse_half_carried(own: str) -> None:
    """Refuse with OSError if the cluster may be in ZooKeeper already: begun here again, it would be two."""
    from ottla.coordination.sqlite import FILE_NAME

    if os.path.exists(os.path.join(own, MARK)) and os.path.exists(os.path.join(own, FILE_NAME)):
        raise OSError(
            f"the cluster in {own} was on its way into ZooKeeper: start once more with that --join. If nothing of it "
            f"is there, remove {os.path.join(own, MARK)}"
        )


@contextlib.contextmanager
def alone(own: str, broker: BrokerId, session_timeout_ms: int) -> Iterator[None]:
    """Refuse with OSError if other brokers run on the store in this directory."""
    from ottla.coordination.presence import Presence
    from ottla.coordination.sqlite import FILE_NAME

    if not os.path.exists(os.path.join(own, FILE_NAME)):
        yield
        return
    presence = Presence(os.path.join(own, "brokers"), broker, session_timeout_ms=session_timeout_ms)
    try:
        if presence.look() != {broker}:
            raise OSError(f"{own} is the store of brokers that run: let the others join it there (--join sqlite:{own})")
        yield
    finally:
        presence.close()


def two_clusters(own: str, other: str) -> OSError:
    return OSError(
        f"{own} holds a cluster of its own, and {other} is another: a directory belongs to one of them. "
        "Start without --join, or join with an empty data directory"
    )


def _whole_state(source: str) -> StoredSnapshot:
    """The content of the store, as of its last entry."""
    from ottla.coordination.database import Database, DatabaseFailure
    from ottla.metadata.entries import UnknownEntry
    from ottla.metadata.reading import take_entry, take_snapshot_of
    from ottla.metadata.snapshot import take_snapshot
    from ottla.metadata.state import Metadata

    database = Database(source, "DELETE")
    try:
        saved = database.load_snapshot()
        state = Metadata() if saved is None else take_snapshot_of(source, saved)
        while entries := database.read(state.version, 1000):
            for entry in entries:
                take_entry(state, entry, source)
    except (DatabaseFailure, UnknownEntry) as fault:
        raise OSError(f"{source} cannot be read: {fault}") from fault
    finally:
        database.close()
    return take_snapshot(state)


def _marked(path: str) -> bytes:
    """The value that tells this cluster from others; the same in each try."""
    from ottla.coordination.database import sync_directory

    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        if mark := file.read():
            return mark
    mark = os.urandom(16).hex().encode()
    with open(path, "wb") as file:
        file.write(mark)
        file.flush()
        os.fsync(file.fileno())
    sync_directory(os.path.dirname(path))
    return mark
