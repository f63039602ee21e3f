"""The lines of the race beside other queues: which of their servers count as there."""

from pathlib import Path

from bench.queues import at_hand


def test_only_servers_that_are_there_get_lines(tmp_path: Path) -> None:
    programs, jars = tmp_path / "programs", tmp_path / "jars"
    assert at_hand(programs, jars) == []
    for name, path in {
        "nats": programs / "usr/sbin/nats-server",
        "rabbitmq": programs / "usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8",
        "activemq": jars / "activemq-broker-5.18.6.jar",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        assert at_hand(programs, jars)[-1] == name


def test_a_line_beside_a_queue_measures_both_halves_of_both_servers() -> None:
    from bench.lines.queues import line

    made = line("nats", "NATS JetStream", 50, 1000)
    assert made.contestants == ("ottla", "nats")
    assert [figure.key for figure in made.figures] == [
        "produced_per_second", "produce_cpu_per_million", "consumed_per_second", "consume_cpu_per_million",
    ]  # fmt: skip
    assert [figure.more_is_better for figure in made.figures] == [True, False, True, False]
