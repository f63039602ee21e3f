"""Carries out the guide that loads Avro orders into Delta on S3."""

import contextlib
import io
import os
import re
import shlex
from pathlib import Path

import pytest

from ottla.lake.commands.load import command
from ottla.registry.server import RegistryThread

pytestmark = [pytest.mark.spark, pytest.mark.slow]

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "orders-to-delta.md").read_text()
STEPS = re.findall(r"```(\w*)\n(.*?)```", GUIDE, re.S)[1:]


def test_orders_whose_schema_grows_are_in_one_table(bootstrap, topics, spark, s3_url, capsys):
    environment = spark.sparkContext.environment
    before = dict(environment)
    environment.update({name: value for name, value in os.environ.items() if name.startswith("AWS_")})
    names: dict[str, object] = {}
    said = []
    with RegistryThread(bootstrap, port=0, topic="_schemas-of-orders") as registry:
        for language, text in STEPS:
            here = text.replace("localhost:9092", bootstrap).replace("http://localhost:8081", registry.url)
            if language == "python":
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(here, "orders-to-delta.md", "exec"), names)
                said.append(out.getvalue())
                continue
            for line in here.splitlines():
                words = shlex.split(line)
                assert words[:2] == ["ottla", "lake"]
                assert command(words[2:]) == 0, capsys.readouterr().err
    environment.clear()
    environment.update(before)
    orders = names["orders"].sort("id").to_dicts()  # type: ignore[attr-defined]
    assert len(orders) == 21
    assert [(row["id"], row["amount"], row["currency"]) for row in orders[-2:]] == [
        (19, 19, None),
        (100, 5_000_000_000, "JPY"),
    ]
    assert {row["date"] for row in orders} == {"2026-03-01", "2026-03-02", "2026-03-03"}
    assert [letter.value for letter in topics.read("orders.bad")] == [b"no Avro at all"]
    assert "2026-03-03" in said[-1]
