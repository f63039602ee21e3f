"""Judges the segments of a log at a start: which batches are sound, which are damage, and which are a torn end.

Called by recovery.py; opened_segments.py carries out what is judged here. The segments are compared with what is known
besides: the recovery point and the checkpointed high watermark say what was on disk, the log start where the first
segment begins, names where each segment ends. The last megabytes are read in any case, also after a clean stop, since a
disk may have dropped writes that it confirmed. Bytes that contradict all this, or lie in front of whole batches, are
damage: kept and refused, and their offsets are not given again. Only an end behind all of that, with nothing whole
behind it, is cut.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from ottla.storage.folder import LogFolder
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.opened_segments import OpenedSegments
from ottla.storage.producers.aborted_witness import AbortedWitness
from ottla.storage.segment.agreement import ends_at, has_rising_times, sound_entries
from ottla.storage.segment.chain import SegmentChain
from ottla.storage.segment.damage import Damage
from ottla.storage.segment.deleted_segments import deleted_in
from ottla.storage.segment.index import MAX_RELATIVE_OFFSET
from ottla.storage.segment.index_witness import IndexWitness
from ottla.storage.segment.names import LOG, SUFFIXES, bases_in, segment_path
from ottla.storage.segment.scan import ScannedHeader, first_header, scan_headers
from ottla.storage.segment.search import batch_at
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.walk import Bounds, Extent, KnownEpochs, Walk
from ottla.storage.values import Cost, Known

_NEVER = 2**63 - 1


class LogOpening:
    """One pass over the segments, from the first to the last."""

    def __init__(
        self, chain: SegmentChain, epochs: LeaderEpochs, noted: Damage, known: Known, *, wall_ms: int, cost: Cost
    ) -> None:
        """`noted`: the damage that was known before."""
        self._chain = chain
        self._folder: LogFolder = chain.folder
        self._leader_epochs = epochs
        self._noted = noted
        self._known = known
        self._wall_ms = wall_ms
        self._cost = cost
        self.opened = OpenedSegments(chain, known, wall_ms=wall_ms, cost=cost)
        self._epochs = KnownEpochs(epochs.entries)
        self._reads_all = bool(noted.fault) or not epochs.entries
        """The notes of damage or the leader epochs are lost: a batch that was not read may be damaged."""
        self._epoch = -1
        self.epochs_are_older = False
        """The leader-epoch checkpoint lacks an epoch that it once held."""
        self.aborted = AbortedWitness(self._folder, ())
        """The transaction indexes as they were found."""
        self._witness: IndexWitness | None = None
        """The witness of the segment that is being scanned."""
        self._rebuilt: dict[int, Segment] = {}
        """Segments with an index that was missing or wrong, by their bases."""

    def run(self) -> None:
        """Open all segments; the last of them is sound then and may be written."""
        known, bases = self._known, self._bases()
        tails = self._tails(bases)
        for number, base in enumerate(bases):
            following = bases[number + 1] if number + 1 < len(bases) else None
            segment = self._open(base)
            if following is not None and (known.clean or following < known.recovery_point):
                self._take_closed(segment, following, tails.get(base))
            elif torn := self._take_written(segment, following):
                self.opened.cut_behind(segment, torn, bases[number + 1 :])
                break
        self._say_rebuilt()
        self.opened.begin_behind_damage()

    def _open(self, base: int) -> Segment:
        segment = self.opened.open(base)
        if not self.aborted.has_file(base):
            segment.aborted.begin_empty()
        return segment

    # --- which segments there are ---

    def _bases(self) -> list[int]:
        """Base offsets of the segments that hold offsets of the log; a missing first one is put back without batches.

        A file that retention has renamed moves no start here: deleted_segments.py has judged it before.
        """
        start = self._known.log_start
        names = self._folder.disk.list(self._folder.path)
        self.aborted = AbortedWitness(self._folder, names)
        bases = bases_in(names)
        self._remove_orphans(names, bases)
        if not bases:
            first = max(start, 0)
            held_records = self._known.durable_end > first
            bases = [_segment_below(first, names) if held_records else first]
            self.opened.put_back(bases[0])
        elif bases[0] > (first := self._first_offset(bases)):
            bases.insert(0, first := _segment_below(first, names))
            self.opened.put_back(first)
        if start <= max(self._known.durable_end, bases[-1]):
            while len(bases) > 1 and bases[1] <= start:
                self._doom(bases.pop(0))
        for base in deleted_in(names):
            if base < start:
                self._doom(base, renamed=True)
        return bases

    def _first_offset(self, bases: Sequence[int]) -> int:
        """The log start offset, as far as anything besides the first segment's name tells it.

        That a start was moved there is told by its checkpoint, or by the leader epochs, which are cut before files go.
        """
        base, disk, directory = bases[0], self._folder.disk, self._folder.path
        start, entries = max(self._known.log_start, 0), self._leader_epochs.entries
        if start >= base:
            return base
        if entries:
            return min(base, max(start, entries[0][1]))
        held = any(disk.file_size(segment_path(directory, one, LOG)) for one in bases)
        return start if held else base  # nothing was ever written behind a start that is not on disk yet

    def _doom(self, base: int, *, renamed: bool = False) -> None:
        """Mark a segment below the log start for deletion by retention; a start itself deletes nothing."""
        segment = Segment(self._folder.disk, self._folder.path, base, created_ms=self._wall_ms)
        self._chain.doom(segment, self._wall_ms, renamed=renamed)

    def _remove_orphans(self, names: Sequence[str], bases: Sequence[int]) -> None:
        """Remove indexes that a crash has left of removed segments: a new segment of that name would use them."""
        known = {f"{base:020d}" for base in bases}
        for name in names:
            stem, suffix = name[:20], name[20:]
            if suffix in SUFFIXES[1:] and stem not in known and stem.isdecimal():
                self._folder.disk.remove(posixpath.join(self._folder.path, name))

    # --- closed segments below the recovery point ---

    def _tails(self, bases: Sequence[int]) -> dict[int, int]:
        """Positions from which closed segments near the end of the log are read again, by their bases."""
        left, found = self._known.tail_bytes, {}
        for number, base in enumerate(reversed(bases)):
            if left <= 0:
                break
            size = self._folder.disk.file_size(segment_path(self._folder.path, base, LOG))
            if number:
                found[base] = max(0, size - left)
            left -= size
        return found

    def _take_closed(self, segment: Segment, following: int, tail: int | None) -> None:
        """Take a segment unread if its indexes are whole and its last batches end where the next segment begins.

        Damage that was noted before is believed, so that no start reads such a segment again. If the notes or
        the leader epochs are lost, it is read. From the position `tail` on it is read in any case.
        """
        noted, whole = self._noted.of(segment.base_offset), segment.open_sealed(following)
        fits = whole and (bool(noted) or ends_at(segment, following))
        if self._reads_all:
            tail = 0
        elif noted:
            tail = None
        if fits and (tail is None or not self._is_damaged(segment, following, tail)):
            return
        self._cost.rebuilt_indexes += 1
        extents = self._examine(segment, following)
        if not extents and whole and self._known.compacted:
            self._cost.say(segment.base_offset, following, segment.size,
                           f"{segment.path(LOG)} does not fit its index, which was built anew: if the file is from "
                           "before a compaction, older values of its keys are back")  # fmt: skip
        elif not extents:
            self._rebuilt[segment.base_offset] = segment
        self.opened.note(segment, extents, following)

    def _examine(self, segment: Segment, following: int) -> list[Extent]:
        """Read all of a closed segment: its indexes are built anew from its sound batches."""
        size = segment.file.size()
        segment.index.reset()
        segment.times.reset()
        segment.size, segment.max_timestamp = 0, -1
        walk = Walk(segment.file, self._closed(following), size=size, expected=segment.base_offset)
        extents: list[Extent] = []
        for step in walk.steps():
            if isinstance(step, Extent):
                extents.append(step)
            else:
                segment.note_header(step)
        self._cost.scanned_bytes += size
        if self._known.compacted:
            segment.end_index()
        segment.size, segment.next_offset = size, following
        segment.write_indexes()
        segment.forget_recent()
        return extents

    def _is_damaged(self, segment: Segment, following: int, tail: int) -> bool:
        """Read a closed segment whose indexes are whole, from the last index entry at or below the position `tail` on.

        Reads refuse a sector that the disk cannot read anyway.
        """
        file = self._folder.disk.open(segment.path(LOG))
        try:
            position, expected = batch_at(segment, file, tail)
            self._cost.scanned_bytes += segment.size - position
            walk = Walk(file, self._closed(following), size=segment.size, position=position, expected=expected)
            return any(isinstance(step, Extent) for step in walk.steps())
        except OSError:
            return False
        finally:
            segment.index.close()
            file.release()

    def _closed(self, following: int) -> Bounds:
        return Bounds(
            following,
            closed=True,
            epochs=self._epochs,
            start=self._known.log_start,
            following=lambda: self._first_header(following),
        )

    def _first_header(self, base: int | None) -> ScannedHeader | None:
        """The header of a segment's first batch; None without a segment, a batch or a readable file."""
        return None if base is None else first_header(self._folder.disk, segment_path(self._folder.path, base, LOG))

    # --- the last segment ---

    def _take_written(self, segment: Segment, following: int | None, *, anew: bool = False) -> Extent | None:
        """Read from the last index entry that can be trusted; return a torn end, from which on the log is to be cut.

        Its last offset is that of the last batch in the segment that goes with it.
        """
        extents: list[Extent] = []
        bounds = Bounds(
            segment.base_offset + MAX_RELATIVE_OFFSET if following is None else following,
            closed=following is not None,
            epochs=self._epochs,
            sparse=self._known.compacted,
            start=self._known.log_start,
            following=lambda: self._first_header(following),
        )
        size = segment.file.size()
        start, expected = (0, segment.base_offset) if anew else self._trusted_start(segment, size)
        walk = Walk(
            segment.file, bounds, size=size, position=start, expected=expected, epoch=self._epoch, is_whole=True
        )
        steps = walk.steps()
        for step in steps:
            if not isinstance(step, Extent):
                self._take(segment, step)
            elif self._is_damage(step):
                extents.append(step._replace(next_offset=max(step.next_offset, self._least_end(step, following))))
            else:
                ends = [
                    step.first_offset,
                    *(behind.next_offset for behind in steps if isinstance(behind, ScannedHeader)),
                ]
                self.opened.truncate(segment, step)
                self.opened.note(segment, extents, step.first_offset)
                return step._replace(next_offset=ends[-1], end=size)
        if not (extents or anew) and segment.has_wrong_time(is_whole=self._known.is_whole):
            segment.restart_from(0)
            self._note_index(segment, True)
            return self._take_written(segment, following, anew=True)
        self._epoch = walk.epoch
        if walk.met_hole:
            self._chain.met_hole()
        self._note_index(segment, self._witness is not None and self._witness.lacks())
        if following is not None:
            segment.next_offset, segment.size = following, size
            segment.forget_recent()
        elif extents:
            segment.next_offset, segment.size = max(segment.next_offset, extents[-1].next_offset), size
        if extents:
            self.opened.note_near_end(segment, extents)
        else:
            # Index entries may be on disk though their batches are lost.
            segment.aborted.cut_end(segment.next_offset, base_offset=segment.base_offset)
        return None

    def _take(self, segment: Segment, header: ScannedHeader) -> None:
        segment.note_header(header)
        if self._witness is not None:
            self._witness.saw(header)
        self._cost.scanned_bytes += header.size
        if header.leader_epoch > self._leader_epochs.latest:
            known = self._known
            if known.clean or known.cache_kept or header.base_offset < known.durable_end:
                self.epochs_are_older = True  # an epoch is on disk before its first record is appended
            self._leader_epochs.assign(header.leader_epoch, header.base_offset)

    def _least_end(self, extent: Extent, following: int | None) -> int:
        """The least end of an extent: at the end of the last segment, damage covers all that was surely synced."""
        behind_all = following is None and extent.next_offset == extent.first_offset
        return self._known.durable_end if behind_all else 0

    def _is_damage(self, extent: Extent) -> bool:
        """True if the extent was on disk, or lies in front of whole batches and no power was lost since."""
        known = self._known
        if extent.first_offset < known.durable_end:
            return True
        return (known.clean or known.cache_kept) and extent.next_offset > extent.first_offset

    def _trusted_start(self, segment: Segment, size: int) -> tuple[int, int]:
        """Position and offset to begin at: the last index entry below the recovery point that points at its batch."""
        limit = _NEVER if self._known.clean else self._known.recovery_point
        self._witness = None
        if not segment.load_indexes():
            segment.index.reset()
            segment.times.reset()
            self._note_index(segment, size > 0 and segment.base_offset < limit)
            return 0, segment.base_offset
        segment.size = size
        self._witness = IndexWitness(segment, limit, is_whole=self._known.is_whole)
        rising = sound_entries(segment, size)
        whole = len(segment.index.keys or ())
        known = 0 if self._reads_all else bisect_left(segment.index.keys or (), limit - segment.base_offset, 0, rising)
        last, header = self._last_sound(segment, size, known)
        is_wrong = (rising < whole and self._known.is_whole) or last < known or not has_rising_times(segment)
        count = bisect_right(segment.index.values, size - self._known.tail_bytes, 0, last)
        if count < last:
            count, header = self._last_sound(segment, size, count)
        start = segment.restart_from(count, header, at_once=not self._known.clean)
        if count and header is not None:
            self._note_index(segment, rising < whole or start != header.position)
            return (start, header.base_offset) if start else (0, segment.base_offset)
        self._note_index(segment, is_wrong)
        return start, segment.base_offset

    def _last_sound(self, segment: Segment, size: int, count: int) -> tuple[int, ScannedHeader | None]:
        """The number of index entries up to the last that points at its batch, of the first `count`, and its header."""
        while count:
            key, position = (segment.index.keys or ())[count - 1], segment.index.values[count - 1]
            header = next(scan_headers(segment.file, position, size, chunk_bytes=64), None)
            if header is not None and header.last_offset == key + segment.base_offset:
                return count, header
            count //= 2
        return 0, None

    def _note_index(self, segment: Segment, is_wrong: bool) -> None:
        if is_wrong:
            self._rebuilt[segment.base_offset] = segment

    def _say_rebuilt(self) -> None:
        """Log one line for all segments whose indexes were built anew, since there may be thousands."""
        segments = [self._rebuilt[base] for base in sorted(self._rebuilt)]
        if not segments:
            return
        others = f" and of {len(segments) - 1} more segments" if len(segments) > 1 else ""
        what = f"an index of {segments[0].path(LOG)}{others} was missing or wrong, and was built anew"
        self._cost.say(segments[0].base_offset, segments[-1].next_offset, sum(one.size for one in segments), what)


def _segment_below(offset: int, names: Sequence[str]) -> int:
    """Base offset of the missing segment that held an offset, from its index or its .aside file.

    The log may start inside of its first batch: a segment that begins at the start has no room for that batch.
    """
    stems = [int(name[:20]) for name in names if name[:20].isdecimal() and name[20:].startswith(SUFFIXES)]
    return max((stem for stem in stems if stem <= offset), default=offset)
