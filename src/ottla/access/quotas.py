"""Limits the rates of clients, as Kafka's quotas do: the quota that counts, the rate so far, the time to wait. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ottla.kernel.quotas import DEFAULT, QuotaEntity

SAMPLES = 11
SAMPLE_MS = 1000
_FULL_MS = (SAMPLES - 1) * SAMPLE_MS
LONGEST_MS = (1 << 31) - 1
"""The longest throttle time that an answer can tell."""
_MANY = 10_000


class Limited(NamedTuple):
    """The clients that share one rate; a part that is None does not count."""

    user: str | None
    client_id: str | None


class Metered(NamedTuple):
    """The outcome of a count: done now or not, and the time to wait before the next."""

    done: bool
    wait_ms: int


class Rate:
    """Counts by second, over the last eleven of them."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[list[int]] = deque()
        """[begin of the sample, count], the oldest first."""

    def add(self, count: int, now_ms: int) -> None:
        self._forget(now_ms)
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= SAMPLE_MS:
            samples.append([now_ms, 0])
        samples[-1][1] += count

    def is_idle(self, now_ms: int) -> bool:
        self._forget(now_ms)
        return not self._samples

    def over_ms(self, limit: float, count: int, now_ms: int) -> int:
        """The time until the rate is down to the limit again, with `count` more; 0 if it does not exceed it."""
        self._forget(now_ms)
        window_ms = self._window_ms(now_ms)
        rate = 1000 * (sum(each for _, each in self._samples) + count) / window_ms
        return min(LONGEST_MS, round((rate - limit) / limit * window_ms)) if rate > limit else 0

    def _window_ms(self, now_ms: int) -> int:
        """The time that the samples are about: as in Kafka, seconds that are missing count as if nothing came."""
        elapsed = now_ms - self._samples[0][0] if self._samples else 0
        missing = SAMPLES - 1 - elapsed // SAMPLE_MS
        return elapsed + max(0, missing) * SAMPLE_MS

    def _forget(self, now_ms: int) -> None:
        samples = self._samples
        while samples and now_ms - samples[0][0] >= SAMPLES * SAMPLE_MS:
            samples.popleft()


class QuotaMeter:
    """The rate of some clients and its limit."""

    __slots__ = ("limit", "rate")

    def __init__(self, limit: float, rate: Rate) -> None:
        self.limit = limit
        self.rate = rate

    @property
    def most(self) -> int:
        """The most that fits into the limit at once, where nothing came before."""
        return int(self.limit * (SAMPLES - 1))

    def take(self, count: int, now_ms: int) -> int:
        """Count something that is done; the time to wait for it."""
        self.rate.add(count, now_ms)
        return self.rate.over_ms(self.limit, 0, now_ms)

    def take_within(self, count: int, now_ms: int) -> Metered:
        """Count something if the limit allows it.

        Where nothing came before, it is done whatever its size, and waited for afterwards: it would never be done else.
        """
        if self.rate.is_idle(now_ms):
            return Metered(True, self.take(count, now_ms))
        if wait_ms := self.rate.over_ms(self.limit, count, now_ms):
            return Metered(False, min(wait_ms, SAMPLES * SAMPLE_MS))
        self.rate.add(count, now_ms)
        return Metered(True, 0)


class Bucket:
    """Tokens for changes, as many as the limit gives in eleven seconds; one burst may overdraw them (KIP-599)."""

    __slots__ = ("_filled_ms", "_tokens")

    def __init__(self) -> None:
        self._tokens = math.inf
        self._filled_ms = 0

    def take(self, limit: float, count: int, now_ms: int) -> None:
        self._fill(limit, now_ms)
        self._tokens -= count

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """The time until the bucket is not overdrawn any more."""
        self._fill(limit, now_ms)
        return min(LONGEST_MS, math.ceil(1000 * -self._tokens / limit)) if self._tokens < 0 else 0

    def is_full(self, limit: float, now_ms: int) -> bool:
        self._fill(limit, now_ms)
        return self._tokens >= limit * SAMPLES

    def _fill(self, limit: float, now_ms: int) -> None:
        came = limit * (now_ms - self._filled_ms) / 1000
        self._tokens, self._filled_ms = min(limit * SAMPLES, self._tokens + came), now_ms


class BucketMeter(NamedTuple):
    """The bucket of some clients and its limit."""

    limit: float
    bucket: Bucket


class Quotas:
    """The meters of all clients that have a quota."""

    def __init__(self) -> None:
        self._quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}
        self._keys: frozenset[str] = frozenset()
        self._rates: dict[tuple[str, Limited], Rate] = {}
        self._found: dict[tuple[str, str, str], QuotaMeter | None] = {}
        self._buckets: dict[Limited, BucketMeter] = {}

    def reset(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Limit by these from now on. Rates go on as they were."""
        self._quotas = dict(quotas)
        self._keys = frozenset(key for each in quotas.values() for key in each)
        self._found.clear()

    def has(self, key: str) -> bool:
        """True if anybody has a quota of this kind."""
        return key in self._keys

    def meter(self, key: str, user: str, client_id: str, now_ms: int) -> QuotaMeter | None:
        """The meter of the most specific quota of a client; None if it has none."""
        asked = (key, user, client_id)
        if asked not in self._found:
            if len(self._found) >= _MANY:
                self._found.clear()
                self._rates = {who: rate for who, rate in self._rates.items() if not rate.is_idle(now_ms)}
            self._found[asked] = self._find(key, user, client_id)
        return self._found[asked]

    def bucket(self, key: str, user: str, client_id: str, now_ms: int) -> BucketMeter | None:
        """The bucket by the most specific quota of a client; None if it has none."""
        found = self._limit(key, user, client_id)
        if found is None:
            return None
        limit, limited = found
        if len(self._buckets) >= _MANY:
            self._buckets = {
                who: each for who, each in self._buckets.items() if not each.bucket.is_full(each.limit, now_ms)
            }
        kept = self._buckets.get(limited)
        meter = self._buckets[limited] = BucketMeter(limit, Bucket() if kept is None else kept.bucket)
        return meter

    def _find(self, key: str, user: str, client_id: str) -> QuotaMeter | None:
        found = self._limit(key, user, client_id)
        if found is None:
            return None
        limit, limited = found
        return QuotaMeter(limit, self._rates.setdefault((key, limited), Rate()))

    def _limit(self, key: str, user: str, client_id: str) -> tuple[float, Limited] | None:
        for entity, limited in _candidates(user, client_id):
            limit = self._quotas.get(entity, {}).get(key)
            if limit is not None:
                return limit, limited
        return None


def _candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, Limited]]:
    """The entities that a client may belong to, the most specific first, and the clients that share its rate there.

    A default is a limit for each that has none of its own, not for all of them together.
    """
    for known in (user, DEFAULT):
        for named in (client_id, DEFAULT):
            yield QuotaEntity(known, named), Limited(user, client_id)
        yield QuotaEntity(known), Limited(user, None)
    for named in (client_id, DEFAULT):
        yield QuotaEntity(None, named), Limited(None, client_id)
