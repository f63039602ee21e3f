"""Compares the `.txnindex` files that a start finds with the note about them, and builds wrong ones from the batches.

A file that the note does not vouch for is not served: its entries follow from the markers, and from the producers'
state where its segment begins. Behind the snapshot from which the producers are known, replay.py has read the markers.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence

from ottla.storage.checkpoint import ABORTED, ASIDE
from ottla.storage.folder import LogFolder
from ottla.storage.producers.aborted_note import AbortedNote, read_note
from ottla.storage.producers.producers import Producers
from ottla.storage.producers.replay import replay_segment
from ottla.storage.producers.snapshot import load_newest
from ottla.storage.segment.aborted import ENTRY, AbortedEntry, AbortedIndex, entries_in
from ottla.storage.segment.chain import SegmentChain
from ottla.storage.segment.damage import Damage
from ottla.storage.segment.names import ABORTED_INDEX, base_offset_of
from ottla.storage.segment.segment import Segment

_NAME_CHARS = 20 + len(ABORTED_INDEX)


class AbortedWitness:
    """The files and the note of one log, as they were before anything was cut or built."""

    def __init__(self, folder: LogFolder, names: Iterable[str]) -> None:
        """`names`: of the files that are there; only those that are needed are read."""
        self._bodies: dict[int, bytes] = {}
        for name in names:
            base = base_offset_of(name, ABORTED_INDEX)
            if base is not None:
                self._bodies[base] = folder.disk.read(posixpath.join(folder.path, name))
            elif name.endswith(ASIDE) and (base := base_offset_of(name[:_NAME_CHARS], ABORTED_INDEX)) is not None:
                self._bodies.setdefault(base, b"")  # it could not be read, and was set aside
        self._note = read_note(folder.disk, folder.path) if ABORTED in names else None
        self.built_anew = False
        """Entries were taken from the batches."""

    def has_file(self, base_offset: int) -> bool:
        return base_offset in self._bodies

    def build(self, chain: SegmentChain, damage: Damage, *, replayed_from: int) -> None:
        """Take the entries from the batches where nothing vouches for them, below `replayed_from`."""
        wanted = [one for one in chain.segments if one.base_offset < replayed_from or not one.size]
        for run in _runs(wanted, [self._is_unproven(one, replayed_from) for one in wanted]):
            self.built_anew = True
            _build(chain, damage, run)

    def _is_unproven(self, segment: Segment, replayed_from: int) -> bool:
        """Without a note there is one fault, and each file that was there is."""
        base, note = segment.base_offset, self._note
        if note is None:
            return base in self._bodies
        if note.end_offset < min(replayed_from, segment.next_offset) or not note.vouches(segment, self._found(base)):
            return True
        return self._is_torn(base) and segment.next_offset <= note.end_offset

    def _is_torn(self, base_offset: int) -> bool:
        return bool(len(self._bodies.get(base_offset, b"")) % ENTRY.size)

    def _found(self, base_offset: int) -> list[AbortedEntry]:
        return entries_in(self._bodies.get(base_offset, b""))

    def wrong(
        self, segments: Sequence[Segment], *, whole_to: int, is_whole: bool, closed_at: int | None, sparse: bool
    ) -> list[Segment]:
        """Segments whose .txnindex differs from what was written.

        Below `whole_to` every entry was on disk; with `is_whole` the file holds nothing that was not written.
        `closed_at`: the end at which the log was closed, where it was. `sparse`: compaction may have left entries of
        transactions without records.
        """
        if not self._bodies and self._note is None:
            return []
        if closed_at is not None and self._note is not None and self._note.end_offset == closed_at:
            return [one for one in segments if self._differs_from(self._note, one)]
        return [one for one in segments if self._differs(one, whole_to, is_whole=is_whole, sparse=sparse)]

    def _differs_from(self, note: AbortedNote, segment: Segment) -> bool:
        base = segment.base_offset
        return self._is_torn(base) or not note.vouches(segment, self._found(base))

    def _differs(self, segment: Segment, whole_to: int, *, is_whole: bool, sparse: bool) -> bool:
        built, found = segment.aborted.entries, self._found(segment.base_offset)
        if sparse:
            known = {(entry.producer_id, entry.last_offset) for entry in found}
            due = [entry for entry in built if entry.last_offset < whole_to]
            return any((entry.producer_id, entry.last_offset) not in known for entry in due)
        if self._note is None:  # Kafka's own files: another last stable offset is not damage
            built, found = [_begun(one) for one in built], [_begun(one) for one in found]
        if is_whole:
            if self._is_torn(segment.base_offset) and segment.next_offset <= whole_to:
                return True
            lacking = built[len(found) :]
            return found != built[: len(found)] or any(entry.last_offset < whole_to for entry in lacking)
        return [one for one in found if one.last_offset < whole_to] != [
            one for one in built if one.last_offset < whole_to
        ]


def _begun(entry: AbortedEntry) -> AbortedEntry:
    return entry._replace(last_stable_offset=0)


def _runs(segments: Sequence[Segment], chosen: Sequence[bool]) -> Iterator[list[Segment]]:
    """Chosen segments that follow one another."""
    run: list[Segment] = []
    for segment, is_chosen in zip(segments, chosen, strict=True):
        if is_chosen:
            run.append(segment)
        elif run:
            yield run
            run = []
    if run:
        yield run


def producers_at(chain: SegmentChain, damage: Damage, base: int) -> Producers:
    """The state of the producers where the segment at `base` begins: by its snapshot, or by the batches before it."""
    folder, producers = chain.folder, Producers()
    loaded = load_newest(folder.disk, folder.path, base)
    start = chain.bases[0]
    if loaded is not None:
        start = max(loaded[0], start)
        producers.take_over(loaded[1])
    for segment in chain.segments:
        if start < segment.next_offset and segment.base_offset < base and segment.size:
            unused = AbortedIndex(folder.disk, segment.path(ABORTED_INDEX))
            unused.begin_empty()
            replay_segment(producers, unused, segment, damage, start, base)
    return producers


def _build(chain: SegmentChain, damage: Damage, run: Sequence[Segment]) -> None:
    """Read on from the newest snapshot at or below the first of them."""
    folder, producers = chain.folder, Producers()
    loaded = load_newest(folder.disk, folder.path, run[0].base_offset)
    start = chain.bases[0]
    if loaded is not None:
        start = max(loaded[0], start)
        producers.take_over(loaded[1])
    for segment in chain.segments[: chain.segments.index(run[-1]) + 1]:
        if segment.next_offset <= start and segment not in run:
            continue
        made = AbortedIndex(folder.disk, segment.path(ABORTED_INDEX))
        made.begin_empty()
        if segment.size:
            replay_segment(producers, made, segment, damage, start, segment.next_offset)
        if segment in run:
            segment.aborted.rebuilt(made.entries)
    folder.sync()
