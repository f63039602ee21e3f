"""Says of a fault what to do where a file of a broker is a link that leads to nothing."""

from __future__ import annotations

import os


def about_link(fault: BaseException) -> str:
    """The remedy where a file of a broker is a link that leads to nothing; else nothing."""
    path = fault.filename if isinstance(fault, OSError) else None
    if not isinstance(path, str) or not os.path.islink(path) or os.path.exists(path):
        return ""
    return f" (a link to {os.readlink(path)}, where nothing is: bring that back, or remove the link and start again)"
