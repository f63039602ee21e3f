"""The default of a column as a value: from the expression in the catalog. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from ottla.connect.data import Type
from ottla.connect.plugins.capture.types import Codec

_QUOTED: Final = re.compile(r"[BE]?'((?:[^']|'')*)'(?:::.*)?", re.DOTALL)
_NUMBER: Final = re.compile(r"\(?(-?\d+(?:\.\d+)?)\)?(?:::.*)?")
_COMPUTED: Final = re.compile(r"(?:[a-z_][\w.\"]*\(.*\)|CURRENT_\w+(?:\(\d\))?)(?:::.*)?", re.DOTALL)
_WITHOUT: Final = (Type.ARRAY, Type.MAP, Type.STRUCT)
"""Types that have no default: a struct's would have a schema that holds itself."""


def default_of(expression: str | None, codec: Codec, type_name: str) -> Any:
    """The value of a constant, the type's zero for what a function computes, and None for all else, as Debezium has it.

    A record is made when the row is there, so no reader computes a default; it stands in the schema alone.
    """
    if expression is None or codec.schema.type in _WITHOUT or type_name == "bytea":
        return None
    if _COMPUTED.fullmatch(expression):
        return codec.zero
    for form in (_QUOTED, _NUMBER):
        if found := form.fullmatch(expression):
            return _read(codec, found[1].replace("''", "'"))
    if expression in ("true", "false"):
        return _read(codec, expression[0])
    return None


def _read(codec: Codec, text: str) -> Any:
    try:
        return codec.read(text)
    except (ValueError, ArithmeticError):
        return None
