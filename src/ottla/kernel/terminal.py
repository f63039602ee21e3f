"""Terminals: which streams get colours."""

from __future__ import annotations

import os
from typing import TextIO


def colours(out: TextIO) -> bool:
    """True if a stream is a terminal that shows colours, and its user wants them."""
    return out.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
