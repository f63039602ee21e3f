"""Crashes of the simulated disk: one legal state is drawn, or all of them are walked through."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

from ottla.sim.disk_nodes import DirectoryNode, FileNode, draw, subsets


def crash(directory: DirectoryNode, random: Random | None) -> None:
    """Leave one legal state of a directory and all below; without `random`, everything un-synced is lost."""
    kept = draw(directory.pending, random)
    directory.names = directory.after_crash(kept)
    directory.settle()
    for _, node in sorted(directory.names.items()):
        if isinstance(node, DirectoryNode):
            crash(node, random)
        else:
            stretched = random is not None and bool(node.pending) and random.random() < 0.1
            node.body = bytearray(node.after_crash(draw(node.pending, random), stretched))
            node.disk_body = bytearray(node.body)
            node.pending = []


def legal_trees(directory: DirectoryNode, limit: int) -> Iterator[dict[str, object]]:
    """Every legal state: from names to the bytes of a file or another such tree; ValueError above `limit` states."""
    seen: set[str] = set()
    for kept in subsets(directory.pending):
        names = directory.after_crash(kept)
        choices: list[list[object]] = []
        count = 1
        for _, node in sorted(names.items()):
            options: list[object] = []
            options += legal_trees(node, limit) if isinstance(node, DirectoryNode) else node.states()
            choices.append(options)
            count *= len(options)
        if count + len(seen) > limit:
            raise ValueError(f"more than {limit} legal states")
        for chosen in itertools.product(*choices):
            tree = dict(zip(sorted(names), chosen, strict=True))
            key = repr(tree)
            if key not in seen:
                seen.add(key)
                yield tree


def plant(directory: DirectoryNode, tree: dict[str, object]) -> None:
    """Put such a tree into an empty directory, all of it durable."""
    for name, content in tree.items():
        if isinstance(content, dict):
            below = DirectoryNode()
            plant(below, content)
            directory.names[name] = below
        else:
            assert isinstance(content, bytes)
            file = FileNode(0)
            file.body = bytearray(content)
            file.disk_body = bytearray(content)
            directory.names[name] = file
    directory.settle()
