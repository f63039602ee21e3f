"""Types of arguments that several campaigns take."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection


def list_of(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """A type for `add_argument`: known names, separated by commas."""

    def names(text: str) -> tuple[str, ...]:
        found = tuple(text.split(","))
        if wrong := [name for name in found if name not in known]:
            raise argparse.ArgumentTypeError(f"{wrong[0]}: it is one of {', '.join(known)}")
        return found

    return names
