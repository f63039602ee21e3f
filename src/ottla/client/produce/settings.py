"""Settings of a producer."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.produce.partitioners import PARTITIONERS, Partitioner, murmur2_partitioner
from ottla.client.settings import (
    INT32_MAX,
    INT64_MAX,
    ChoiceText,
    FineMilliseconds,
    Flag,
    Milliseconds,
    Named,
    OptionalNumber,
    OptionalText,
    Settings,
    Size,
    refused,
)
from ottla.records.compression import Codec

_UNANSWERED = 16 * 1024
_LEVELS = {Codec.GZIP: (1, 9), Codec.LZ4: (1, 17), Codec.ZSTD: (-131_072, 22)}


@dataclass(frozen=True, slots=True)
class ProducerSettings(Settings):
    """Settings of a producer; names and defaults follow Kafka's producer options.

    Times are milliseconds, or text such as "5s", or a timedelta; sizes are bytes, or text such as "64KiB". ValueError
    or TypeError names a setting that is wrong, and a transactional id without `acks="all"` and idempotence.
    """

    acks: ChoiceText[int] = ChoiceText(-1, {"all": -1, "-1": -1, "0": 0, "1": 1})
    """"all" or -1: every in-sync replica has the record; 1: its leader has; 0: nothing is answered."""
    enable_idempotence: Flag = Flag(True)
    """A retry writes nothing twice. Without effect unless `acks` is "all"."""
    linger_ms: FineMilliseconds = FineMilliseconds(5, most=INT64_MAX)
    """A batch that is not full waits so long for more records."""
    batch_size: Size = Size(128 * 1024)
    """The size of a full batch. A larger record has a batch of its own; a batch too large for its topic is split. With
    `acks=0` nobody would tell of that, so that the default is 16 KiB then."""
    buffer_memory: Size = Size(32 * 1024 * 1024, most=INT64_MAX)
    """The bytes of records that may wait; `produce` blocks beyond."""
    max_request_size: Size = Size(1024 * 1024)
    """Batches for one broker go in requests of this size, at least one batch in each."""
    compression: ChoiceText[Codec] = ChoiceText(Codec.NONE, {codec.name.lower(): codec for codec in Codec})
    """The codec of the batches: "none", "gzip", "snappy", "lz4" or "zstd"."""
    compression_level: OptionalNumber = OptionalNumber(None, least=-INT32_MAX)
    """None: the codec's own default. gzip has 1 to 9, lz4 1 to 17, zstd -131072 to 22."""
    delivery_timeout_ms: FineMilliseconds = FineMilliseconds(120_000)
    """The longest time of a batch, with all attempts; then its records fail with RequestTimedOut."""
    request_timeout_ms: Milliseconds = Milliseconds(30_000)
    """The time that a broker may take to have a batch replicated; its answer is awaited 5 seconds longer."""
    max_block_ms: FineMilliseconds = FineMilliseconds(60_000, most=INT64_MAX)
    """The longest time that `produce` waits for metadata, and for room."""
    partitioner: Named[Partitioner] = Named(murmur2_partitioner, PARTITIONERS, callable, "a function")
    """The partition of a key: a function, or the name of one of `ottla.client.produce.partitioners`."""
    allow_auto_create_topics: Flag = Flag(True)
    """Ask the broker to make a topic that does not exist; it does so if `auto.create.topics.enable` is on there."""
    transactional_id: OptionalText = OptionalText(None)
    """With one, every record belongs to a transaction."""
    transaction_timeout_ms: Milliseconds = Milliseconds(60_000, least=1)
    """The coordinator aborts a transaction that is open for longer."""

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        if self.transactional_id is not None and not self.idempotent:
            raise ValueError('a transactional_id needs acks="all" and enable_idempotence=True')
        if self.compression_level is not None:
            _check_level(self.compression, self.compression_level)

    @property
    def idempotent(self) -> bool:
        """True if a retry writes nothing twice: `enable_idempotence` with `acks` -1."""
        return self.enable_idempotence and self.acks == -1

    @property
    def full_batch_bytes(self) -> int:
        """The size of a full batch; smaller by default where the broker does not answer that it was too large."""
        return (
            _UNANSWERED
            if self.acks == 0 and self.batch_size == self._declared["batch_size"].default
            else self.batch_size
        )


def _check_level(codec: Codec, level: int) -> None:
    """Raise ValueError for a level that the codec does not have; the bounds are those of Kafka's options."""
    if codec not in _LEVELS:
        raise ValueError(f"compression_level is for gzip, lz4 and zstd, not for compression={codec.name.lower()!r}")
    least, most = _LEVELS[codec]
    if not least <= level <= most:
        raise refused("compression_level", level, f"from {least} to {most} for {codec.name.lower()}")
