"""A failed compaction delays one log, and never stops the broker."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.replicas import compactor as compactor_module
from ottla.broker.replicas.compactor import Compactor
from ottla.kernel.story import Slot
from ottla.sim.loop import SimLoop

KEY = (bytes(16), 0)


class Place:
    """A broker with one log to compact; `runs` holds the compactions begun, `ended` their results."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = SimLoop(1)
        self.runs: list[Slot[Any]] = []
        self.failed: list[OSError] = []
        self.suspected: list[Any] = []
        self.due = True
        self.moves = False
        self.checkpoint: OSError | None = None
        log = SimpleNamespace(log_start_offset=0)
        config = SimpleNamespace(cleanup_policy=("compact",))
        partition = SimpleNamespace(config=config, topic="t", index=0, topic_id=KEY[0], log=log)
        directories = SimpleNamespace(cleaned_to=lambda partition: 0, set_cleaned_to=self._set_cleaned_to)
        around: Any = SimpleNamespace(
            clock=self.clock,
            time=SimpleNamespace(aged=lambda retention_ms: self.clock.wall_ms()),
            config=SimpleNamespace(log_cleaner_enable=True, log_cleaner_io_max_bytes_per_second=1e9),
            disk_failed=self.failed.append,
        )
        self.replicas: Any = SimpleNamespace(
            directories=directories,
            by_id={KEY: partition},
            moves=SimpleNamespace(holds=lambda partition: self.moves),
        )
        plan = SimpleNamespace(must=False, dirty_ratio=0.9)
        monkeypatch.setattr(compactor_module, "plan_compaction", lambda *_, **__: plan if self.due else None)
        monkeypatch.setattr(compactor_module, "install", self._install)
        monkeypatch.setattr(compactor_module, "discard", lambda log, plan: None)
        self.compactor = Compactor(around, self.replicas, self, self._suspect)  # type: ignore[arg-type]

    def run(self, plan: Any, *, max_bytes_per_second: float) -> Slot[Any]:
        self.runs.append(Slot())
        return self.runs[-1]

    def stop(self) -> None:
        pass

    def _suspect(self, partition: Any, offset: int | None) -> None:
        self.suspected.append((partition, offset))

    def _install(self, log: Any, plan: Any, result: Any) -> bool:
        self.due = False
        return True

    def _set_cleaned_to(self, partition: Any, offset: int) -> None:
        if self.checkpoint is not None:
            raise self.checkpoint


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(monkeypatch)


def test_a_log_whose_compaction_failed_is_tried_again_later(place: Place) -> None:
    place.compactor.round()
    place.runs[0].fail(OSError("the compaction process ended with -9"))
    place.clock.run_for(1000)
    place.compactor.round()
    assert len(place.runs) == 1, "not at once"
    place.clock.run_for(compactor_module.PUT_OFF_MS)
    place.compactor.round()
    assert len(place.runs) == 2
    assert not place.failed


def test_a_log_found_damaged_is_left_alone(place: Place) -> None:
    place.compactor.round()
    place.runs[0].fill(None)
    assert [offset for _, offset in place.suspected] == [None], "all of it is checked"
    place.clock.run_for(2 * compactor_module.PUT_OFF_MS)
    place.compactor.round()
    assert len(place.runs) == 1


@pytest.mark.parametrize(("number", "fatal"), [(errno.ENOSPC, False), (errno.EIO, True)])
def test_a_disk_without_room_for_the_cleaners_checkpoint_does_not_stop_the_broker(
    place: Place, number: int, fatal: bool
) -> None:
    place.checkpoint = OSError(number, "no room")
    place.compactor.round()
    place.runs[0].fill(SimpleNamespace(groups=1, cleaned_to=5, bytes_before=2, bytes_after=1))
    place.clock.run_for(10)
    assert bool(place.failed) == fatal
    place.due = True
    place.compactor.round()
    assert len(place.runs) == 2


def test_a_log_on_its_way_to_another_directory_is_not_compacted(place: Place) -> None:
    """The copy could keep a record after compaction has removed its tombstone from the served log."""
    place.moves = True
    place.compactor.round()
    assert len(place.runs) == 0
    place.moves = False
    place.compactor.round()
    assert len(place.runs) == 1


def test_while_a_log_is_compacted_it_is_known(place: Place) -> None:
    replica = place.replicas.by_id[KEY]
    place.compactor.round()
    assert place.compactor.works_on(replica)
    place.runs[0].fill(None)
    assert not place.compactor.works_on(replica)
