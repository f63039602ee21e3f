"""The turns of a task's topics: the one whose first record is the earliest is read next.

Pure. Topics whose first records have one time take turns as in a task of Kafka, which keeps them in Java's
`PriorityQueue`: a binary heap that is not in order of arrival where times are equal.
"""

from __future__ import annotations


class TopicTurns:
    """Topics by the time of their first record; the steps are those of `java.util.PriorityQueue`."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def offer(self, time: int, topic: str) -> None:
        """Let a topic wait for its turn."""
        heap = self._heap
        heap.append((time, topic))
        at = len(heap) - 1
        while at and time < heap[above := (at - 1) >> 1][0]:
            heap[at] = heap[above]
            at = above
        heap[at] = time, topic

    def next(self) -> str:
        """The topic whose first record is the earliest; it waits no more."""
        heap = self._heap
        first, moved = heap[0], heap.pop()
        if heap:
            self._sink(moved)
        return first[1]

    def _sink(self, moved: tuple[int, str]) -> None:
        heap, at = self._heap, 0
        half = len(heap) >> 1
        while at < half:
            below = 2 * at + 1
            if below + 1 < len(heap) and heap[below][0] > heap[below + 1][0]:
                below += 1
            if moved[0] <= heap[below][0]:
                break
            heap[at] = heap[below]
            at = below
        heap[at] = moved
