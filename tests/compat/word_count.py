"""A word count in Kafka Streams with `exactly_once_v2`, the lines that it is fed, and the counts that it commits.

It has no cache, so a word that occurs n times has the committed counts 1, 2, ..., n, in this order and once each.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import confluent_kafka
import pytest
import reaching
from confluent_kafka.admin import AdminClient, NewTopic
from exchange import BROKERS, until
from java_programs import JavaProgram, compiled, properties_text
from streams_jars import needs_streams_jars, streams_jars

MARKS = [
    pytest.mark.compat,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(shutil.which("javac") is None, reason="no Java compiler"),
    needs_streams_jars,
]
PIECES = 40
LINES, WORDS = 50, 10
"""Lines of a piece, and words of a line: 20,000 words in all."""
PATIENCE_S = 240.0
"""The longest wait for counts: a JVM starts, and the group waits for the session of a killed member."""


class WordCount:
    """The application on two topics of its own: `{name}-lines` and `{name}-counts`."""

    def __init__(self, bootstrap: str, name: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.lines, self.counts = f"{name}-lines", f"{name}-counts"
        admin = AdminClient(reaching.librdkafka(bootstrap))
        for future in admin.create_topics([NewTopic(each, 2, BROKERS) for each in (self.lines, self.counts)]).values():
            future.result(30)
        login = folder / "login.properties"
        login.write_text(properties_text(reaching.java()))
        command = ["WordCount", bootstrap, self.lines, self.counts, str(folder / "state"), str(login)]
        self.program = JavaProgram(compiled("WordCount.java", streams_jars(), folder), command, folder / "streams.log")

    def dies(self) -> None:
        self.program.kill()
        self.program.start()

    def counts_right(self, kills: Mapping[int, Callable[[], None]]) -> None:
        """Feed it piece by piece; each kill comes while the last piece is still being counted."""
        chance = random.Random(431)
        said: Counter[str] = Counter()
        producer = confluent_kafka.Producer({**reaching.librdkafka(self.bootstrap), "enable.idempotence": True})
        seen = Seen(self.bootstrap, self.counts)
        with self.program:
            for number in range(PIECES):
                fed = said.total()
                for _ in range(LINES):
                    words = [f"word-{int(chance.expovariate(0.05))}" for _ in range(WORDS)]
                    said.update(words)
                    producer.produce(self.lines, " ".join(words).encode())
                assert producer.flush(60) == 0
                kills.get(number, lambda: None)()
                self._wait(seen, fed)
            self._wait(seen, said.total())
            self.program.stop()
        seen.read_to_the_end()
        assert sum(said.values()) == PIECES * LINES * WORDS
        assert seen.counts == {word: list(range(1, times + 1)) for word, times in said.items()}

    def _wait(self, seen: Seen, count: int) -> None:
        try:
            until(lambda: seen.total() >= count, what=f"{count} counts", within_s=PATIENCE_S, step=seen.read)
        except AssertionError as late:
            raise AssertionError(f"{late}: {seen.total()} came; {self.program.last_words()}") from None


class Seen:
    """The committed counts of each word, in the order of the topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.counts: dict[str, list[int]] = {}
        self._places = [confluent_kafka.TopicPartition(topic, number, 0) for number in (0, 1)]
        self._consumer = confluent_kafka.Consumer(
            {
                **reaching.librdkafka(bootstrap), "group.id": "nobody", "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )  # fmt: skip
        self._consumer.assign(self._places)

    def total(self) -> int:
        return sum(map(len, self.counts.values()))

    def read(self) -> None:
        """Read the counts that have come since the last call."""
        for message in self._consumer.consume(1000, 0.2):
            if message.error() is None:
                self.counts.setdefault(message.key().decode(), []).append(int(message.value()))

    def read_to_the_end(self) -> None:
        """Read on, also unexpected counts, until no transaction is open any more."""
        ends = [self._consumer.get_watermark_offsets(place, 30)[1] for place in self._places]

        def at_the_end() -> bool:
            return all(at.offset >= end for at, end in zip(self._consumer.position(self._places), ends, strict=True))

        until(at_the_end, what="the ends of the counts", within_s=60, step=self.read)
        self._consumer.close()
