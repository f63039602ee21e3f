"""argparse with short errors: one sentence, with the nearest option where one is misspelt."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """A parser of a command and, as its verbs are made of this class too, of each verb."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **settings})

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse; an argument that is left over is an error of this parser, which knows the names beside it."""
        found, left = super().parse_known_args(args, namespace)
        if left:
            word = next((each for each in left if each.startswith("-")), left[0]).partition("=")[0]
            near = get_close_matches(word, self._option_string_actions, n=1) if word.startswith("-") else []
            self.error(f"there is no {word} here" + (f"; did you mean {near[0]}?" if near else ""))
        return found, left

    def error(self, message: str) -> NoReturn:
        """End with one sentence, and say where all options are listed."""
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` lists all)\n")
