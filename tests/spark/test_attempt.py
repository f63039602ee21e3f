"""One attempt at writing exactly once, by itself and in every interleaving with others."""

import random

import pytest
from attempt_model import ENDED, Violated, World, after, alone, explore, judge, machine

from ottla.client.model import CommittedOffset
from ottla.spark.attempt import Do, TaskAttempt
from ottla.spark.marker import BatchMarker, Content, SparkTask

ROWS = Content(2, 7)


def an_attempt(batch=3, index=1, **options):
    return TaskAttempt(SparkTask("q", batch, index), timeout_ms=1000, **options)


def after_reading(attempt, marker):
    attempt.fenced()
    attempt.found(marker, 0)
    return attempt


def test_rows_are_written_and_committed_with_their_marker():
    attempt = after_reading(an_attempt(), BatchMarker(2, ROWS))
    assert attempt.do is Do.WRITE
    attempt.wrote(ROWS)
    assert (attempt.do, attempt.marker) == (Do.COMMIT, BatchMarker(3, ROWS))
    attempt.committed()
    assert attempt.do is Do.FINISHED


def test_the_marker_is_read_only_after_older_attempts_are_fenced():
    attempt = an_attempt()
    assert attempt.do is Do.FENCE
    with pytest.raises(AssertionError):
        attempt.found(None, 0)


def test_a_committed_batch_is_compared_and_skipped():
    attempt = after_reading(an_attempt(), BatchMarker(3, ROWS))
    assert attempt.do is Do.COMPARE
    attempt.compared(ROWS)
    assert attempt.do is Do.FINISHED


def test_a_committed_batch_that_comes_again_with_other_rows_fails_with_a_sentence():
    attempt = after_reading(an_attempt(), BatchMarker(3, ROWS))
    attempt.compared(Content(3, 7))
    assert attempt.do is Do.FAILED
    assert "was committed before with 2 rows" in attempt.failure and "came again with 3 rows" in attempt.failure


@pytest.mark.parametrize("own", [BatchMarker(5, ROWS), None])
def test_a_batch_before_those_of_the_markers_fails_with_a_sentence(own):
    """A later marker is no proof: after a checkpoint was deleted the same numbers mean other batches."""
    attempt = after_reading(an_attempt(), own)
    if own is None:
        attempt.found_first(BatchMarker(5, ROWS))
    assert attempt.do is Do.FAILED
    assert "the marker of batch 5 already" in attempt.failure and "delivery.prefix" in attempt.failure


def test_a_fenced_attempt_fails_where_the_query_has_gone_on_without_it():
    attempt = after_reading(an_attempt(), BatchMarker(2, ROWS))
    attempt.superseded(50, open_for_ms=9)
    attempt.found(BatchMarker(4, ROWS), 60)
    assert attempt.do is Do.FAILED and "the marker of batch 4 already" in attempt.failure


@pytest.mark.parametrize(
    ("marker", "do"), [(None, Do.FINISHED), (BatchMarker(2, ROWS), Do.FINISHED), (BatchMarker(3, ROWS), Do.COMPARE)]
)
def test_a_task_without_rows_only_looks_whether_it_had_some(marker, do):
    attempt = an_attempt(empty=True, do=Do.READ_MARKER)
    attempt.found(marker, 0)
    assert attempt.do is do


def test_the_first_batch_needs_no_marker():
    assert after_reading(an_attempt(batch=0), None).do is Do.WRITE


def test_a_task_that_is_new_to_the_query_writes_where_task_0_has_a_marker():
    attempt = after_reading(an_attempt(), None)
    assert attempt.do is Do.READ_FIRST_MARKER
    attempt.found_first(BatchMarker(2, ROWS))
    assert attempt.do is Do.WRITE


@pytest.mark.parametrize("index", [0, 1])
def test_a_later_batch_without_any_marker_is_refused_with_a_sentence(index):
    attempt = after_reading(an_attempt(index=index), None)
    if index:
        attempt.found_first(None)
    assert attempt.do is Do.FAILED
    assert "delivery.missing.marker" in attempt.failure and "task 0" in attempt.failure


def test_a_later_batch_without_any_marker_is_written_where_that_is_asked_for():
    assert after_reading(an_attempt(index=0, write_without_markers=True), None).do is Do.WRITE


def test_a_fenced_attempt_waits_for_the_commit_of_the_one_that_fenced_it():
    attempt = after_reading(an_attempt(), BatchMarker(2, ROWS))
    attempt.superseded(50, open_for_ms=9)
    attempt.found(BatchMarker(2, ROWS), 1049)
    assert attempt.do is Do.AWAIT_MARKER
    attempt.found(BatchMarker(3, ROWS), 1049)
    attempt.compared(ROWS)
    assert attempt.do is Do.FINISHED


def test_a_fenced_attempt_fails_where_nobody_commits():
    attempt = after_reading(an_attempt(), BatchMarker(2, ROWS))
    attempt.superseded(50, open_for_ms=9)
    attempt.found(BatchMarker(2, ROWS), 1050)
    assert attempt.do is Do.FAILED and "a newer attempt" in attempt.failure


def test_a_fenced_attempt_fails_soon_where_nobody_writes_any_more():
    attempt = after_reading(an_attempt(quiet_ms=100), BatchMarker(2, ROWS))
    attempt.superseded(50, open_for_ms=9)
    attempt.looked(100, busy=True)
    attempt.looked(190, busy=False)
    attempt.found(BatchMarker(2, ROWS), 199)
    assert attempt.do is Do.AWAIT_MARKER
    attempt.found(BatchMarker(2, ROWS), 200)
    assert attempt.do is Do.FAILED and "writes nothing any more" in attempt.failure


def test_an_attempt_whose_transaction_was_open_for_too_long_says_so():
    attempt = after_reading(an_attempt(), BatchMarker(2, ROWS))
    attempt.superseded(5000, open_for_ms=1000)
    assert attempt.do is Do.FAILED and "kafka.transaction.timeout.ms" in attempt.failure


@pytest.mark.parametrize(("marker", "do"), [(2, Do.FAILED), (3, Do.COMPARE)])
def test_a_commit_without_an_answer_is_settled_by_fencing_and_reading_again(marker, do):
    attempt = after_reading(an_attempt(), BatchMarker(2, ROWS))
    attempt.wrote(ROWS)
    attempt.commit_unknown()
    assert attempt.do is Do.FENCE
    assert after_reading(attempt, BatchMarker(marker, ROWS)).do is do


def test_speculative_twins_both_succeed_though_one_fences_the_other():
    first, twin = an_attempt(), an_attempt()
    after_reading(first, BatchMarker(2, ROWS))
    after_reading(twin, BatchMarker(2, ROWS))
    first.superseded(0, open_for_ms=9)
    twin.wrote(ROWS)
    twin.committed()
    first.found(BatchMarker(3, ROWS), 10)
    first.compared(ROWS)
    assert first.do is twin.do is Do.FINISHED


def test_in_every_interleaving_each_batch_is_written_once_and_in_order():
    worlds = explore(attempts=3, batches=2)
    assert len(worlds) > 10_000
    assert any(world.topic == (0, 1) for world in worlds.values())
    assert any(len(world.late) == 2 for world in worlds.values())
    assert any(world.started == 3 and world.topic == (0,) and not world.reported for world in worlds.values())


def test_whatever_happened_a_fresh_attempt_finishes():
    for world in explore(attempts=2, batches=2).values():
        reached = alone(world)
        judge(reached)
        assert reached.running[0].attempt.do is Do.FINISHED


@pytest.mark.parametrize("seed", range(20))
def test_random_walks_with_many_attempts_and_batches_keep_the_promise(seed):
    chance, world = random.Random(seed), World()
    for _ in range(400):
        possible = list(after(world, machine, attempts=40, batches=10))
        if not possible:
            break
        world = chance.choice(possible)
        judge(world)
    reached = alone(world)
    judge(reached)
    assert reached.running[0].attempt.do is Do.FINISHED


class FencesLast(TaskAttempt):
    """Reads the marker, then fences, then writes."""

    def found(self, marker, now_ms):
        if self.do is Do.AWAIT_MARKER or self._unknown:
            super().found(marker, now_ms)
        elif marker is not None and marker.batch >= self.task.batch:
            self.marker, self.do = marker, Do.COMPARE
        else:
            self.do = Do.FENCE

    def fenced(self):
        if self._unknown:
            super().fenced()
        else:
            self.do = Do.WRITE


class SkipsItsOwnBatchOnly(TaskAttempt):
    def found(self, marker, now_ms):
        if marker is not None and marker.batch > self.task.batch:
            marker = None
        super().found(marker, now_ms)


class TakesAnUnansweredCommitForDone(TaskAttempt):
    def commit_unknown(self):
        self.do = Do.FINISHED


class TakesBeingFencedForDone(TaskAttempt):
    def superseded(self, now_ms, *, open_for_ms):
        self.do = Do.FINISHED


class NeverReads(TaskAttempt):
    def fenced(self):
        if self._unknown:
            super().fenced()
        else:
            self.do = Do.WRITE


@pytest.mark.parametrize(
    "broken",
    [FencesLast, SkipsItsOwnBatchOnly, TakesAnUnansweredCommitForDone, TakesBeingFencedForDone, NeverReads],
)
def test_the_model_notices_when_a_safeguard_is_taken_out(broken):
    first = Do.READ_MARKER if broken is FencesLast else Do.FENCE
    with pytest.raises(Violated):
        explore(lambda task: broken(task, timeout_ms=1000, do=first), attempts=3, batches=2)


def test_ended_attempts_take_no_step():
    assert {Do.FINISHED, Do.FAILED} == set(ENDED)


def test_content_is_the_same_in_any_order():
    assert Content(1, 2**64 - 1) + Content(2, 3) == Content(2, 3) + Content(1, 2**64 - 1) == Content(3, 2)


def test_a_marker_survives_the_way_through_a_group():
    marker = BatchMarker(41, Content(1000, 0xFEDC))
    offset = marker.to_offset()
    assert offset.offset == 42
    assert BatchMarker.of(offset, "g") == marker


@pytest.mark.parametrize(
    "offset",
    [
        CommittedOffset(42, ""),
        CommittedOffset(42, "[]"),
        CommittedOffset(42, '{"batch": 40, "rows": 1, "digest": "0"}'),
        CommittedOffset(42, '{"batch": 41, "rows": 1, "digest": "x"}'),
    ],
)
def test_an_offset_of_another_program_is_refused_with_a_sentence(offset):
    with pytest.raises(ValueError, match="no marker of this sink"):
        BatchMarker.of(offset, "g")
