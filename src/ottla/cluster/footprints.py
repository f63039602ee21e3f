"""Footprints: what a command reads and writes. Commands with different ones may share an append."""

from __future__ import annotations

Footprint = tuple[str | bytes | int, ...]
EVERYTHING: Footprint = ("everything",)
"""The footprint of commands that share an append with no other."""
