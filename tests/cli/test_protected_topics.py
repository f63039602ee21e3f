"""Internal topics are deleted by an explicit command alone, which says what is lost and how to go on."""

from __future__ import annotations

import json
import logging

import pytest
from conftest import run_ottla

from ottla.client.blocking.producer import Producer
from ottla.testing import TestBroker


def test_kafkas_tools_and_ours_refuse_internal_topics_until_asked_by_name():
    with TestBroker({"offsets.topic.num.partitions": "1"}) as broker:
        at = ("-b", broker.bootstrap_servers)
        run_ottla("topic", "create", "t", *at)
        run_ottla("produce", "t", "a", *at)
        run_ottla("consume", "t", "--group", "g", "-n", "1", "--from", "beginning", *at)
        refused = run_ottla("topic", "delete", "__consumer_offsets", *at)
        assert (refused.returncode, "ottla topic delete --internal __consumer_offsets" in refused.stderr) == (1, True)
        tool = ("--bootstrap-server", broker.bootstrap_servers, "--topic", "__consumer_offsets")
        assert "is protected" in "".join(output(run_ottla("kafka-topics", "--delete", *tool)))
        done = run_ottla("topic", "delete", "--internal", "__consumer_offsets", "t", *at)
        assert done.stdout == "deleted topic __consumer_offsets\ndeleted topic t\n"
        assert "the committed offsets of all groups are gone" in done.stderr


def test_a_topic_that_cannot_be_deleted_is_protected_again():
    with TestBroker({"delete.topic.enable": "false"}) as broker:
        at = ("-b", broker.bootstrap_servers)
        run_ottla("topic", "create", "kept", "-c", "deletion.protection=true", *at)
        assert run_ottla("topic", "delete", "--internal", "kept", *at).returncode == 1
        assert "deletion.protection=true" in run_ottla("topic", "describe", "kept", *at).stdout


def test_transactions_whose_state_was_deleted_are_found_and_ended(caplog: pytest.LogCaptureFixture):
    with TestBroker({"transaction.state.log.num.partitions": "1"}) as broker:
        at = ("-b", broker.bootstrap_servers)
        run_ottla("topic", "create", "t", *at)
        with Producer(broker.bootstrap_servers, transactional_id="x") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.produce("t", "one")
            producer.flush()
            with caplog.at_level(logging.WARNING, "ottla.topics"):
                done = run_ottla("topic", "delete", "--internal", "__transaction_state", *at)
            assert "ottla transaction find-hanging" in done.stderr
            assert "the internal topic __transaction_state was deleted by a request" in caplog.text
        found = json.loads(
            run_ottla("transaction", "find-hanging", "--older-than", "0s", "--format", "json", *at).stdout
        )
        assert [(each["topic"], each["partition"]) for each in found] == [("t", 0)]
        assert run_ottla("transaction", "abort", "t:0", "--start-offset", "0", *at).returncode == 0
        assert "nothing hangs" in run_ottla("transaction", "find-hanging", "--older-than", "0s", *at).stderr


def output(done: object) -> tuple[str, str]:
    return done.stdout, done.stderr  # type: ignore[attr-defined]
