"""The URL of a lake: checked, made absolute, and cut into the parts that a store opens with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ottla.lake.stores.base import LakeRefused

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_AZURE_HOST = re.compile(r"(?P<container>[A-Za-z0-9$-]+)@(?P<account>[a-z0-9]{3,24})\.(dfs|blob)\.core\.windows\.net")

_SAME = {"s3a": "s3", "gcs": "gs", "azure": "az"}
"""Names that other tools give to the same store."""

OBJECTS = ("s3", "gs", "az", "abfs", "abfss")
KNOWN = "a local path, file://, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or hdfs://host:port/path"


@dataclass(frozen=True, slots=True)
class Place:
    """A lake's URL in parts; `account` only where the URL of an Azure container names it."""

    scheme: str
    bucket: str
    """Bucket, container, or host and port."""
    path: str
    """Without a slash at either end."""
    account: str = ""


def lake_url(to: str | Path) -> str:
    """The lake's place as a URL; a path becomes an absolute `file://` one. LakeRefused where nothing can lie there."""
    text = str(to)
    if not _SCHEME.match(text):
        if text.startswith("file:"):
            raise LakeRefused(f"'{text}' is not a URL: write file:///absolute/path, or the path alone")
        return _plain(Path(text)).as_uri()
    scheme, _, rest = text.partition("://")
    scheme = _SAME.get(scheme.lower(), scheme.lower())
    if scheme == "file":
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost") or parts.query or parts.fragment or not parts.path:
            raise LakeRefused(f"'{text}' does not name a local directory: write file:///absolute/path")
        return _plain(Path(unquote(parts.path))).as_uri()
    if scheme not in (*OBJECTS, "hdfs"):
        raise LakeRefused(f"a lake cannot lie on {scheme}://; give {KNOWN}")
    url = f"{scheme}://{rest.rstrip('/')}"
    place_of(url)
    return url


def _plain(path: Path) -> Path:
    """The absolute path. One with `..` is resolved: libraries take that for the folder before, also behind a link."""
    return path.resolve() if ".." in path.parts else path.absolute()


def local_path(url: str) -> Path:
    """The directory that a `file://` URL names."""
    return Path(unquote(urlsplit(url).path))


def place_of(url: str) -> Place:
    """The parts of a URL of an object store or of HDFS; LakeRefused for one that names no place in it."""
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    named = _AZURE_HOST.fullmatch(authority) if scheme in ("abfs", "abfss") else None
    if "@" in authority and not named:
        raise LakeRefused(
            f"a lake's URL holds no user and no password ({scheme}://…@…): they come from the environment or the "
            "profile of each machine"
        )
    if "?" in rest or "#" in rest:
        raise LakeRefused(f"a lake's URL holds no query: give {scheme}:// with a place alone, without '?' and '#'")
    if path and any(part in ("", ".", "..") for part in path.split("/")):
        raise LakeRefused(f"'{url}' has an empty part, '.' or '..' in its path")
    if named:
        return Place(scheme, named["container"], path, named["account"])
    if scheme == "hdfs":
        if not _HOST.fullmatch(authority) or not path:
            raise LakeRefused(f"'{url}' does not name a folder of HDFS: write hdfs://host:port/path")
    elif not _BUCKET.fullmatch(authority):
        raise LakeRefused(f"'{url}' does not name a bucket: write {scheme}://bucket/prefix")
    return Place(scheme, authority, path)
