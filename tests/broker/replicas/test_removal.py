"""Directories of dropped logs are deleted one by one, while the broker serves requests."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

from ottla.broker.replicas.removal import Removal
from ottla.broker.waiting import Deadlines
from ottla.sim.loop import SimLoop


class Place:
    """A removal over log directories, each with a given number of folders to delete."""

    def __init__(self, *folders: int) -> None:
        self.loop = SimLoop(1)
        self.left = list(folders)
        self.deleted_ms: list[int] = []
        self.stuck = False
        online = [SimpleNamespace(deletions=SimpleNamespace(remove_one=self._of(each))) for each in range(len(folders))]
        around: Any = SimpleNamespace(deadlines=Deadlines(self.loop))
        directories: Any = SimpleNamespace(online=online)
        self.removal = Removal(around, directories)

    def _of(self, directory: int) -> Any:
        def remove_one() -> bool:
            if self.stuck:
                raise OSError(errno.EIO, "broken")
            if self.left[directory]:
                self.left[directory] -= 1
                self.deleted_ms.append(self.loop.mono_ms())
            return self.left[directory] > 0

        return remove_one


def test_one_folder_of_each_directory_goes_at_a_time_with_pauses_between() -> None:
    place = Place(3, 1)
    place.removal.later()
    place.removal.later()
    place.loop.run_for(60_000)
    assert place.left == [0, 0]
    first = place.deleted_ms[0]
    assert [at - first for at in place.deleted_ms] == [0, 0, 50, 100]


def test_a_folder_that_cannot_be_deleted_is_tried_again_later() -> None:
    place = Place(1)
    place.stuck = True
    place.removal.later()
    place.loop.run_for(5_000)
    place.stuck = False
    place.loop.run_for(4_000)
    assert place.left == [1], "not at once"
    place.loop.run_for(2_000)
    assert place.left == [0]


def test_nothing_is_deleted_once_the_broker_has_stopped() -> None:
    place = Place(2)
    place.removal.later()
    place.removal.close()
    place.loop.run_for(60_000)
    assert place.left == [2]
