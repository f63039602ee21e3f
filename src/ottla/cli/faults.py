"""Errors in words for a terminal: which are the user's to mend, and what to do."""

from __future__ import annotations


class Misuse(Exception):
    """The command line is wrong; the text says how to put it right."""


class BadInput(Exception):
    """What was read, from a file or standard input, is not what it should be; the text says where and why."""


def explain(fault: Exception) -> str | None:
    """One line for errors that a user can do something about; None for bugs, which keep their traceback."""
    from ottla.client.errors import ClientError
    from ottla.kernel.errors import ApiError

    if isinstance(fault, Misuse | BadInput | ClientError | FileNotFoundError | PermissionError | IsADirectoryError):
        return f"ottla: {fault}"
    if isinstance(fault, ApiError):
        return f"ottla: {fault.message} [{fault.code.name}]"
    if isinstance(fault, ValueError) and str(fault).startswith(("invalid bootstrap", "no bootstrap")):
        return f"ottla: {fault}"
    return None
