"""Names: numbered as Kafka numbers them, checked, and the nearest one where a name is not known."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from ottla.streams.errors import TopologyError

NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Numbers:
    """Names for nodes and stores from one counter, as Kafka counts."""

    def __init__(self) -> None:
        self._next = 0

    def node(self, prefix: str, given: str | None = None, suffix: str = "") -> str:
        """A given name with its suffix, or a numbered one; a number is spent either way, as in Kafka."""
        numbered = self.number(prefix)
        return numbered if given is None else checked(given + suffix)

    def number(self, prefix: str) -> str:
        """The prefix and the next number."""
        self._next += 1
        return f"{prefix}{self._next - 1:010d}"

    def skip(self, count: int) -> None:
        """Spend numbers without a name."""
        self._next += count

    def store(self, prefix: str) -> str:
        """A numbered name for a store."""
        return self.number(prefix + "STATE-STORE-")


def checked(name: str) -> str:
    """The name, if Kafka allows it."""
    if not NAME.fullmatch(name) or name in {".", ".."}:
        raise TopologyError(f"the name {name!r} is not allowed: use letters, digits, '.', '_' and '-', at most 249")
    return name


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or a list of the known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(names) or 'none'}"
