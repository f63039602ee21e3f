"""Debian's kcat: librdkafka 2.0, which counts a feature as absent unless an exact version is announced."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import reaching
from exchange import CODECS

pytestmark = pytest.mark.compat


def kcat(bootstrap: str, *arguments: str, feed: str = "") -> str:
    command = ["kcat", "-q", *reaching.kcat(bootstrap), *arguments]
    done = subprocess.run(command, input=feed, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", CODECS)
def test_kcat_gets_back_what_it_wrote_with_every_codec(bootstrap: str, name: str, codec: str, tmp_path: Path) -> None:
    lines = [f"key-{number}:value {number} " + "z" * (number % 40) for number in range(300)]
    kcat(bootstrap, "-P", "-t", name, "-z", codec, "-K", ":", "-H", "made=by hand", feed="\n".join(lines) + "\n")
    got = kcat(bootstrap, "-C", "-t", name, "-e", "-o", "beginning", "-f", "%k:%s|%h\n").splitlines()
    assert sorted(got) == sorted(f"{line}|made=by hand" for line in lines)


def test_kcat_lists_queries_and_tails(bootstrap: str, name: str) -> None:
    kcat(bootstrap, "-P", "-t", name, "-p", "0", feed="one\ntwo\nthree\n")
    listed = json.loads(kcat(bootstrap, "-L", "-J", "-t", name))
    assert listed["topics"][0]["topic"] == name
    assert listed["topics"][0]["partitions"][0]["leader"] in [broker["id"] for broker in listed["brokers"]]
    assert kcat(bootstrap, "-Q", "-t", f"{name}:0:-1").strip().endswith("offset 3")
    assert kcat(bootstrap, "-C", "-t", name, "-p", "0", "-o", "-2", "-e", "-f", "%o=%s ").strip() == "1=two 2=three"


def test_kcat_consumes_in_a_group_and_goes_on(bootstrap: str, name: str) -> None:
    kcat(bootstrap, "-P", "-t", name, "-p", "0", "-X", "enable.idempotence=true", feed="one\ntwo\nthree\n")
    settings = ["-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000"]
    group = ["-G", name, *settings, "-c", "2", "-f", "%s ", name]
    assert kcat(bootstrap, *group).strip() == "one two"
    kcat(bootstrap, "-P", "-t", name, "-p", "0", feed="four\n")
    assert kcat(bootstrap, *group).strip() == "three four"
