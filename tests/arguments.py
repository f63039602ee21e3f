"""Kinds of arguments that several campaigns take."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection


def list_of(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """A kind for `add_argument`: names with commas between, each of them a known one."""

    def names(text: str) -> tuple[str, ...]:
        found = tuple(text.split(","))
        if wrong := [name for name in found if name not in known]:
            raise argparse.ArgumentTypeError(f"{wrong[0]}: it is one of {', '.join(known)}")
        return found

    return names
