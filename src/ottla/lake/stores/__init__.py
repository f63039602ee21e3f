"""The stores that a lake may lie on: `open_store("s3://bucket/prefix")`."""

from __future__ import annotations

from ottla.lake.stores.base import (
    FinishedFile,
    Hold,
    LakeHeld,
    LakeRefused,
    Store,
    StoredFile,
    StoreOutput,
    StoreUnreachable,
)
from ottla.lake.stores.urls import OBJECTS, catalog_url, lake_url, local_path, place_of

__all__ = [
    "FinishedFile",
    "Hold",
    "LakeHeld",
    "LakeRefused",
    "Store",
    "StoreOutput",
    "StoreUnreachable",
    "StoredFile",
    "catalog_url",
    "lake_url",
    "local_path",
    "open_store",
]


def open_store(url: str) -> Store:
    """Open the place that `lake_url` named, in this process; LakeRefused where its library is not installed."""
    scheme = url.partition("://")[0]
    try:
        if scheme in OBJECTS:
            from ottla.lake.stores.objects import ObjectStore

            return ObjectStore(place_of(url))
        if scheme == "hdfs":
            from ottla.lake.stores.hdfs import HdfsStore

            return HdfsStore(place_of(url))
    except ModuleNotFoundError as missing:
        raise LakeRefused(f"a lake on {scheme}:// needs {missing.name}: pip install 'ottla[lake]'") from None
    from ottla.lake.stores.local import LocalStore

    return LocalStore(local_path(url))
