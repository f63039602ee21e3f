"""The log under crashes: seeds over random work, and every legal crash state of the steps that must be whole."""

from __future__ import annotations

import copy
import errno
from random import Random

import pytest
from log_desk import DAY_MS, T0, TOPIC_ID, a_batch, a_directory, config, records_of, sync

from ottla.kernel.errors import ErrorCode
from ottla.kernel.seams import SyncWork
from ottla.sim.disk import SimDisk
from ottla.sim.disk_faults import PowerCut
from ottla.storage import syncing
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.log import Log
from ottla.storage.values import Appended


class Producer:
    """An idempotent producer that remembers its acknowledgements."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.sequence = 0
        self.sent: list[tuple[int, int, list[bytes]]] = []


class World:
    """A directory with one log on a simulated disk, a model of what it must hold, and random work."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimDisk()
        self.values: list[bytes] = []
        """Values by offset, as appended last."""
        self.synced = 0
        self.start = 0
        self.epoch = 0
        self.wall_ms = T0
        self.producers = [Producer(1), Producer(2)]
        self.count = 0
        self.doing = ""
        self.options = config(
            internal_segment_bytes=self.random.choice((700, 2000, 5000)),
            index_interval_bytes=self.random.choice((0, 200, 1000)),
            segment_index_bytes=self.random.choice((36, 10 << 20)),
            file_delete_delay_ms=self.random.choice((0, 60_000)),
            retention_bytes=self.random.choice((-1, 4000)),
        )
        self.directory = a_directory(self.disk)
        self.log = self.directory.create_log("t", 0, TOPIC_ID, **self._how())  # type: ignore[arg-type]
        self.under_way: list[tuple[SyncWork, int]] = []
        """Syncs begun, each with how many of the truncations in `undone` it covers."""
        self.undone: list[tuple[list[bytes], list[Producer]]] = []
        """The log's content before each truncation that is not on disk yet: a crash may bring it back."""

    def _how(self) -> dict[str, object]:
        return {
            "config": self.options,
            "wall_ms": self.wall_ms,
            "producer_expiration_ms": DAY_MS,
            "on_synced": self._heard,
        }

    def _heard(self, offset: int) -> None:
        self.synced = offset

    # -- work ---

    def step(self) -> None:
        self.wall_ms += self.random.randrange(1000)
        work = self.random.choices(
            (
                self.append,
                self.append_idempotent,
                self.sync_part,
                self.checkpoint,
                self.truncate,
                self.retain,
                self.lead,
            ),
            (30, 30, 30, 5, 2, 3, 2),
        )[0]
        self.doing = work.__name__
        work()

    def _fresh(self) -> list[bytes]:
        values = []
        for _ in range(self.random.randrange(1, 4)):
            self.count += 1
            values.append(b"%d." % self.count + b"x" * self.random.choice((0, 10, 700)))
        return values

    def _took(self, appended: Appended | ErrorCode, values: list[bytes]) -> None:
        if appended is ErrorCode.RECORD_LIST_TOO_LARGE:
            return
        assert isinstance(appended, Appended), appended
        assert appended.base_offset == len(self.values)
        self.values += values

    def append(self) -> None:
        values = self._fresh()
        batch = a_batch(*values, timestamp=self.wall_ms)
        self._took(self.log.append(batch, leader_epoch=self.epoch, wall_ms=self.wall_ms), values)

    def append_idempotent(self) -> None:
        producer = self.random.choice(self.producers)
        values = self._fresh()
        first = producer.sequence
        batch = a_batch(*values, timestamp=self.wall_ms, producer_id=producer.producer_id, sequence=first)
        appended = self.log.append(batch, leader_epoch=self.epoch, wall_ms=self.wall_ms)
        if appended is ErrorCode.RECORD_LIST_TOO_LARGE:
            return
        self._took(appended, values)
        assert isinstance(appended, Appended)
        producer.sent.append((first, appended.base_offset, values))
        producer.sequence += len(values)

    def sync_part(self) -> None:
        """Begin a sync, or end the oldest under way: appends, rolls, truncations and a second sync come in between."""
        if self.under_way and (len(self.under_way) == 2 or self.random.random() < 0.6):
            work, undone = self.under_way.pop(0)
            for file in work.files:
                file.sync()
            for path in work.directories:
                self.disk.sync_directory(path)
            self.log.end_sync(work, None)
            del self.undone[:undone]
            self.under_way = [(later, count - undone) for later, count in self.under_way]
        elif (work := self.log.begin_sync()) is not None:
            self.under_way.append((work, len(self.undone)))

    def checkpoint(self) -> None:
        self.directory.checkpoint_recovery_points()
        self.directory.checkpoint_log_starts()

    def truncate(self) -> None:
        if len(self.values) - self.start < 5:
            return
        self.undone.append((list(self.values), copy.deepcopy(self.producers)))
        self.log.truncate_to(self.random.randrange(max(self.start, len(self.values) - 8), len(self.values)))
        self._shrunk_to(self.log.end_offset)
        self.lead()  # a log is cut only for a later leader

    def _shrunk_to(self, end: int) -> None:
        del self.values[end:]
        self.synced = min(self.synced, end)
        for producer in self.producers:
            producer.sent = [sent for sent in producer.sent if sent[1] + len(sent[2]) <= end]
            producer.sequence = producer.sent[-1][0] + len(producer.sent[-1][2]) if producer.sent else 0

    def retain(self) -> None:
        self.log.set_high_watermark(self.log.synced_offset)
        self.directory.apply_retention(self.wall_ms)
        self.start = self.log.log_start_offset

    def lead(self) -> None:
        self.epoch += 1
        self.log.begin_epoch(self.epoch)

    # -- crash and check ---

    def crash(self) -> None:
        self.disk.crash(self.random)
        self.under_way = []
        self.reopen()

    def reopen(self) -> None:
        self.directory = a_directory(self.disk)
        assert not self.directory.clean
        (found,) = self.directory.found
        assert found.topic_id == TOPIC_ID
        synced = self.synced
        self.log = self.directory.open_log(found, **self._how())  # type: ignore[arg-type]
        assert self.log.damaged_at is None
        assert self.log.end_offset >= synced, "a synced record is gone"
        assert self.log.log_start_offset >= self.start, "the start went back"
        self.start = self.log.log_start_offset
        self.check()
        self.synced = self.log.synced_offset

    def check(self) -> None:
        log = self.log
        assert log.synced_offset == log.end_offset == log.recovery_point
        found = records_of(log, max_bytes=self.random.choice((1, 300, 1 << 20)))
        assert [record.offset for record in found] == list(range(log.log_start_offset, log.end_offset))
        got = [record.value for record in found]
        for values, producers in [(self.values, self.producers), *reversed(self.undone)]:
            if got == values[log.log_start_offset : log.end_offset] and log.end_offset <= len(values):
                self.values, self.producers = values, producers
                break
        else:
            raise AssertionError("records out of nowhere")
        self.undone = []
        self._shrunk_to(log.end_offset)
        assert log.latest_epoch <= self.epoch
        for producer in self.producers:
            for first, offset, values in producer.sent[-5:]:
                again = a_batch(*values, timestamp=T0, producer_id=producer.producer_id, sequence=first)
                answer = log.append(again, leader_epoch=self.epoch, wall_ms=self.wall_ms)
                assert isinstance(answer, Appended) and answer.duplicate and answer.base_offset == offset, answer


@pytest.fixture(params=[(8 << 20, 64 << 20), (300, 900)], ids=["as shipped", "often"])
def _checkpoints(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sync write indexes and snapshots at the default sizes, which these small logs never reach, or often."""
    monkeypatch.setattr(syncing, "CHECKPOINT_BYTES", request.param[0])
    monkeypatch.setattr(syncing, "SNAPSHOT_BYTES", request.param[1])


@pytest.mark.usefixtures("_checkpoints")
@pytest.mark.parametrize("block", range(6))
def test_whatever_was_synced_survives_any_crash_and_nothing_else_appears(block: int) -> None:
    for seed in range(block * 12, block * 12 + 12):
        world = World(seed)
        try:
            for _ in range(world.random.randrange(1, 5)):
                for _ in range(world.random.randrange(60)):
                    world.step()
                world.crash()
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}: {fault}") from fault


@pytest.mark.parametrize(
    ("seed", "often"),
    [
        (40009, False),  # recovery left no snapshot from which a truncation could be replayed
        (40062, False),  # a snapshot of a cut tail was used as the state of the new one
        (40088, False),  # a cut tail came back below a batch of a later epoch
        (45077, True),  # a truncation let retention pass the last snapshot
        (40726, True),  # an unsynced snapshot took the place of a synced one
        (31631, True),  # retention went up to a snapshot that was not on disk yet
        (40254, True),  # index entries that a cut had left behind were trusted
    ],
)
def test_a_seed_that_once_failed_passes(seed: int, often: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if often:
        monkeypatch.setattr(syncing, "CHECKPOINT_BYTES", 300)
        monkeypatch.setattr(syncing, "SNAPSHOT_BYTES", 900)
    world = World(seed)
    for _ in range(world.random.randrange(1, 5)):
        for _ in range(world.random.randrange(100)):
            world.step()
        world.crash()


@pytest.mark.usefixtures("_checkpoints")
@pytest.mark.parametrize("block", range(6))
def test_the_power_may_go_before_any_single_operation(block: int) -> None:
    for seed in range(1000 + block * 15, 1000 + block * 15 + 15):
        world = World(seed)
        try:
            for _ in range(world.random.randrange(10, 40)):
                world.step()
            world.disk.cut_after = world.disk.operations + world.random.randrange(30)
            with pytest.raises(PowerCut):
                while True:
                    world.step()
            if world.doing == "truncate":  # interrupted: it cuts at most eight records
                world.synced = min(world.synced, max(0, len(world.values) - 9))
            world.crash()
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}: {fault}") from fault


def _directory_with_a_log(disk: SimDisk, **options: object) -> tuple[LogDirectory, Log]:
    directory = a_directory(disk)
    log = directory.create_log(
        "t",
        0,
        TOPIC_ID,
        config=config(**options),
        wall_ms=T0,
        producer_expiration_ms=DAY_MS,
        on_synced=lambda _: None,
    )
    return directory, log


def _check_state(disk: SimDisk, options: dict[str, object], *, at_least: int, values: list[bytes]) -> None:
    directory = a_directory(disk)
    (found,) = directory.found
    log = directory.open_log(
        found, config=config(**options), wall_ms=T0, producer_expiration_ms=DAY_MS, on_synced=lambda _: None
    )
    assert log.damaged_at is None
    assert log.end_offset >= at_least
    got = [record.value for record in records_of(log)]
    assert got == values[: len(got)] and len(got) == log.end_offset
    again = a_batch(values[0], producer_id=1, sequence=0)
    answer = log.append(again, leader_epoch=0, wall_ms=T0)
    assert isinstance(answer, Appended) and answer.duplicate is bool(got)


def _every_cut(work: object, options: dict[str, object], values: list[bytes]) -> int:
    """Run `work` up to each of its operations, and open every legal state of the disk there."""
    states = 0
    cut = 0
    while True:
        disk = SimDisk()
        directory, log = _directory_with_a_log(disk, **options)
        base = disk.operations
        disk.cut_after = base + cut
        promised = [0]
        try:
            work(directory, log, promised)  # type: ignore[operator]
            ended = True
        except PowerCut:
            ended = False
        disk.cut_after = None
        for state in disk.legal_states():
            states += 1
            _check_state(state, options, at_least=promised[0], values=values)
        if ended:
            return states
        cut += 1


def test_every_legal_crash_state_of_a_roll_and_its_sync_keeps_what_was_synced() -> None:
    values = [b"a" * 10, b"b" * 10, b"c" * 10]

    def work(directory: LogDirectory, log: Log, promised: list[int]) -> None:
        for at, value in enumerate(values):
            batch = a_batch(value, producer_id=1, sequence=at)
            assert isinstance(log.append(batch, leader_epoch=0, wall_ms=T0), Appended)
            if at != 1:
                sync(log)
                promised[0] = log.synced_offset

    states = _every_cut(work, {"internal_segment_bytes": 160, "index_interval_bytes": 0}, values)
    assert states > 300


def test_every_legal_crash_state_of_a_checkpoint_keeps_what_was_synced() -> None:
    values = [b"a" * 10, b"b" * 10]

    def work(directory: LogDirectory, log: Log, promised: list[int]) -> None:
        for at, value in enumerate(values):
            batch = a_batch(value, producer_id=1, sequence=at)
            assert isinstance(log.append(batch, leader_epoch=0, wall_ms=T0), Appended)
            log.sync_now()
            promised[0] = log.synced_offset
            directory.checkpoint_recovery_points()

    assert _every_cut(work, {"internal_segment_bytes": 1000, "index_interval_bytes": 0}, values) > 50


def test_a_failed_sync_is_never_retried_as_if_nothing_had_been_lost() -> None:
    disk = SimDisk()
    _, log = _directory_with_a_log(disk)
    log.append(a_batch(b"a"), leader_epoch=0, wall_ms=T0)
    disk.fail("sync", errno.EIO, where=".log")
    with pytest.raises(OSError):
        sync(log)
    assert log.synced_offset == 0
    assert log.begin_sync() is None
    assert log.append(a_batch(b"b"), leader_epoch=0, wall_ms=T0) is ErrorCode.KAFKA_STORAGE_ERROR
