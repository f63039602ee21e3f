"""Runs tests that use `part` twice: on the compiled part and on its pure twin."""

from __future__ import annotations

import pytest
from twins import NATIVE, NO_COMPILER, PURE

from ottla.records import compiled


@pytest.fixture(params=["compiled", "pure"])
def part(request, monkeypatch):
    """Switch all of `ottla.records` to one of the twins."""
    chosen = PURE if request.param == "pure" else NATIVE
    if chosen is None:
        pytest.skip(NO_COMPILER)
    for name in ("scan", "read", "append_record", "append_run", "decode", "encode"):
        monkeypatch.setattr(compiled, name, getattr(chosen, name))
    monkeypatch.setattr(compiled, "_offenders", chosen.offenders)
    return request.param
