"""The places of state: a folder of this machine or of another store, by its URL. The one door to those stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from ottla.stores import LakeRefused, Store, lake_url, open_store
from ottla.streams.errors import TopologyError


@lru_cache(maxsize=4)
def open_files(url: str) -> Store:
    """The store at a URL, once for each process."""
    return open_store(url)


@contextmanager
def held(files: Store, application_id: str) -> Iterator[None]:
    """Be the only one who changes the state; TopologyError where a run of the application is at work."""
    try:
        hold = files.hold(f"the application {application_id}")
    except LakeRefused as refused:
        raise TopologyError(
            f"{application_id} is running already, or has not given its state up yet: {refused}"
        ) from None
    try:
        yield
    finally:
        hold.release()


def checkpoint_place(application_id: str, checkpoint: str | None) -> str:
    """The checkpoint's place in Spark's words, which calls S3 s3a."""
    if checkpoint is None:
        return state_url(f"ottla-streams/{application_id}")
    place = state_url(checkpoint)
    return "s3a" + place.removeprefix("s3") if place.startswith("s3://") else place


def state_place(application_id: str, checkpoint: str | None, state: str | None) -> str:
    """The place of state files: the one that was named, or a folder of the checkpoint."""
    if state is not None:
        return state_url(state)
    return state_url(checkpoint_place(application_id, checkpoint)).rstrip("/") + "/ottla-state"


def state_url(place: str) -> str:
    """The place as an absolute URL; TopologyError where no state can lie there."""
    try:
        return lake_url(place)
    except LakeRefused as refused:
        raise TopologyError(str(refused).replace("a lake", "state")) from None
