"""Refusals and progress of the lake in the words of Python: `accept_loss=True` in place of --accept-loss."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ottla.jobs.options import JobOptionKind
from ottla.lake.options import ARGUMENTS, OPTIONS
from ottla.stores import LakeRefused

_KEYWORDS = {option.spelt: (option.name, option.kind) for option in OPTIONS} | {
    f"--{name}": (name, JobOptionKind.TEXT) for name in ARGUMENTS
}
_FLAG = re.compile(r"(?<![\w-])--(no-)?([a-z][a-z-]*)(?: ([A-Z]{2,}))?(?![\w-])")


@contextmanager
def in_keywords() -> Iterator[None]:
    """Let a LakeRefused of this block name keyword arguments where it names flags."""
    try:
        yield
    except LakeRefused as refusal:
        refusal.args = tuple(keywords(each) if isinstance(each, str) else each for each in refusal.args)
        raise


def told_in_keywords(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Takes lines of progress, and hands them on with keyword arguments where they name flags."""

    @functools.wraps(tell)
    def told(line: str) -> None:
        tell(keywords(line))

    return told


def keywords(text: str) -> str:
    """A sentence with each flag of a load as the keyword argument; other flags, such as those of Spark, stay."""
    return _FLAG.sub(_keyword, text)


def _keyword(flag: re.Match[str]) -> str:
    negated, name, value = flag.groups()
    if name == "read-uncommitted":
        return "`read_committed=False`"
    found = _KEYWORDS.get(f"--{name}")
    if found is None:
        return flag[0]
    keyword, kind = found
    if kind is JobOptionKind.FLAG:
        return f"`{keyword}={'False' if negated else 'True'}`" + (f" {value}" if value else "")
    return f"`{keyword}={value}`" if value else f"`{keyword}`"
