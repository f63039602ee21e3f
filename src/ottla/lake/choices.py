"""Permitted values of options. The command line shows them without Spark and Arrow installed, too."""

from __future__ import annotations

FORMATS = ("parquet", "delta", "iceberg")
CODECS = ("zstd", "snappy", "lz4", "gzip", "none")


def size_bytes(text: str) -> int:
    """128m, 1g, 64MB, 1000000; ValueError for anything else."""
    digits = text.strip().lower().removesuffix("ib").removesuffix("b")
    unit = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(digits[-1:], 1)
    number = digits if unit == 1 else digits[:-1]
    if not number.isdecimal() or not int(number):
        raise ValueError(f"not a size: '{text}'; write e.g. 64m, 512MB or 1g")
    return int(number) * unit
