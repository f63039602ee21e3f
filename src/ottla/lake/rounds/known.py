"""Options that a standing lake knows already: a load takes those that it does not give, and may not contradict some.

The lake's shape is for good (`lake.json`). Other options hold until a load gives another value (`options.json`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from ottla.jobs.options import KeptFor
from ottla.lake.columns.shape import PLACEHOLDER, LakeShape
from ottla.lake.notes.state import LakeRecords
from ottla.lake.options import BY_NAME, OPTIONS, LoadOptions, checked
from ottla.stores import LakeRefused, catalog_url, lake_url, open_store

_PASSWORD = re.compile(r"(?<=//)([^:/@\s]*):[^@/\s]*@")
_INSTEAD = {"registry": ("schema", "message"), "schema": ("registry",)}
"""Options that take the place of others."""


def continued(
    given: LoadOptions, shape: LakeShape | None, noted: Mapping[str, object], url: str, *, empty: bool = False
) -> LoadOptions:
    """The options of a load: given ones, else those that the lake knows. LakeRefused where a given one contradicts.

    In an empty lake, after a first load that was refused, given ones replace all others.
    """
    if shape is None:
        return given
    known = known_options(shape)
    for name, value in _asked(given, shape):
        if value != known[name] and not empty:
            raise LakeRefused(
                f"the lake at {url} was made {wording(name, known[name])}; this load comes {wording(name, value)}, and "
                "files of both could not be read as one. Leave the option out to go on as before, or give another --to"
            )
    replaced = {other for name in given for other in _INSTEAD.get(name, ())}
    shaped = {name: value for name, value in known.items() if _is_said(name, value)}
    kept = {name: value for name, value in read_notes(noted).items() if name not in replaced}
    if not empty:
        return cast("LoadOptions", {**kept, **given, **shaped})
    if given.get("json") is not None:
        shaped.pop("values", None)
    if given.get("format", "iceberg") != "iceberg":
        shaped.pop("catalog", None)
    return cast("LoadOptions", {**kept, **shaped, **given})


def known_options(shape: LakeShape) -> dict[str, object]:
    """The options that make this shape."""
    return {
        "format": shape.format,
        "values": _kind(shape.values),
        "partition_by": ",".join(shape.layout.partition_by) or "none",
        "time_zone": shape.layout.time_zone,
        "event_time": shape.layout.event_time,
        "catalog": _absolute(shape.catalog),
        "namespace": shape.namespace,
        "key": ",".join(shape.key),
        "debezium": shape.debezium,
        "debezium_unavailable": "" if shape.unavailable == PLACEHOLDER else shape.unavailable,
        "flatten": bool(shape.flatten),
        "flatten_separator": shape.flatten or "_",
        "where": shape.where,
    }


def wording(name: str, value: object) -> str:
    """`with --event-time at`, `without --flatten`."""
    option = BY_NAME[name]
    if name == "read_committed":
        return f"{'without' if value else 'with'} --read-uncommitted"
    if not _is_said(name, value):
        return f"without {option.spelt}"
    shown = "" if value is True else " " + _PASSWORD.sub(r"\1:…@", str(value))
    return f"with {option.spelt}{shown}"


def to_note(options: LoadOptions) -> dict[str, object]:
    """The options that the lake keeps until a load gives others."""
    return {
        option.name: list(value) if isinstance(value, tuple) else value
        for option in OPTIONS
        if option.kept is KeptFor.LATEST and (value := options.get(option.name, option.default)) != option.default
    }


def noted_bootstrap(to: str | Path) -> str | None:
    """The brokers of the load at work, which has noted its options already, or of the loads before; None of a new lake.

    A lake of an earlier version may have noted none: then they are the default ones.
    """
    records = LakeRecords(open_store(lake_url(to)))
    found = records.noted().get("bootstrap")
    return str(found) if found else None if records.shape() is None else str(BY_NAME["bootstrap"].default)


def read_notes(noted: Mapping[str, object]) -> Mapping[str, object]:
    """The kept options; those that this version does not know are refused by `checked`'s words."""
    try:
        return cast("Mapping[str, object]", checked(noted))
    except TypeError as fault:
        raise LakeRefused(f"options.json of the lake cannot be read by this version of ottla: {fault}") from fault


def changes(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """A line for each kept option whose value is another from now on."""
    names = [option.name for option in OPTIONS if before.get(option.name) != after.get(option.name)]
    return [
        f"from now on loads go {wording(name, after.get(name, BY_NAME[name].default))}, until now "
        f"{wording(name, before.get(name, BY_NAME[name].default))}"
        for name in names
    ]


def _asked(given: LoadOptions, shape: LakeShape) -> Iterator[tuple[str, object]]:
    """The given options about the lake's shape, in the words of `known_options`."""
    if given.get("json") is not None and "values" not in given and (given["json"] or _kind(shape.values) == "json"):
        yield "values", "json" if given["json"] else "binary"
    for name in known_options(shape):
        if name not in given:
            continue
        value = cast("Mapping[str, object]", given)[name]
        if name in ("format", "partition_by") and not value:
            continue
        if name in ("key", "partition_by"):
            value = ",".join(each.strip() for each in str(value).split(",") if each.strip())
        elif name == "values":
            value = _kind(str(value))
        elif name == "catalog" and value:
            value = catalog_url(str(value))
        elif name == "where":
            value = str(value).strip()
        yield name, value


def _kind(values: str) -> str:
    """The option that names this kind of values."""
    return {"bytes": "binary", "json-schema": "json"}.get(values, values)


def _absolute(catalog: str) -> str:
    """The catalog; earlier versions noted relative paths."""
    return catalog_url(catalog) if catalog else ""


def _is_said(name: str, value: object) -> bool:
    """False for a value that stands for an option that was left out."""
    return value not in ("", False, None) and not (name == "flatten_separator" and value == "_")
