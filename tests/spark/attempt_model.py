"""Explores all interleavings of a task's attempts with a transaction coordinator, Spark's driver and a bad network.

Attempts start whenever Spark may start one: beside another that still runs, and after one that reported success, if
the driver died before it noted that. Attempts die at any step. A commit or a write may arrive long after its sender
has given up. The coordinator may abort a transaction that is too old.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ottla.spark.attempt import Do, TaskAttempt
from ottla.spark.marker import BatchMarker, Content, SparkTask

CONTENT = Content(3, 5)
ENDED = (Do.FINISHED, Do.FAILED)
NEVER_MS, LATE_MS = 0.0, 1e9
Machine = Callable[[SparkTask], TaskAttempt]


def machine(task: SparkTask) -> TaskAttempt:
    return TaskAttempt(task, timeout_ms=1000)


class Violated(AssertionError):
    """A property of the model does not hold."""


@dataclass(frozen=True)
class Running:
    """One attempt, and the epoch that it was given."""

    attempt: TaskAttempt
    epoch: int = -1

    def key(self) -> tuple[object, ...]:
        mine = self.attempt
        found = None if mine.marker is None else mine.marker.batch
        return (mine.task.batch, mine.do.name, mine._unknown, found, self.epoch)

    def told(self, tell: Callable[[TaskAttempt], None], epoch: int | None = None) -> Running:
        attempt = copy.copy(self.attempt)
        tell(attempt)
        return Running(attempt, self.epoch if epoch is None else epoch)


@dataclass(frozen=True)
class World:
    """The coordinator's state, the topic's committed batches, what is under way, and what Spark knows."""

    epoch: int = 0
    open: int | None = None
    """The batch whose rows are in the open transaction."""
    topic: tuple[int, ...] = ()
    marker: int | None = None
    late: tuple[tuple[str, int, int], ...] = ()
    """Requests that their senders have given up: kind, epoch, batch."""
    running: tuple[Running, ...] = ()
    started: int = 0
    batch: int = 0
    reported: bool = False

    def key(self) -> tuple[object, ...]:
        """A key that is equal for equivalent worlds: epochs are compared only by their order."""
        epochs = sorted({each.epoch for each in self.running} | {epoch for _, epoch, _ in self.late} | {self.epoch})
        rank = {epoch: place for place, epoch in enumerate(epochs)}
        running = sorted((*each.key()[:-1], rank[each.epoch]) for each in self.running)
        late = tuple(sorted((kind, rank[epoch], batch) for kind, epoch, batch in self.late))
        return (
            rank[self.epoch], self.open, self.topic, self.marker, late, str(running), self.started, self.batch,
            self.reported,
        )  # fmt: skip

    def committed(self) -> World:
        assert self.open is not None
        return replace(self, topic=(*self.topic, self.open), marker=self.open, open=None)

    def standing(self) -> BatchMarker | None:
        return None if self.marker is None else BatchMarker(self.marker, CONTENT)


def judge(world: World) -> None:
    """Check that each batch is there at most once and in order, and that a reported success is true."""
    if list(world.topic) != sorted(set(world.topic)):
        raise Violated(f"the topic has batches {world.topic}")
    for each in world.running:
        if each.attempt.do is Do.FINISHED and each.attempt.task.batch not in world.topic:
            raise Violated(f"batch {each.attempt.task.batch} was reported, and the topic has {world.topic}")


def after(world: World, make: Machine, *, attempts: int, batches: int) -> Iterator[World]:
    """Every world that one step may lead to."""
    if world.started < attempts:
        task = SparkTask("q", world.batch, 0)
        yield replace(world, running=(*world.running, Running(make(task))), started=world.started + 1)
    if world.reported and world.batch + 1 < batches:
        yield replace(world, batch=world.batch + 1, reported=False)
    if world.open is not None:
        yield replace(world, open=None, epoch=world.epoch + 1)  # the transaction was open for too long
    for place, (kind, epoch, batch) in enumerate(world.late):
        left = replace(world, late=world.late[:place] + world.late[place + 1 :])
        yield arrived(left, kind, epoch, batch)
    for place, each in enumerate(world.running):
        others = world.running[:place] + world.running[place + 1 :]
        yield replace(world, running=others)  # it dies, or can reach nobody any more
        if each.attempt.do not in ENDED:
            for next_world, moved in steps(world, each):
                done = moved.attempt.do is Do.FINISHED and moved.attempt.task.batch == world.batch
                running = (*world.running[:place], moved, *world.running[place + 1 :])
                yield replace(next_world, running=running, reported=world.reported or done)


def arrived(world: World, kind: str, epoch: int, batch: int) -> World:
    """The world after a late request, which is refused if its epoch is not the newest."""
    if epoch != world.epoch:
        return world
    if kind == "write":
        return replace(world, open=batch)
    return world.committed() if world.open is not None else world


def steps(world: World, each: Running) -> Iterator[tuple[World, Running]]:
    """Each (world, attempt) that the next step of an attempt may lead to."""
    do, current = each.attempt.do, each.epoch == world.epoch
    if do is Do.FENCE:
        fenced = replace(world, epoch=world.epoch + 1, open=None)
        yield fenced, each.told(lambda mine: mine.fenced(), epoch=fenced.epoch)
    elif do in (Do.READ_MARKER, Do.AWAIT_MARKER):
        for now_ms in (NEVER_MS, LATE_MS):
            yield world, each.told(lambda mine, now_ms=now_ms: mine.found(world.standing(), now_ms))
    elif do is Do.READ_FIRST_MARKER:
        yield world, each.told(lambda mine: mine.found_first(world.standing()))
    elif do is Do.COMPARE:
        yield world, each.told(lambda mine: mine.compared(CONTENT))
    elif do is Do.WRITE:
        yield from written(world, each, current=current)
    elif do is Do.COMMIT:
        yield from ended(world, each, current=current)


def written(world: World, each: Running, *, current: bool) -> Iterator[tuple[World, Running]]:
    if not current:
        yield world, each.told(lambda mine: mine.superseded(NEVER_MS, open_for_ms=0))
        return
    batch = each.attempt.task.batch
    yield replace(world, open=batch), each.told(lambda mine: mine.wrote(CONTENT))
    lost = replace(world, late=(*world.late, ("write", each.epoch, batch)))
    yield lost, each.told(lambda mine: mine._fail("a write was not answered"))


def ended(world: World, each: Running, *, current: bool) -> Iterator[tuple[World, Running]]:
    if not current:
        yield world, each.told(lambda mine: mine.superseded(NEVER_MS, open_for_ms=0))
        return
    unknown = each.told(lambda mine: mine.commit_unknown())
    if world.open is None:
        yield world, unknown  # refused: there is no open transaction
        return
    yield world.committed(), each.told(lambda mine: mine.committed())
    yield world.committed(), unknown
    yield world, unknown
    yield replace(world, late=(*world.late, ("commit", each.epoch, world.open))), unknown


def explore(make: Machine = machine, *, attempts: int, batches: int) -> dict[object, World]:
    """All reachable worlds, each judged; raise Violated if one is wrong."""
    start = World()
    seen: dict[object, World] = {start.key(): start}
    todo = [start]
    while todo:
        for found in after(todo.pop(), make, attempts=attempts, batches=batches):
            key = found.key()
            if key not in seen:
                judge(found)
                seen[key] = found
                todo.append(found)
    return seen


def alone(world: World) -> World:
    """The world after a fresh attempt at Spark's batch, without faults and other attempts."""
    mine = Running(machine(SparkTask("q", world.batch, 0)))
    for _ in range(20):
        if mine.attempt.do in ENDED:
            break
        world, mine = next(steps(world, mine))
    return replace(world, running=(mine,))
