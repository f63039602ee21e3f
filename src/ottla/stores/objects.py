"""A lake in a bucket of S3, GCS or Azure, through obstore: create-only puts are the fence, copies reveal.

An object store knows no rename. A finished file lies under a temporary key below `_ottla/`, where readers of the lake
do not look; `reveal` copies it on the server to its final key and deletes the temporary one. An upload that a killed
process left open is invisible, but its parts are paid for: neither obstore nor this module can list them, so give the
bucket a lifecycle rule that aborts incomplete multipart uploads after a day.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from ottla.stores.base import FinishedFile, LakeRefused, StoredFile, StoreUnreachable
from ottla.stores.lease import Claim, LoaderLease, SeenClaim, lease_seconds, take
from ottla.stores.object_client import Patience, asked, open_client
from ottla.stores.ranges import TAIL_BYTES, RangeFile
from ottla.stores.uploads import ObjectOutput
from ottla.stores.urls import LakeUrlParts

if TYPE_CHECKING:
    from obstore import GetOptions, UpdateVersion

LEASE = "_ottla/lease"
SIDE_BY_SIDE = 16
"""The number of moves that run at the same time."""
_CREATE_TRIES = 5


class ObjectStore:
    """A bucket and a prefix in it."""

    def __init__(
        self, place: LakeUrlParts, patience: Patience | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        """`settings` go before the environment's: endpoint, region, access_key_id, secret_access_key of S3."""
        self._place = place
        self._client = open_client(place, patience or Patience(), settings or {})
        authority = f"{place.bucket}@{place.account}.dfs.core.windows.net" if place.account else place.bucket
        self.url = f"{place.scheme}://{authority}" + (f"/{place.path}" if place.path else "")

    def create(self, name: str, body: bytes) -> bool:
        """A create-only put; if its outcome is in doubt, the body that is there decides.

        Doubt: the answer was lost, the client repeated the put and met its own first try (412), or two conditional
        puts raced and the store settled neither (409).
        """
        lost: StoreUnreachable | None = None
        for _ in range(_CREATE_TRIES):
            try:
                self._put(name, body, "create")
            except StoreUnreachable as fault:
                lost = fault
            except FileExistsError:
                pass
            else:
                return True
            found = self.read(name)
            if found is not None:
                return found == body
        raise lost or StoreUnreachable(f"creating {name}: the store says that it exists, and that it does not")

    def replace(self, name: str, body: bytes) -> None:
        self._put(name, body, "overwrite")

    def _put(self, name: str, body: bytes, mode: Any) -> dict[str, Any]:
        with asked(f"writing {self.url}/{name}"):
            try:
                return dict(obstore.put(self._client, self._key(name), body, mode=mode, use_multipart=False))
            except (AlreadyExistsError, PreconditionError):
                raise FileExistsError(f"{self.url}/{name} exists") from None

    def read(self, name: str) -> bytes | None:
        try:
            with asked(f"reading {self.url}/{name}"):
                return bytes(obstore.get(self._client, self._key(name)).bytes())
        except FileNotFoundError:
            return None

    def entries(self, prefix: str, *, deep: bool = True) -> list[StoredFile]:
        folder = self._key(prefix).rstrip("/") or None
        cut = len(self._key(""))
        found = []
        with asked(f"listing {self.url}/{prefix}"):
            one = None if deep else [obstore.list_with_delimiter(self._client, folder)["objects"]]
            for page in one or obstore.list(self._client, folder):
                for meta in page:
                    name = meta["path"][cut:]
                    if name.startswith(prefix):
                        found.append(StoredFile(name, meta["size"]))
        return sorted(found, key=lambda entry: entry.name)

    def remove(self, names: Iterable[str]) -> None:
        keys = [self._key(name) for name in names]
        if not keys:
            return
        with asked(f"deleting from {self.url}"):
            try:
                obstore.delete(self._client, keys)
            except FileNotFoundError:  # GCS and Azure say so, and leave the others
                for key in keys:
                    with contextlib.suppress(FileNotFoundError):
                        obstore.delete(self._client, key)

    def remove_folder(self, prefix: str) -> None:
        """Leave open uploads to the bucket's lifecycle rule; see the module's docstring."""
        self.remove([entry.name for entry in self.entries(prefix)])

    def reveal(self, moves: Sequence[FinishedFile]) -> None:
        _side_by_side(self._copy_move, moves)
        self.remove([move.temporary for move in moves])

    def _copy_move(self, move: FinishedFile) -> None:
        size = self._size(move.temporary)
        if size is None:
            if self._size(move.final) != move.bytes:
                raise LakeRefused(
                    f"{self.url}/{move.final} is missing or has another size, and {move.temporary} is gone: "
                    "somebody removed them"
                )
            return
        if size != move.bytes:
            raise LakeRefused(f"{self.url}/{move.temporary} has {size} bytes, planned were {move.bytes}")
        with asked(f"copying {move.temporary} to {self.url}/{move.final}"):
            obstore.copy(self._client, self._key(move.temporary), self._key(move.final))

    def _size(self, name: str) -> int | None:
        try:
            with asked(f"looking for {self.url}/{name}"):
                return obstore.head(self._client, self._key(name))["size"]
        except FileNotFoundError:
            return None

    def open_output(self, name: str) -> ObjectOutput:
        return ObjectOutput(self._client, self._key(name))

    def open_input(self, name: str) -> pa.NativeFile:
        """The size comes with the file's end; later ranges are refused where the object has been replaced."""
        key, client = self._key(name), self._client
        with asked(f"opening {self.url}/{name}"):
            size, e_tag, tail = self._end_of(key)

        def fetch(start: int, end: int) -> memoryview:
            options: GetOptions = {"range": (start, end)}
            if e_tag is not None:
                options["if_match"] = e_tag
            with asked(f"reading {self.url}/{name}"):
                return memoryview(obstore.get(client, key, options=options).bytes())

        return RangeFile(size, fetch, tail).opened()

    def _end_of(self, key: str) -> tuple[int, str | None, bytes]:
        """An object's size, version and last bytes: in one request where the store counts ranges from the end."""
        if self._place.scheme in ("s3", "gs"):
            with contextlib.suppress(BaseError):  # an empty object has no last bytes
                found = obstore.get(self._client, key, options={"range": {"suffix": TAIL_BYTES}})
                return found.meta["size"], found.meta["e_tag"], bytes(found.bytes())
        meta = obstore.head(self._client, key)
        start = max(0, meta["size"] - TAIL_BYTES)
        tail = obstore.get_range(self._client, key, start=start, end=meta["size"]) if meta["size"] else b""
        return meta["size"], meta["e_tag"], bytes(tail)

    def hold(self, owner: str) -> LoaderLease:
        seconds = lease_seconds()
        cell = _ObjectCell(ObjectStore(self._place, Patience.for_lease(seconds)))
        return take(cell, owner, self.url, seconds)

    def _key(self, name: str) -> str:
        return f"{self._place.path}/{name}" if self._place.path else name


def _side_by_side(work: Callable[[FinishedFile], None], moves: Sequence[FinishedFile]) -> None:
    """Do all the work; the first error rises when every thread has ended."""
    with ThreadPoolExecutor(SIDE_BY_SIDE, "ottla-lake-move") as pool:
        running = [pool.submit(work, move) for move in moves]
    for done in running:
        done.result()


class _ObjectCell:
    """A lease as one object. A release leaves a free claim there: to delete it could delete the next holder's."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def look(self) -> SeenClaim | None:
        try:
            with asked(f"reading the lease of {self._store.url}"):
                found = obstore.get(self._store._client, self._store._key(LEASE))
                body = json.loads(bytes(found.bytes()))
        except FileNotFoundError:
            return None
        claim = Claim(body["owner"], body["token"], body["count"], body["seconds"])
        return SeenClaim(claim, _version(found.meta.get("e_tag"), found.meta.get("version")))

    def swap(self, seen: SeenClaim | None, claim: Claim) -> tuple[str, ...] | None:
        mode: str | UpdateVersion = "create"
        if seen is not None:
            named = zip(("e_tag", "version"), seen.version, strict=True)
            mode = {name: value for name, value in named if value}  # type: ignore[assignment]
        fields = {"owner": claim.owner, "token": claim.token, "count": claim.count, "seconds": claim.seconds}
        try:
            put = self._store._put(LEASE, json.dumps(fields).encode(), mode)
        except (FileExistsError, FileNotFoundError):
            return None
        return _version(put["e_tag"], put["version"])


def _version(e_tag: str | None, version: str | None) -> tuple[str, ...]:
    return (e_tag or "", version or "")
