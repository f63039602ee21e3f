"""Errors in words for a terminal: which are the user's to mend, and what to do."""

from __future__ import annotations

import sys
from pathlib import Path


class Misuse(Exception):
    """The command line is wrong; the text says how to put it right."""


class BadInput(Exception):
    """A file or standard input has content that cannot be used; the text says where and why."""


def explain(fault: Exception) -> str | None:
    """One line for errors that a user can do something about; None for bugs, which keep their traceback."""
    from ottla.client.errors import ClientError
    from ottla.kernel.errors import ApiError

    if isinstance(fault, Misuse | BadInput | ClientError):
        return f"ottla: {fault}"
    if isinstance(fault, OSError):
        where = f"{fault.filename}: " if fault.filename is not None else ""
        return f"ottla: {where}{fault.strerror or fault}"
    if isinstance(fault, ApiError):
        return f"ottla: {fault.message} [{fault.code.name}]"
    if isinstance(fault, ValueError) and str(fault).startswith(("invalid bootstrap", "no bootstrap")):
        return f"ottla: {fault}"
    return None


def text_of(path: str) -> str:
    """A file's text, or with `-` that of standard input; BadInput where it is no UTF-8."""
    content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as fault:
        raise BadInput(f"{path} is not text in UTF-8: byte {fault.start} is {content[fault.start]:#04x}") from None
