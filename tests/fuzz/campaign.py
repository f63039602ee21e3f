"""Runs one campaign: a live broker, attackers, a canary and a probe of the loop; then the verdict."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from attacks import TARGET, Attack, all_attacks, corpus_of
from ottla_process import TemporaryBroker
from probes import CANARY_TOPIC, Canary, Loop, open_files, peak_mib
from raw_connection import RawConnection
from tests.access.certificates import authority
from tests.ports import free_port

from ottla.messages.create_topics import CreatableTopic, CreateTopicsRequest

TURN_MS = 200.0
"""CPU time that one turn of the broker's loop may take."""
MEMORY_MIB = 80 + 256
"""Memory of an idle broker, plus the bytes of requests and answers that it may own."""
_ATTACKERS = 2


@dataclass(slots=True)
class Verdict:
    seed: int
    attacks: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    turn_ms: float = 0.0
    during: str = ""
    memory_mib: float = 0.0
    canary: int = 0

    def __str__(self) -> str:
        kinds: Counter[str] = Counter()
        for name, count in self.attacks.items():
            kinds[name.split()[0]] += count
        told = ", ".join(f"{count} {name}" for name, count in sorted(kinds.items()))
        return (
            f"seed {self.seed}: {sum(kinds.values())} attacks ({told}); "
            f"the canary wrote and read {self.canary} records; "
            f"longest turn at most {self.turn_ms:.0f} ms of CPU (during {self.during}); peak {self.memory_mib:.0f} MiB"
        )


def campaign(seed: int, *, seconds: float, examples: int = 3, turn_ms: float = TURN_MS) -> Verdict:
    """Attack for `seconds`; `Verdict.faults` lists the broker's failures, also turns of more than `turn_ms`."""
    verdict = Verdict(seed)
    corpus = corpus_of(seed, examples)
    secured = f"127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as keys, TemporaryBroker(with_a_login(Path(keys), secured)) as broker:
        create_topics(broker.bootstrap)
        loop, canary = Loop(broker.bootstrap, broker.pid), Canary(broker.bootstrap)
        files = open_files(broker.pid)
        canary.start()
        loop.start()
        attack(broker, all_attacks(corpus, secured), verdict, loop, seconds)
        loop.stop()
        canary.stop()
        judge(verdict, broker, loop, canary, files, turn_ms)
    return verdict


def with_a_login(keys: Path, secured: str) -> dict[str, str]:
    """The options of a broker with one listener for everybody, and one that asks for a password over TLS."""
    plain = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="secret";'
    return {
        "connections.max.idle.ms": "60000",
        "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_SSL://{secured}",
        "ssl.keystore.location": authority().sign("broker").file(keys),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain,
    }


def create_topics(bootstrap: str) -> None:
    names = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in (TARGET, CANARY_TOPIC)]
    with RawConnection(bootstrap) as connection:
        answer = connection.ask(19, 4, CreateTopicsRequest(topics=names, timeout_ms=10000))
        assert [topic.error_code for topic in answer.topics] == [0, 0], answer


def attack(broker: TemporaryBroker, attacks: list[Attack], verdict: Verdict, loop: Loop, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    lock = threading.Lock()

    def attacker(number: int) -> None:
        chance = random.Random(f"{verdict.seed}-{number}")
        while time.monotonic() < deadline and broker.running:
            try:
                name = chance.choice(attacks)(broker.bootstrap, chance)
            except OSError as fault:
                name = "refused"
                with lock:
                    verdict.faults.append(f"attacker {number} could not go on: {fault}")
                return
            loop.doing = name
            with lock:
                verdict.attacks[name] += 1

    threads = [threading.Thread(target=attacker, args=(number,), daemon=True) for number in range(_ATTACKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 60)


def judge(verdict: Verdict, broker: TemporaryBroker, loop: Loop, canary: Canary, files: int, turn_ms: float) -> None:
    faults = verdict.faults
    verdict.turn_ms, verdict.during, verdict.canary = loop.longest_ms, loop.during, canary.consumed
    if not broker.running:
        faults.append("the broker ended")
    else:
        verdict.memory_mib = peak_mib(broker.pid)
        if verdict.memory_mib > MEMORY_MIB:
            faults.append(f"{verdict.memory_mib:.0f} MiB resident, the budget is {MEMORY_MIB}")
    faults += [f"canary: {canary.failure}"] if canary.failure else []
    faults += [f"loop: {loop.failure}"] if loop.failure else []
    if loop.longest_ms > turn_ms:
        faults.append(f"a turn of {loop.longest_ms:.0f} ms CPU, during {loop.during}")
    if not loop.pings or not canary.consumed or not verdict.attacks:
        faults.append("nothing was attacked, or nobody watched")
    words = broker.last_words()
    faults += [f"the log says: {words[words.index(' ERROR ') - 30 :][:1500]}"] if " ERROR " in words else []
