"""The stores that a lake may lie on: `open_store("s3://bucket/prefix")`."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ottla.lake.stores.base import Entry, Hold, LakeRefused, Move, Output, Store, StoreUnreachable

__all__ = ["Entry", "Hold", "LakeRefused", "Move", "Output", "Store", "StoreUnreachable", "lake_url", "open_store"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def lake_url(to: str | Path) -> str:
    """The lake's place as a URL; a path becomes an absolute `file://` one. LakeRefused for a scheme nobody knows."""
    text = str(to)
    if not _SCHEME.match(text):
        if text.startswith("file:"):
            raise LakeRefused(f"'{text}' is not a URL: write file:///absolute/path, or the path alone")
        return Path(text).absolute().as_uri()
    scheme = text.partition("://")[0].lower()
    if scheme == "file":
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost") or parts.query or parts.fragment or not parts.path:
            raise LakeRefused(f"'{text}' does not name a local directory: write file:///absolute/path")
        return Path(unquote(parts.path)).as_uri()
    raise LakeRefused(f"a lake cannot lie on {scheme}:// yet; give a local path or a file:// URL")


def local_path(url: str) -> Path:
    """The directory that a `file://` URL names."""
    return Path(unquote(urlsplit(url).path))


def open_store(url: str) -> Store:
    """Open the place that `lake_url` named, in this process."""
    from ottla.lake.stores.local import LocalStore

    return LocalStore(local_path(url))
