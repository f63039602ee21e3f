"""Tells files to read from values among the words of a command line; asks where a word may be both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ottla.cli.faults import Misuse
from ottla.cli.input.detect import BY_EXTENSION
from ottla.cli.input.sources import PACKED_EXTENSIONS, STANDARD_INPUT, extension

_BOTH_WAYS = "--file FILE reads a file, --values writes words as they are"


def files_among(words: Sequence[str]) -> bool:
    """True if all words are files to read, False if all are values; Misuse where that is not clear.

    A file to read exists, and has a directory in front or an extension of data. Other words are values.
    """
    files = [word for word in words if _is_file(word)]
    if not files:
        return False
    if len(files) < len(words):
        other = next(word for word in words if word not in files)
        raise Misuse(f"{files[0]} is a file and {other!r} is none: {_BOTH_WAYS}")
    return True


def _is_file(word: str) -> bool:
    if word == STANDARD_INPUT:
        return True
    path = Path(word)
    has_directory, is_named = os.sep in word or word in (os.curdir, os.pardir), _is_data(word)
    try:
        exists, is_directory = path.exists(), path.is_dir()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False
    if is_directory and has_directory:
        raise Misuse(f"{word} is a directory: name its files, as in {word.rstrip(os.sep)}/*; {_BOTH_WAYS}")
    if is_directory or (not exists and not is_named):
        return False
    if not exists:
        raise Misuse(f"there is no file {word}: {_BOTH_WAYS}")
    if not has_directory and not is_named:
        raise Misuse(f"{word} is a file here, and may be a value: {_BOTH_WAYS}")
    return True


def _is_data(word: str) -> bool:
    """True if the name ends as files of data do."""
    return " " not in word and (extension(word) in BY_EXTENSION or Path(word.lower()).suffix in PACKED_EXTENSIONS)
