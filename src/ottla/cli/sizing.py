"""`ottla sizing`: the brokers that a load needs, by processor, disk and network. sizing_model.py computes them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fractions import Fraction

from ottla.cli.command import Command, print_json, print_table, wants_json
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option
from ottla.cli.sizing_model import DAY_S, Needed, Offered, needed
from ottla.kernel.quantities import size_bytes

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def command(arguments: Sequence[str]) -> int:
    return COMMAND.run(arguments)


def _sizing(given: Given) -> int:
    load = offered(given)
    found = needed(load)
    if wants_json(given):
        print_json(as_json(found))
        return 0
    average = Fraction(load.messages_per_day, DAY_S)
    print_table(
        ("", "AT THE PEAK", "AVERAGE"),
        [
            ("messages written/s", f"{float(found.written_per_s):,.0f}", f"{float(average):,.0f}"),
            ("messages read/s", f"{float(found.read_per_s):,.0f}", f"{float(average * load.readers):,.0f}"),
            ("into brokers/s", _bytes(found.in_bytes_per_s), ""),
            ("out of brokers/s", _bytes(found.out_bytes_per_s), ""),
            ("cores kept busy", f"{found.cores:.2f}", ""),
            ("on disks", _bytes(found.disk_bytes), ""),
        ],
    )
    asked = ", ".join(f"{name} {count}" for name, count in found.wants.items())
    print(f"{found.brokers} brokers ({asked}): {found.decided_by} decides")
    if not {"disk", "network"} <= found.wants.keys():
        sys.stderr.write("ottla: no limit by what is not given: --disk is a broker's space, --link its network\n")
    return 0


def offered(given: Given) -> Offered:
    """The load that the options describe; Misuse names an option that no load can have."""
    per_day = _at_least(given, "messages-per-day", 1)
    peak = given.number("peak")
    average = Fraction(per_day, DAY_S)
    if peak is not None and peak < average:
        raise Misuse(
            f"--peak {peak}: --messages-per-day {per_day} is {float(average):,.0f} a second on average already"
        )
    busy = _fraction(given, "busy")
    if not 0 < busy <= 1:
        raise Misuse(f"--busy {given.text('busy')}: the part of a core at the peak is above 0, and 1 at most")
    compression = _fraction(given, "compression")
    if compression < 1:
        raise Misuse(f"--compression {given.text('compression')}: batches are 1 or more times smaller than messages")
    return Offered(
        messages_per_day=per_day,
        message_bytes=_size(given, "size") or 0,
        peak_per_s=3 * average if peak is None else Fraction(peak),
        readers=_fraction(given, "readers"),
        batch_records=_at_least(given, "batch", 1),
        replicas=_at_least(given, "replicas", 1),
        retention_s=(given.duration_ms("retention") or 0) // 1000,
        compression=compression,
        busy=busy,
        disk_bytes=_size(given, "disk"),
        link_bits_per_s=None if given.text("link") is None else _at_least(given, "link", 1) * 1_000_000,
    )


def as_json(found: Needed) -> dict[str, object]:
    return {
        "brokers": found.brokers,
        "decided_by": found.decided_by,
        "wants": found.wants,
        "cores": round(found.cores, 4),
        "written_per_s": round(float(found.written_per_s), 3),
        "read_per_s": round(float(found.read_per_s), 3),
        "in_bytes_per_s": found.in_bytes_per_s,
        "out_bytes_per_s": found.out_bytes_per_s,
        "disk_bytes": found.disk_bytes,
    }


def _at_least(given: Given, name: str, least: int) -> int:
    found = given.number(name)
    if found is None:
        raise Misuse(f"--{name} is missing")
    if found < least:
        raise Misuse(f"--{name} {found}: at least {least} is possible")
    return found


def _size(given: Given, name: str) -> int | None:
    text = given.text(name)
    if text is None:
        return None
    if (found := size_bytes(text)) < 1:
        raise Misuse(f"--{name} {text}: at least a byte is possible")
    return found


def _fraction(given: Given, name: str) -> Fraction:
    text = given.need(name)
    try:
        found = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise Misuse(f"--{name} {text}: write a number, such as 5 or 5.5") from None
    if found < 0:
        raise Misuse(f"--{name} {text}: it cannot be below 0")
    return found


def _bytes(count: int) -> str:
    size, unit = float(count), 0
    while size >= 999.5 and unit + 1 < len(_UNITS):
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"


COMMAND = Command(
    "ottla sizing --messages-per-day N [--size BYTES] [--readers N] [--replicas N]",
    "Tell how many brokers a load needs, from what one broker was measured to take: a broker uses one core.\n\n"
    "The limits were measured on one machine; docs/guide/sizing.md names them and what they leave out.",
    _sizing,
    [
        Option("messages-per-day", "Messages that are written in a day.", "N", "Long"),
        Option("peak", "Messages in the busiest second. Default: three times the average.", "N", "Long"),
        Option("size", "Bytes of a message.", "BYTES", "Size", default="200"),
        Option("readers", "How often each message is read.", "N", default="1"),
        Option("batch", "Messages in a batch of a producer.", "N", "Integer", default="50"),
        Option("replicas", "Copies of each message.", "N", "Integer", default="3"),
        Option("retention", "How long messages are kept.", "TIME", "Duration", default="7d"),
        Option("compression", "How many times smaller compressed batches are.", "N", default="1"),
        Option(
            "busy", "The part of a core, and of the network, that a broker may use at the peak.", "PART", default="0.5"
        ),
        Option("disk", "The space of one broker. Default: no limit.", "BYTES", "Size"),
        Option("link", "The network of one broker, each way, in Mbit/s. Default: no limit.", "N", "Integer"),
    ],
    connects=False,
)
