"""Loads of brokers, computed from what each reports about itself and the others."""

from __future__ import annotations

from ottla.client.admin.loads import NOTHING, Load, Told, measured
from ottla.messages.describe_log_dirs import DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic


def told(at_ms: int, bytes_in: int = 0, bytes_out: int = 0, **lags: tuple[int, int]) -> Told:
    return Told(at_ms, bytes_in, bytes_out, {int(name[1:]): lag for name, lag in lags.items()})


def directory(*sizes: int, free: int = -1) -> DescribeLogDirsResult:
    parts = [
        DescribeLogDirsPartition(partition_index=at, partition_size=size, offset_lag=0) for at, size in enumerate(sizes)
    ]
    topic = DescribeLogDirsTopic(name="t", partitions=parts)
    return DescribeLogDirsResult(error_code=0, log_dir="/d", topics=[topic], usable_bytes=free)


def test_rates_are_what_two_looks_differ_by():
    loads = measured({1: told(1000, 500, 90)}, {1: told(3000, 2500, 100)}, {})
    assert (loads[1].bytes_in_per_s, loads[1].bytes_out_per_s) == (1000, 5)


def test_a_rate_needs_two_looks_at_one_run_of_the_broker():
    assert measured({}, {1: told(3000, 2500)}, {})[1].bytes_in_per_s is None
    assert measured({1: told(9000, 9999)}, {1: told(3000, 2500)}, {})[1].bytes_in_per_s is None
    assert measured({1: told(1000, 9999)}, {1: told(3000, 2500)}, {})[1].bytes_in_per_s is None


def test_the_lag_of_a_broker_is_what_all_leaders_say_of_it():
    loads = measured({}, {1: told(0, 0, 0, _2=(3, 0), _3=(7, 0)), 2: told(0, 0, 0, _1=(0, 0), _3=(4, 2))}, {})
    assert {broker: (load.lag, load.lag_may_be_more) for broker, load in loads.items()} == {
        1: (0, False), 2: (3, False), 3: (11, True),
    }  # fmt: skip


def test_disks_are_summed_over_directories():
    loads = measured({}, {}, {1: [directory(5, 6, free=100), directory(7, free=50)], 2: OSError("gone")})
    assert loads == {1: Load(disk_bytes=18, free_bytes=150), 2: NOTHING}
    failed = directory(5)
    failed.error_code = 56
    assert measured({}, {}, {1: [failed]})[1].disk_bytes is None
