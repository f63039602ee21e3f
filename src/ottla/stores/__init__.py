"""Folders on local disks, object stores and HDFS by the same few calls: `open_store("s3://bucket/prefix")`."""

from __future__ import annotations

from ottla.stores.base import (
    FinishedFile,
    Hold,
    LakeHeld,
    LakeRefused,
    Store,
    StoredFile,
    StoreOutput,
    StoreUnreachable,
)
from ottla.stores.urls import OBJECTS, catalog_url, lake_url, local_path, place_of

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
            from ottla.stores.objects import ObjectStore

            return ObjectStore(place_of(url))
        if scheme == "hdfs":
            from ottla.stores.hdfs import HdfsStore

            return HdfsStore(place_of(url))
    except ModuleNotFoundError as missing:
        raise LakeRefused(f"a lake on {scheme}:// needs {missing.name}: pip install 'ottla[lake]'") from None
    from ottla.stores.local import LocalStore

    return LocalStore(local_path(url))
