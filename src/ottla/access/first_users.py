"""Users of a cluster's first start: their names and the keys of their passwords, as a text in JSON.

`ottla secure init` writes it, a broker takes it (`ottla.first.users`). It holds no password.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.access.mechanisms.scram import HASHES, LEAST_ITERATIONS, MOST_ITERATIONS, NUMBERS, keys_of, salted_password
from ottla.kernel.credentials import ScramKeys

_FIELDS = ("user", "mechanism", "salt", "iterations", "stored_key", "server_key")


class FirstUser(NamedTuple):
    """A user, the number of a mechanism (KIP-554), and the keys for it."""

    name: str
    mechanism: int
    keys: ScramKeys


def first_user(name: str, password: str, mechanism: str, salt: bytes) -> FirstUser:
    """A user with the keys of a password; takes milliseconds."""
    number = next(number for number, known in NUMBERS.items() if known == mechanism)
    salted = salted_password(mechanism, password, salt, LEAST_ITERATIONS)
    return FirstUser(name, number, keys_of(mechanism, salted, salt, LEAST_ITERATIONS))


def first_users_text(users: Iterable[FirstUser]) -> str:
    """The text that `parse_first_users` reads."""
    rows = [
        {
            "user": user.name,
            "mechanism": NUMBERS[user.mechanism],
            "salt": base64.b64encode(user.keys.salt).decode(),
            "iterations": user.keys.iterations,
            "stored_key": base64.b64encode(user.keys.stored_key).decode(),
            "server_key": base64.b64encode(user.keys.server_key).decode(),
        }
        for user in users
    ]
    return json.dumps({"users": rows}, indent=2) + "\n"


def parse_first_users(text: str) -> Sequence[FirstUser]:
    """The users in a text; ValueError says what is wrong, without the keys."""
    try:
        found = json.loads(text)
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(found, dict) or set(found) != {"users"} or not isinstance(found["users"], list):
        raise ValueError('it must be {"users": [...]}')
    users = [_user(number, each) for number, each in enumerate(found["users"], 1)]
    if len({(user.name, user.mechanism) for user in users}) < len(users):
        raise ValueError("a user is named twice for one mechanism")
    return users


def _user(number: int, row: object) -> FirstUser:
    if not isinstance(row, dict) or set(row) != set(_FIELDS):
        raise ValueError(f"user {number} must have the fields {', '.join(_FIELDS)}, and no others")
    name, mechanism, iterations = row["user"], row["mechanism"], row["iterations"]
    if not isinstance(name, str) or not name:
        raise ValueError(f"user {number} has no name")
    if mechanism not in HASHES:
        raise ValueError(f"user {name}: mechanism must be one of {', '.join(HASHES)}")
    if not isinstance(iterations, int) or not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise ValueError(f"user {name}: iterations must be {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
    salt, stored, server = (_bytes(name, key, row[key]) for key in ("salt", "stored_key", "server_key"))
    kind = next(each for each, known in NUMBERS.items() if known == mechanism)
    return FirstUser(name, kind, ScramKeys(salt, iterations, stored, server))


def _bytes(name: str, key: str, text: object) -> bytes:
    try:
        found = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except binascii.Error:
        found = b""
    if not found:
        raise ValueError(f"user {name}: {key} must be bytes in base64")
    return found
