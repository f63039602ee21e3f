"""The URL of a lake: checked, made absolute, and cut into the parts that a store opens with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ottla.stores.base import LakeRefused

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HALF = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
"""The beginning of a URL, and of a local name whose first part has a colon; below, one without its colon."""
_NO_COLON = re.compile(r"(s3a?|gs|gcs|az|azure|abfss?|hdfs|file)//", re.IGNORECASE)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_AZURE_HOST = re.compile(r"(?P<container>[A-Za-z0-9$-]+)@(?P<account>[a-z0-9]{3,24})\.(dfs|blob)\.core\.windows\.net")

_SAME = {"s3a": "s3", "gcs": "gs", "azure": "az"}
"""Names that other tools give to the same store."""

_CATALOGS = ("postgresql", "postgres", "http", "https")
OBJECTS = ("s3", "gs", "az", "abfs", "abfss")
KNOWN = "a local path, file://, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or hdfs://host:port/path"


@dataclass(frozen=True, slots=True)
class LakeUrlParts:
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
        return _plain(local_of(text, "a lake")).as_uri()
    scheme, _, rest = text.partition("://")
    scheme = _SAME.get(scheme.lower(), scheme.lower())
    if scheme == "file":
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost") or parts.query or parts.fragment or not parts.path:
            raise LakeRefused(f"'{text}' does not name a local directory: write file:///absolute/path")
        return _plain(Path(unquote(parts.path))).as_uri()
    if scheme not in (*OBJECTS, "hdfs"):
        raise LakeRefused(f"a lake cannot lie on {scheme}://{_nearest(scheme)}; give {KNOWN}")
    url = f"{scheme}://{rest.rstrip('/')}"
    place_of(url)
    return url


def local_of(text: str, what: str) -> Path:
    """The local path that a text without `://` names; LakeRefused for half of a URL, and for no path at all."""
    if not text.strip():
        raise LakeRefused(f"the place of {what} is empty: give a path or a URL")
    if text.strip() != text and _SCHEME.match(text.strip()):
        raise LakeRefused(f"'{text}' begins or ends with a space: write {text.strip()}")
    if text.startswith("~"):
        raise LakeRefused(
            f"'{text}' begins with ~, which only a shell replaces: write the home directory out, or ./{text} for a "
            "directory of that name"
        )
    half = _HALF.match(text) or _NO_COLON.match(text)
    if half is None:
        return Path(text)
    scheme = half[1].lower()
    if scheme == "file":
        raise LakeRefused(f"'{text}' is not a URL: write file:///absolute/path, or the path alone")
    local = f"for a local directory of that name write ./{text}, or its absolute path"
    name = _SAME.get(scheme, scheme)
    if name in (*OBJECTS, "hdfs"):
        whole = f"{scheme}://{'host:port/path' if name == 'hdfs' else 'bucket/prefix'}"
        raise LakeRefused(f"'{text}' is half a URL: write {whole}; {local}")
    raise LakeRefused(f"'{text}' begins like a URL, but {scheme}: is not known{_nearest(scheme)}; {local}")


def _nearest(scheme: str) -> str:
    known, cutoff = ["file", *OBJECTS, *_SAME, "hdfs"], 0.5 if len(scheme) < 4 else 0.6
    near = get_close_matches(scheme, known, n=1, cutoff=cutoff)
    return f" (did you mean {near[0]}://?)" if near else ""


def catalog_url(text: str) -> str:
    """The URL of an Iceberg catalog; a SQLite file by its absolute path. LakeRefused for another kind or half of one.

    A relative path would be another, empty catalog from the next directory.
    """
    scheme, _, rest = text.partition("://")
    kind = scheme.lower().partition("+")[0]
    if _SCHEME.match(text) and kind == "sqlite":
        path, _, query = rest.removeprefix("/").partition("?")
        if not rest.startswith("/") or path in ("", ":memory:", "/"):
            raise LakeRefused(
                f"--catalog {text} does not name a file: write sqlite:///catalog.db, or sqlite:////absolute/catalog.db"
            )
        absolute = str(Path(path).absolute())
        return f"{scheme}:///{absolute}" + (f"?{query}" if query else "")
    if _SCHEME.match(text) and kind in _CATALOGS and rest.strip("/"):
        return text
    near = get_close_matches(kind.partition(":")[0], ["sqlite", *_CATALOGS], n=1)
    hint = f" (did you mean {near[0]}://?)" if near and near[0] != kind else ""
    raise LakeRefused(
        f"--catalog {text} is not a catalog's URL{hint}: give sqlite:///catalog.db, postgresql://… or http(s)://…"
    )


def _plain(path: Path) -> Path:
    """The absolute path. One with `..` is resolved: libraries take that for the folder before, also behind a link."""
    return path.resolve() if ".." in path.parts else path.absolute()


def local_path(url: str) -> Path:
    """The directory that a `file://` URL names."""
    return Path(unquote(urlsplit(url).path))


def place_of(url: str) -> LakeUrlParts:
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
        return LakeUrlParts(scheme, named["container"], path, named["account"])
    if scheme == "hdfs":
        if not _HOST.fullmatch(authority) or not path:
            raise LakeRefused(f"'{url}' does not name a folder of HDFS: write hdfs://host:port/path")
    elif not _BUCKET.fullmatch(authority):
        raise LakeRefused(f"'{url}' does not name a bucket: write {scheme}://bucket/prefix")
    return LakeUrlParts(scheme, authority, path)
