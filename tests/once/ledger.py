"""The books of the bank: what a reader of committed records knows of accounts, and what must never be seen there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

ACCOUNTS = 1000
OPENING = 1000
"""In each account at the beginning."""


class Leg(NamedTuple):
    """One half of a transfer, a record of its own in the account's partition."""

    account: int
    transfer: str
    amount: int
    """Added to the account; below 0 in the other half."""
    balance: int
    """In the account afterwards, as the mover knew it."""

    def encode(self) -> bytes:
        return json.dumps(self, separators=(",", ":")).encode()


def decode(value: bytes) -> Leg:
    return Leg(*json.loads(value))


class Ledger:
    """Takes the legs of each account in the order of its partition."""

    def __init__(self, accounts: Sequence[int] = range(ACCOUNTS)) -> None:
        self.balances = dict.fromkeys(accounts, OPENING)
        self._total = OPENING * len(self.balances)
        self._half: dict[str, Leg] = {}
        self._whole: set[str] = set()
        self.faults: list[str] = []

    @property
    def transfers(self) -> int:
        """The number of those of which both halves were seen."""
        return len(self._whole)

    def is_whole(self, transfer: str) -> bool:
        """True if both halves were seen."""
        return transfer in self._whole

    def take(self, leg: Leg) -> None:
        before = self.balances[leg.account]
        after = self.balances[leg.account] = before + leg.amount
        if leg.balance != after:
            self.faults.append(f"{leg}: there were {before} in the account, so that a leg before it is lost or doubled")
            self.balances[leg.account] = leg.balance
        other = self._half.pop(leg.transfer, None)
        if leg.transfer in self._whole or (other is not None and other.account == leg.account):
            self.faults.append(f"{leg}: its transfer was seen before")
        elif other is None:
            self._half[leg.transfer] = leg
        else:
            self._whole.add(leg.transfer)
            if other.amount + leg.amount:
                self.faults.append(f"{leg} and {other} are no transfer")

    def judge(self) -> list[str]:
        """All that is wrong once everything is read and no transaction is open: halves, and a sum that changed."""
        halves = [f"{leg}: the other half is missing" for leg in self._half.values()]
        total = sum(self.balances.values())
        wrong = [f"there are {total:,} in all accounts, and {self._total:,} were"] if total != self._total else []
        return [*self.faults, *halves, *wrong]
