"""The parser of the lake's commands: the one that ottla's other commands with groups of options have."""

from ottla.cli.arguments import Arguments as Parser

__all__ = ["Parser"]
