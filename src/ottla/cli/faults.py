"""Errors in words for a terminal: which of them the user can mend, and how."""

from __future__ import annotations

import sys
from pathlib import Path


class Misuse(Exception):
    """The command line is wrong; the text names the remedy."""


class BadInput(Exception):
    """A file or standard input has content that cannot be used; the text names the place and the reason."""


_EXTRAS = {
    **dict.fromkeys(("urllib3", "fastavro", "jsonschema_rs", "grpc_tools"), "registry"),
    **dict.fromkeys(("pyarrow", "polars", "deltalake", "pyiceberg", "obstore", "hdfs_native"), "lake"),
    "jinja2": "console",
    **dict.fromkeys(("cryptography", "joserfc"), "security"),
    "gssapi": "kerberos",
    "pyspark": "spark",
}
"""Libraries that a plain installation does not bring, and the part of ottla that brings each."""


def explain(fault: Exception) -> str | None:
    """One line for errors that a user can mend; None for bugs, which keep their traceback."""
    from ottla.client.errors import ClientError, NoBrokerAnswers
    from ottla.config.option import ConfigError
    from ottla.config.profiles import ProfileError
    from ottla.kernel.errors import ApiError
    from ottla.schema.varints import MalformedMessage

    notes = "".join(getattr(fault, "__notes__", ()))
    if isinstance(fault, NoBrokerAnswers):
        return f"ottla: {fault}, with --bootstrap-server HOST:PORT{notes}"
    if isinstance(fault, Misuse | BadInput | ClientError | ProfileError | ConfigError):
        return f"ottla: {fault}{notes}"
    if isinstance(fault, ModuleNotFoundError) and (extra := _EXTRAS.get((fault.name or "").partition(".")[0])):
        return f"ottla: this needs {fault.name}, which is not installed: pip install 'ottla[{extra}]'"
    if isinstance(fault, OSError):
        where = f"{fault.filename}: " if fault.filename is not None else ""
        return f"ottla: {where}{fault.strerror or fault}"
    if isinstance(fault, ApiError):
        return f"ottla: {fault.message} [{fault.code.name}]{notes}"
    causes = _causes(fault) if isinstance(fault, ValueError) else []
    for cause in causes:
        if isinstance(cause, UnicodeEncodeError):
            named = cause.object.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            return f"ottla: {named} is not text in UTF-8"
    if any(isinstance(cause, MalformedMessage) for cause in causes):
        return f"ottla: a number is out of range, or a name too long: {fault}"
    if isinstance(fault, ValueError) and str(fault).startswith(("invalid bootstrap", "no bootstrap")):
        return f"ottla: {fault}"
    return None


def _causes(fault: BaseException) -> list[BaseException]:
    """The fault and what it came from."""
    found = [fault]
    while (cause := found[-1].__cause__) is not None:
        found.append(cause)
    return found


def text_of(path: str) -> str:
    """The text of a file, or with `-` of standard input; BadInput if it is not UTF-8."""
    content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as fault:
        raise BadInput(f"{path} is not text in UTF-8: byte {fault.start} is {content[fault.start]:#04x}") from None
