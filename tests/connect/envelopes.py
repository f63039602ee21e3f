"""Data with its schema as JSON, as the tests exchange it with Java: JsonConverter's envelopes, and plain values.

Plain JSON lacks dates and bytes: `$date` holds milliseconds, `$bytes` base64; `$double` is a float by its text.
"""

from __future__ import annotations

import base64
import json
import math
from typing import Any

from ottla.connect.converters.json import JsonConverter
from ottla.connect.data import Instant, Schema, Struct

BESIDE = JsonConverter({"converter.type": "value", "replace.null.with.default": "false"})


def envelope(schema: Schema | None, value: Any) -> Any:
    """A value with its schema as JSON."""
    if schema is None:
        return None if value is None else {"schema": None, "payload": shown(value)}
    content = BESIDE.from_connect("t", schema, value)
    assert content is not None
    return json.loads(content)


def shown(value: Any) -> Any:
    """A value without a schema as JSON."""
    match value:
        case Instant():
            return {"$date": value.ms}
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case bool() | int() | str() | None:
            return value
        case float():
            return {"$double": "NaN" if math.isnan(value) else repr(float(value)).replace("inf", "Infinity")}
        case list():
            return [shown(item) for item in value]
        case Struct():
            return envelope(value.schema, value)["payload"]
    return {key: shown(item) for key, item in value.items()}


def alike(ours: Any, theirs: Any) -> bool:
    """True if two documents say the same. A boolean is no number; floats of 32 bits have several texts in Java 17."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if ours.keys() == theirs.keys() == {"$double"}:
            return near(float(ours["$double"]), float(theirs["$double"]))
        return ours.keys() == theirs.keys() and all(alike(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float):
        return near(ours, theirs)
    return type(ours) is type(theirs) and bool(ours == theirs)


def near(ours: float, theirs: float) -> bool:
    """True for the same float; 32 bits hold eight digits at most."""
    return ours == theirs or (math.isnan(ours) and math.isnan(theirs)) or math.isclose(ours, theirs, rel_tol=1e-7)
