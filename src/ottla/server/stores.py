"""The store in which a broker keeps the metadata log: its own directory's, or one that `--join` names.

broker_server.py comes here at the start; the engines are in coordination/.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ottla.broker.replicas.log_directories import METADATA_DIRECTORY
from ottla.coordination.zookeeper_address import SCHEME, parse_zookeeper_address
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Coordination, StoredSnapshot
from ottla.server.store_carried import alone, carry_over, refuse_half_carried, two_clusters
from ottla.tls.settings import TlsSettings

SQLITE = "sqlite:"
Soon = Callable[[Callable[[], None]], object]


def check_join(join: str) -> None:
    """Check the text of `--join`; ValueError, with a sentence, if nothing can be joined by it."""
    if join.startswith(SCHEME):
        parse_zookeeper_address(join)
    elif not join.startswith(SQLITE) or not join.removeprefix(SQLITE):
        raise ValueError(f"--join wants sqlite:PATH or {SCHEME}HOST:PORT,.../CHROOT, not {join!r}")


def open_store(
    join: str | None,
    own: str,
    broker: BrokerId,
    call_soon_threadsafe: Soon,
    *,
    session_timeout_ms: int,
    digest: str | None = None,
    tls: TlsSettings | None = None,
) -> Coordination:
    """The store to use; `own` is its place for a broker that joins no other. OSError if it cannot be opened.

    `digest` is USER:PASSWORD for ZooKeeper, `tls` is for ZooKeeper too.
    """
    if join is not None and join.startswith(SCHEME):
        address = parse_zookeeper_address(join)
        try:
            from ottla.coordination.zookeeper import ZookeeperCoordination, bring
        except ImportError:
            raise OSError("joining through ZooKeeper needs kazoo: pip install 'ottla[zookeeper]'") from None
        user, _, password = (digest or "").partition(":")
        hosts, known_as = ",".join(address.hosts), (user, password) if digest else None

        def begin(snapshot: StoredSnapshot, mark: bytes) -> bool:
            timeout_ms = session_timeout_ms
            return bring(hosts, address.chroot, snapshot, mark, session_timeout_ms=timeout_ms, digest=known_as, tls=tls)

        with alone(own, broker, session_timeout_ms):
            carry_over(own, join, begin)
        return ZookeeperCoordination(
            hosts,
            broker,
            call_soon_threadsafe,
            session_timeout_ms=session_timeout_ms,
            chroot=address.chroot,
            digest=known_as,
            tls=tls,
        )
    from ottla.coordination.sqlite import SqliteCoordination

    refuse_half_carried(own)
    directory = own if join is None else shared_directory(join.removeprefix(SQLITE))
    if not _same(directory, own):
        _bring(own, directory, broker, session_timeout_ms)
    return SqliteCoordination(directory, broker, call_soon_threadsafe, session_timeout_ms=session_timeout_ms)


def store_directory(join: str | None, own: str) -> str | None:
    """The directory of the store; None if it is not on this machine's disks."""
    if join is None:
        return own
    return None if join.startswith(SCHEME) else shared_directory(join.removeprefix(SQLITE))


def shared_directory(path: str) -> str:
    """The store's directory: PATH itself, that of the file PATH, or the one inside the data directory PATH."""
    from ottla.coordination.sqlite import FILE_NAME

    path = os.path.abspath(path)
    if os.path.basename(path) == FILE_NAME:
        return os.path.dirname(path)
    inside = os.path.join(path, METADATA_DIRECTORY)
    return inside if os.path.exists(os.path.join(inside, FILE_NAME)) else path


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _bring(own: str, shared: str, broker: BrokerId, session_timeout_ms: int) -> None:
    """Move the store of a single broker, with its cluster, to the place where other brokers will find it.

    By one rename, so that there is one store at any moment. No other broker may use it.
    """
    from ottla.coordination.database import Database, sync_directory
    from ottla.coordination.sqlite import FILE_NAME

    source, target = os.path.join(own, FILE_NAME), os.path.join(shared, FILE_NAME)
    if not os.path.exists(source):
        return
    if os.path.exists(target):
        raise two_clusters(own, shared)
    with alone(own, broker, session_timeout_ms):
        os.makedirs(shared, exist_ok=True)
        database = Database(source, "DELETE")  # applies the journal that a crash left, and deletes it
        database.head()
        database.close()
        os.rename(source, target)
        for directory in (shared, own):
            sync_directory(directory)
