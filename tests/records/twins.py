"""The two implementations that `records.compiled` chooses from."""

from __future__ import annotations

import importlib
from array import array
from types import ModuleType, SimpleNamespace

from ottla.records import _fallback, _fallback_columns

PURE = SimpleNamespace(
    scan=_fallback.scan,
    offenders=_fallback.offenders,
    read=_fallback.read,
    append_record=_fallback.append_record,
    append_run=_fallback.append_run,
    decode=_fallback_columns.decode,
    encode=_fallback_columns.encode,
)


def compiled_part() -> ModuleType | None:
    """The compiled part; None if there was no compiler."""
    try:
        return importlib.import_module("ottla.records._records")
    except ImportError:
        return None


NATIVE = compiled_part()
NO_COMPILER = "no C compiler: the compiled part was not built"


def exact(argument: object) -> object:
    """Buffers as copies whose memory ends where their bytes end, those in tuples too; anything else as it is.

    `bytes` and `bytearray` have one more byte at their end, so that a sanitizer does not see a read of it.
    """
    if isinstance(argument, bytes | bytearray):
        return memoryview(array("B", argument)[:]).toreadonly()
    if type(argument) is tuple:
        return tuple(map(exact, argument))
    return argument
