"""The real process killed under commits: no offset that was acknowledged is lost, and the group goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

from group_dialogue import Dialogue, Wire

from ottla.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

ROUNDS = 4
COMMITS = 5
"""Commits that are acknowledged in each round before the kill."""


class Process:
    """`ottla start` on a directory, on the same port each time."""

    def __init__(self, folder: Path) -> None:
        start = "import sys; from ottla.cli.main import main; sys.exit(main())"
        options = ["--data", str(folder), "--port", "0", "--http-port", "0"]
        options += ["--set", "offsets.topic.num.partitions=3", "--set", "group.initial.rebalance.delay.ms=0"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", start, "start", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline().rsplit(":", 1)[1])

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)

    def kill_after(self, event: threading.Event) -> None:
        event.wait()
        self.kill()


def commit(group: str, offset: int, member_id: str, generation: int) -> OffsetCommitRequest:
    asked = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name="t", partitions=[asked])]
    return OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=generation, member_id=member_id, topics=topics
    )


def committed(wire: Wire, group: str) -> int:
    answer = wire.ask(8, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]))
    assert not answer.groups[0].error_code, answer
    (topic,) = answer.groups[0].topics
    return topic.partitions[0].committed_offset


def test_no_acknowledged_offset_is_lost_and_members_keep_their_assignments(tmp_path: Path):
    broker = Process(tmp_path)
    Wire(broker.port).ask(
        7, CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    )
    dialogue = Dialogue(broker.port, "survivor")
    wire = dialogue.wire()
    member_id = dialogue.joined(wire, session_timeout_ms=60_000).member_id
    dialogue.ask("assigned", wire, 5, dialogue.sync(member_id, 1, {member_id: b"mine"}))
    acknowledged = -1
    for _ in range(ROUNDS):
        enough = threading.Event()
        killer = threading.Thread(target=broker.kill_after, args=(enough,))
        killer.start()
        before = acknowledged
        try:
            while True:
                answer = wire.ask(7, commit("survivor", acknowledged + 1, member_id, 1))
                assert answer.topics[0].partitions[0].error_code == 0
                acknowledged += 1
                if acknowledged - before == COMMITS:
                    enough.set()  # and go on, so that the kill comes between commits
        except OSError:  # killed
            pass
        finally:
            enough.set()
            killer.join()
        broker = Process(tmp_path)
        dialogue = Dialogue(broker.port, "survivor")
        wire = dialogue.wire()
        found = committed(wire, "survivor")
        assert found in (acknowledged, acknowledged + 1), "one commit may have been under way"
        acknowledged = found
        assert wire.ask(4, dialogue.heartbeat(member_id, 1)).error_code == 0
        assert wire.ask(5, dialogue.sync(member_id, 1)).assignment == b"mine"
    assert acknowledged >= ROUNDS * COMMITS - 1
    broker.kill()
