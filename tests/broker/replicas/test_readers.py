"""The readers of a partition hear of its changes: watches in the order in which they came, and listeners of commits."""

from __future__ import annotations

import pytest

from ottla.broker.replicas.readers import Readers


class Marked:
    """A watch that writes down its name when it is marked."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name = name
        self.told = told

    def mark(self) -> None:
        self.told.append(self.name)


class Place:
    """A partition's readers: two consumers, and a follower between them."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.readers = Readers()
        self.watches = {name: Marked(name, self.told) for name in ("z", "follower", "a")}
        for name, watch in self.watches.items():
            self.readers.add(watch, follows=name == "follower")


@pytest.fixture
def place() -> Place:
    return Place()


def test_watches_are_marked_in_the_order_in_which_they_came(place: Place) -> None:
    place.readers.mark()
    assert place.told == ["z", "follower", "a"]


def test_a_watch_that_is_added_again_is_marked_once(place: Place) -> None:
    place.readers.add(place.watches["z"], follows=False)
    place.readers.mark()
    assert place.told == ["z", "follower", "a"]


def test_followers_alone_are_told_of_records_that_are_not_committed(place: Place) -> None:
    assert list(place.readers.replicas) == [place.watches["follower"]]


def test_a_commit_marks_all_watches_before_the_listeners_hear_its_offset(place: Place) -> None:
    place.readers.when_committed(lambda offset: place.told.append(f"committed {offset}"))
    place.readers.committed(7)
    assert place.told == ["z", "follower", "a", "committed 7"]


def test_a_watch_and_a_listener_that_are_gone_hear_nothing(place: Place) -> None:
    heard: list[int] = []
    place.readers.when_committed(heard.append)
    place.readers.forget_listener(heard.append)
    for watch in place.watches.values():
        place.readers.remove(watch)
    place.readers.committed(7)
    assert (place.told, heard, list(place.readers.replicas), bool(place.readers)) == ([], [], [], False)
