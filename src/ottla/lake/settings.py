"""What a loader is told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ottla.spark.kafka_settings import KafkaSettings
from ottla.spark.options import Selection

MiB = 1 << 20
CODECS = ("zstd", "snappy", "lz4", "gzip", "none")


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """Which topics go where, and how their files shall be."""

    selection: Selection
    directory: Path
    kafka: KafkaSettings
    json: bool = False
    dead_letter: str | None = None
    target_bytes: int = 256 * MiB
    compression: str = "zstd"
    accept_loss: bool = False
    most_offsets: int = 20_000_000
    """Offsets in one round: what is done over after a crash is at most that much."""
    longest_range: int = 4_000_000


def size_bytes(text: str) -> int:
    """128m, 1g, 64MB, 1000000; ValueError for anything else."""
    digits = text.strip().lower().removesuffix("ib").removesuffix("b")
    unit = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(digits[-1:], 1)
    number = digits if unit == 1 else digits[:-1]
    if not number.isdigit() or not int(number):
        raise ValueError(f"not a size: '{text}'; write e.g. 64m, 512MB or 1g")
    return int(number) * unit
