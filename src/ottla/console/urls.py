"""Addresses within the console. Names go as parameters, so that they may hold any sign. Pure."""

from __future__ import annotations

from urllib.parse import urlencode


def url(page: str, /, **parameters: object) -> str:
    """The address of a page; parameters that are None or empty are left out."""
    given = {name.rstrip("_"): value for name, value in parameters.items() if value is not None and value != ""}
    return f"/{page}" + (f"?{urlencode(given)}" if given else "")
