"""Reads plain Parquet files while loaders are killed: no row may ever be in two visible files."""

from __future__ import annotations

import random
import threading

from tests.lake.campaign.places import PlainFiles, parquet_offsets


class Watcher:
    """Looks at a lake at random moments, in a thread, during a `with` block; `faults` are its findings."""

    def __init__(self, place: PlainFiles, kind: str, chance: random.Random) -> None:
        self.faults: list[str] = []
        self.looks = 0
        self._place, self._kind, self._chance = place, kind, chance
        self._known: set[str] = set()
        self._seen: dict[tuple[str, int], set[int]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="campaign-watcher")

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Check new files. Plain files are never removed again, so a row seen in one must not be in another."""
        visible = set(self._place.visible(self._kind))
        self.looks += 1
        for name in sorted(self._known - visible):
            self.faults.append(f"{name} was visible and is gone")
        for name in sorted(visible - self._known):
            self._known.add(name)
            self._take(name)

    def _run(self) -> None:
        while not self._ended.wait(self._chance.uniform(0.05, 1.5)):
            try:
                self.look()
            except OSError:  # the store is stopped: the next look will tell
                continue
            except Exception as fault:
                self.faults.append(f"a visible file cannot be read: {fault}")
                return

    def _take(self, name: str) -> None:
        topic = name.split("/", maxsplit=1)[0].removeprefix("topic=")
        for partition, offsets in parquet_offsets(self._place.content(self._kind, name)).items():
            seen = self._seen.setdefault((topic, partition), set())
            if twice := seen.intersection(offsets):
                self.faults.append(f"{name}: {topic}-{partition}: also in another file: {sorted(twice)[:5]}")
            if len(offsets) != len(set(offsets)):
                self.faults.append(f"{name}: {topic}-{partition}: an offset stands twice in it")
            seen.update(offsets)
