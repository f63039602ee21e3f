"""The claim check: big content lies in a store, a topic has the reference. `redeem` gives the content back.

A store is a directory, or what obstore opens: s3://, gs://, az://. Content lies under its SHA-256, so the same content
lies there once, and a reader knows that it got what was meant.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from ottla.connect.errors import ConfigException, ConnectException, RetriableException

_KEY: Final = re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}")


class ClaimStore(Protocol):
    """Holds content by keys."""

    def put(self, key: str, content: bytes) -> None:
        """Hold content for good once this returns; `RetriableException` where it may succeed later."""

    def get(self, key: str) -> bytes:
        """The content; KeyError if there is none."""


def open_store(url: str) -> ClaimStore:
    """The store of a path or a URL; `ConfigException` for one that cannot be used."""
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        if parts.netloc:
            raise ConfigException(f"the claim store {url!r} names a host: write a path, or file:///PATH")
        return _Directory(Path(unquote(parts.path) if parts.scheme else url))
    try:
        from obstore.store import from_url
    except ModuleNotFoundError:
        raise ConfigException(f"the claim store {url!r} needs obstore: pip install 'ottla[lake]'") from None
    try:
        return Objects(from_url(url))
    except Exception as fault:
        raise ConfigException(f"the claim store {url!r} cannot be used: {fault}") from None


def check_in(store: ClaimStore, content: bytes) -> dict[str, Any]:
    """Put content into a store; the reference for a topic."""
    digest = hashlib.sha256(content).hexdigest()
    key = f"{digest[:2]}/{digest}"
    store.put(key, content)
    return {"claim": key, "bytes": len(content)}


def redeem(reference: Mapping[str, Any], store: ClaimStore | str) -> bytes:
    """The content of a reference. The reader names the store: a reference leads nowhere else.

    ConnectException if it is not there, or is another content than the one that was checked in.
    """
    key = reference.get("claim")
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ConnectException(f"{key!r} is no claim: a reference has the members claim and bytes")
    try:
        content = (open_store(store) if isinstance(store, str) else store).get(key)
    except KeyError:
        raise ConnectException(
            f"the claim {key} is not in the store: is it the one that the source writes to?"
        ) from None
    if hashlib.sha256(content).hexdigest() != key[3:]:
        raise ConnectException(f"the content of the claim {key} was changed since it was checked in")
    return content


class _Directory:
    """A directory; a file has its name once all of it is on the disk."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, key: str, content: bytes) -> None:
        path = self._path / key
        try:
            if path.exists() and path.stat().st_size == len(content):
                return
            is_new = not path.parent.exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
            with beside.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.rename(path)
            for folder in (path.parent, self._path) if is_new else (path.parent,):
                _sync(folder)
        except OSError as fault:
            raise RetriableException(f"the claim store {self._path} cannot be written: {fault}") from fault

    def get(self, key: str) -> bytes:
        try:
            return (self._path / key).read_bytes()
        except FileNotFoundError:
            raise KeyError(key) from None


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Objects:
    """A store of obstore's."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def put(self, key: str, content: bytes) -> None:
        import obstore

        try:
            obstore.put(self._store, key, content)
        except Exception as fault:  # obstore's own classes differ by store; all may pass
            raise RetriableException(f"the claim store cannot be written: {fault}") from fault

    def get(self, key: str) -> bytes:
        import obstore

        try:
            return bytes(obstore.get(self._store, key).bytes())
        except FileNotFoundError:
            raise KeyError(key) from None
