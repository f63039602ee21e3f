"""The two parts that `records.compiled` chooses between, side by side."""

from __future__ import annotations

import importlib
from types import ModuleType, SimpleNamespace

from ottla.records import _fallback, _fallback_columns

PURE = SimpleNamespace(
    scan=_fallback.scan,
    offenders=_fallback.offenders,
    read=_fallback.read,
    append_record=_fallback.append_record,
    decode=_fallback_columns.decode,
    encode=_fallback_columns.encode,
)


def compiled_part() -> ModuleType | None:
    """None where there was no compiler."""
    try:
        return importlib.import_module("ottla.records._records")
    except ImportError:
        return None


NATIVE = compiled_part()
NO_COMPILER = "no C compiler: the compiled part was not built"
