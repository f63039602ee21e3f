"""One attempt of a Spark task at writing its rows exactly once: fence, read the marker, then skip or write.

Pure: `do` says what comes next, the caller carries it out and tells the outcome. Spark may run several attempts of a
task at once, may run one again after it has committed, and may leave one behind without waiting for it. Rows and marker
are in one transaction, and the marker is read after every older attempt has been fenced: so it stays true until this
attempt itself commits or is fenced (rule G2).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ottla.spark.marker import BatchMarker, Content, SparkTask


class Do(Enum):
    """The caller's next step, and the method that takes its outcome."""

    FENCE = "take over the transactional id: fenced()"
    READ_MARKER = "read this task's marker, once no open transaction may change it: found()"
    READ_FIRST_MARKER = "read the marker of the query's task 0: found_first()"
    WRITE = "write all rows in a transaction: wrote(), or superseded()"
    COMMIT = "commit the transaction with `marker` in it: committed(), superseded() or commit_unknown()"
    AWAIT_MARKER = "see from time to time whether the id has a transaction: looked(); read the marker as it is: found()"
    COMPARE = "read all rows and write none: compared()"
    FINISHED = "the rows are in the topic, once"
    FAILED = "raise `failure`; Spark may try again"


SUPERSEDED = "a newer attempt has taken over the transactional id {name} and has not committed within {seconds:.0f} s"
DESERTED = (
    "another attempt has taken over the transactional id {name}, did not commit this batch and writes nothing any more"
)
TOO_OLD = (
    "the transaction was open for {seconds:.0f} s and was aborted: kafka.transaction.timeout.ms must be longer than a "
    "task takes from its first row to its last"
)
LOST_COMMIT = "the commit was not answered, and has not taken place"
OTHER_ROWS = (
    "was committed before with {before.rows} rows of digest {before.digest:016x} and came again with {now.rows} rows "
    "of digest {now.digest:016x}. A repeated batch must have the same rows in the same tasks: no random numbers, no "
    "clock but Spark's current_timestamp(), no other plan or options since"
)
OLD_CHECKPOINT = (
    "group {name} has the marker of batch {later} already, and this attempt wrote nothing. That is no fault where "
    "Spark has left the attempt behind. Else the checkpoint is older than the markers: it was deleted, restored or "
    "copied, or write_batch got a name that another query has. Start the query from its newest checkpoint; to write "
    "the batches again, give it another option 'delivery.prefix' and set 'delivery.missing.marker' to 'write'"
)
NO_MARKER = (
    "has no marker, and task 0 of the query has none either: nobody can tell whether this batch was written before. "
    "Markers are offsets of groups such as {name}. They expire (offsets.retention.minutes) where a query rests for "
    "long, go with a topic or group that is deleted, and are not there where the query has written at least once so "
    "far. To write the batch, start the query with option 'delivery.missing.marker' set to 'write'; look first whether "
    "its rows are in the topic already"
)


class NotWritten(Exception):
    """An attempt that ended without knowing whether its rows are in the topic."""


@dataclass(slots=True)
class TaskAttempt:
    """The machine of one attempt: its next step."""

    task: SparkTask
    timeout_ms: float
    """The longest time that a transaction is open, and that an attempt waits for the commit of one that fenced it."""
    quiet_ms: float = 10_000
    """The time without a transaction after which the attempt that fenced this one is given up."""
    write_without_markers: bool = False
    empty: bool = False
    """True if the task has no rows and leaves no marker: it begins at READ_MARKER, to find rows that it had before."""
    do: Do = Do.FENCE
    marker: BatchMarker | None = None
    """The marker to commit, or the one that was found committed."""
    failure: str = ""
    _deadline_ms: float = 0.0
    _busy_ms: float = 0.0
    """The time when the transactional id was last seen with a transaction, or this attempt was fenced."""
    _unknown: bool = False
    """True if a commit of this attempt may have taken place."""

    def fenced(self) -> None:
        """Note that every older attempt is fenced, and its transaction has ended."""
        assert self.do is Do.FENCE
        self.do = Do.READ_MARKER

    def found(self, marker: BatchMarker | None, now_ms: float) -> None:
        """Skip a committed batch. A marker of a later batch does not say that this one was written."""
        assert self.do in (Do.READ_MARKER, Do.AWAIT_MARKER)
        if marker is not None and marker.batch > self.task.batch:
            self._fail(OLD_CHECKPOINT.format(name=self.task.name, later=marker.batch))
        elif marker is not None and marker.batch == self.task.batch:
            self.marker = marker
            self.do = Do.COMPARE
        elif self.empty:
            self.do = Do.FINISHED
        elif self.do is Do.AWAIT_MARKER:
            if now_ms - self._busy_ms >= self.quiet_ms:
                self._fail(DESERTED.format(name=self.task.name))
            elif now_ms >= self._deadline_ms:
                self._fail(SUPERSEDED.format(name=self.task.name, seconds=self.timeout_ms / 1000))
        elif self._unknown:
            self._fail(LOST_COMMIT)
        elif marker is not None or self.task.batch == 0 or self.write_without_markers:
            self.do = Do.WRITE
        elif self.task.index == 0:
            self._fail(NO_MARKER.format(name=self.task.name))
        else:
            self.do = Do.READ_FIRST_MARKER

    def found_first(self, marker: BatchMarker | None) -> None:
        """Task 0 runs in every batch and always leaves a marker. If that one is gone, ours may be gone too."""
        assert self.do is Do.READ_FIRST_MARKER
        if marker is None:
            self._fail(NO_MARKER.format(name=self.task.name))
        elif marker.batch > self.task.batch:
            self._fail(OLD_CHECKPOINT.format(name=self.task.neighbour(0), later=marker.batch))
        else:
            self.do = Do.WRITE

    def wrote(self, content: Content) -> None:
        """Note that all rows are in the open transaction."""
        assert self.do is Do.WRITE
        self.marker = BatchMarker(self.task.batch, content)
        self.do = Do.COMMIT

    def superseded(self, now_ms: float, *, open_for_ms: float) -> None:
        """Wait for the attempt that has fenced this one.

        If this one failed at once, Spark would start another attempt, which would fence the newer one, and so on until
        Spark gives up.
        """
        assert self.do in (Do.WRITE, Do.COMMIT)
        if open_for_ms >= self.timeout_ms:
            self._fail(TOO_OLD.format(seconds=open_for_ms / 1000))
            return
        self._busy_ms = now_ms
        self._deadline_ms = now_ms + self.timeout_ms
        self.marker = None
        self.do = Do.AWAIT_MARKER

    def looked(self, now_ms: float, *, busy: bool) -> None:
        """Take in whether the transactional id has a transaction.

        If it has none for long, the attempt that fenced this one was left behind by an older batch, or has died before
        it wrote.
        """
        assert self.do is Do.AWAIT_MARKER
        if busy:
            self._busy_ms = now_ms

    def committed(self) -> None:
        assert self.do is Do.COMMIT
        self.do = Do.FINISHED

    def commit_unknown(self) -> None:
        """Note a commit without an answer, or with an error: once our transaction has ended the marker tells."""
        assert self.do is Do.COMMIT
        self._unknown = True
        self.marker = None
        self.do = Do.FENCE

    def compared(self, content: Content) -> None:
        """Compare all rows of this attempt with those that were committed."""
        assert self.do is Do.COMPARE and self.marker is not None
        if content == self.marker.content:
            self.do = Do.FINISHED
        else:
            self._fail(OTHER_ROWS.format(before=self.marker.content, now=content))

    def _fail(self, reason: str) -> None:
        self.failure = f"{self.task}: {reason}"
        self.do = Do.FAILED
