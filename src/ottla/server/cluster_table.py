"""Shows the cluster of `ottla cluster up`: as a table that stays in its place, as log lines, or as JSON.

client/admin/broker_table.py makes the table.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Protocol

from ottla.client.admin.broker_table import BrokerLine, as_json, table
from ottla.client.admin.overview import ClusterOverview
from ottla.kernel.terminal import colours

_SIZE = (100, 24)
"""The assumed size of a terminal that does not report one."""
_NEWS = 5


class Display(Protocol):
    """Shows events and the state of the brokers; it goes on when its reader has gone."""

    def say(self, sentence: str) -> None:
        """Show an event."""

    def greet(self, ready: str, addresses: Sequence[str], about: Sequence[str]) -> None:
        """Show that all brokers serve."""

    def show(self, lines: Sequence[BrokerLine], seen: ClusterOverview | None, *, all_served: bool) -> None:
        """Show the present state of the brokers; `seen` is None if none of them answers."""

    def end(self) -> None:
        """Note that the brokers are stopped from here on."""


def display(output_format: str) -> Display:
    """The display that fits standard output."""
    if output_format == "json":
        return JsonDisplay()
    return TerminalDisplay() if sys.stdout.isatty() else LogDisplay()


class LogDisplay:
    """A line for each change."""

    def __init__(self) -> None:
        self._said: dict[int, str] = {}

    def say(self, sentence: str) -> None:
        with contextlib.suppress(OSError):  # the reader has closed its end
            print(f"{time.strftime('%H:%M:%S')} {sentence}", flush=True)

    def greet(self, ready: str, addresses: Sequence[str], about: Sequence[str]) -> None:
        _greet(ready, addresses, about)

    def show(self, lines: Sequence[BrokerLine], seen: ClusterOverview | None, *, all_served: bool) -> None:
        if not all_served or seen is None:
            return
        texts = {line.broker: plain(line) for line in lines} | {0: seen.summary}
        for number, text in texts.items():
            if self._said.get(number) != text:
                self.say(text)
        self._said = texts

    def end(self) -> None:
        pass


class TerminalDisplay:
    """The table at the bottom of a terminal, written over, with the latest news below."""

    def __init__(self) -> None:
        self._shown = 0
        self._news: list[str] = []
        self._ended = False

    def say(self, sentence: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} {sentence}"
        if self._ended:
            with contextlib.suppress(OSError):
                print(line, flush=True)
        else:
            self._news = [*self._news[1 - _NEWS :], line]

    def greet(self, ready: str, addresses: Sequence[str], about: Sequence[str]) -> None:
        self._shown = 0
        _greet(ready, addresses, about)

    def show(self, lines: Sequence[BrokerLine], seen: ClusterOverview | None, *, all_served: bool) -> None:
        width, height = shutil.get_terminal_size(_SIZE)
        text = table(lines, seen, width=width, coloured=colours(sys.stdout))
        text = [*text, *(line[:width] for line in self._news)][: max(1, height - 1)]
        up = f"\x1b[{self._shown}A" if self._shown else ""
        with contextlib.suppress(OSError):
            sys.stdout.write(up + "".join(f"\x1b[2K{line}\n" for line in text) + "\x1b[J")
            sys.stdout.flush()
        self._shown = len(text)

    def end(self) -> None:
        """Leave the table as it is; later lines go below it."""
        self._ended = True


class JsonDisplay:
    """A JSON object a line; `event` says which kind: news, ready, status."""

    def say(self, sentence: str) -> None:
        self._print("news", {"text": sentence})

    def greet(self, ready: str, addresses: Sequence[str], about: Sequence[str]) -> None:
        self._print("ready", {"bootstrap_servers": ",".join(addresses)})

    def show(self, lines: Sequence[BrokerLine], seen: ClusterOverview | None, *, all_served: bool) -> None:
        self._print("status", as_json(lines, seen))

    def end(self) -> None:
        pass

    def _print(self, event: str, content: dict[str, object]) -> None:
        with contextlib.suppress(OSError):
            print(json.dumps({"event": event, "time": round(time.time(), 3)} | content), flush=True)


def plain(line: BrokerLine) -> str:
    """A broker as a sentence, for a log; values that change all the time are left out."""
    text = f"broker {line.broker} {line.state}"
    if line.address is not None:
        text += f" {line.address}"
    if line.share is not None:
        text += f", leads {line.share.leads}, in sync {line.share.in_sync} of {line.share.replicas}"
    return text + (", caretaker" if line.caretaker else "")


def _greet(ready: str, addresses: Sequence[str], about: Sequence[str]) -> None:
    with contextlib.suppress(OSError):
        print(f"{ready}{','.join(addresses)}", flush=True)
        print("\n".join(about), file=sys.stderr, flush=True)
