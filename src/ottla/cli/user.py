"""`ottla user`: users with passwords, whose keys the cluster keeps."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence

from ottla.cli.command import Command, connected, noun, print_json, print_table, wants_json
from ottla.cli.faults import BadInput, Misuse, text_of
from ottla.cli.options import Given, Option

_DEFAULT = "SCRAM-SHA-256"


def command(arguments: Sequence[str]) -> int:
    return noun("user", VERBS, arguments)


def _list(given: Given) -> int:
    with connected(given) as admin:
        users = admin.describe_users()
    if wants_json(given):
        print_json([{"user": each.name, "mechanisms": dict(each.mechanisms)} for each in users])
    elif not users:
        sys.stderr.write("no user has a password; `ottla user add NAME` makes one\n")
    else:
        print_table(["USER", "MECHANISMS"], [[each.name, ", ".join(sorted(each.mechanisms))] for each in users])
    return 0


def _add(given: Given) -> int:
    user = given.words[0]
    password = _password(given, user)
    with connected(given) as admin:
        try:
            admin.set_password(user, password, _mechanism(given))
        except ValueError as fault:
            raise Misuse(str(fault)) from None
    return _said(given, user, f"{user} can log in by {_mechanism(given)}")


def _remove(given: Given) -> int:
    user = given.words[0]
    with connected(given) as admin:
        try:
            admin.remove_password(user, _mechanism(given))
        except ValueError as fault:
            raise Misuse(str(fault)) from None
    return _said(given, user, f"{user} cannot log in by {_mechanism(given)} again; open connections go on")


def _said(given: Given, user: str, text: str) -> int:
    if wants_json(given):
        print_json({"user": user, "mechanism": _mechanism(given)})
    else:
        sys.stdout.write(f"{text}\n")
    return 0


def _mechanism(given: Given) -> str:
    return (given.text("mechanism") or _DEFAULT).upper()


def _password(given: Given, user: str) -> str:
    """The first line of a file or of standard input; asked for on a terminal, where it is not shown."""
    path = given.text("password-file")
    if path is None and sys.stdin.isatty():
        password = getpass.getpass(f"password of {user}: ")
        if password != getpass.getpass("again: "):
            raise BadInput("the two passwords differ")
    else:
        password = (sys.stdin.read() if path in (None, "-") else text_of(str(path))).partition("\n")[0].rstrip("\r")
    if not password:
        raise BadInput("the password is empty: give it as a line of standard input, or by --password-file")
    return password


_MECHANISM = Option("mechanism", f"SCRAM-SHA-256 or SCRAM-SHA-512; default: {_DEFAULT}.", "MECHANISM")

VERBS = {
    "list": Command("ottla user list", "Show the users and the mechanisms by which they log in.", _list, []),
    "add": Command(
        "ottla user add NAME [--password-file FILE]",
        "Give a user a password, or another one. It is read from the terminal, standard input or a file.",
        _add,
        [Option("password-file", "The first line of this file is the password.", "FILE"), _MECHANISM],
        words=(1, 1),
    ),
    "remove": Command(
        "ottla user remove NAME",
        "Take the password of a mechanism from a user.",
        _remove,
        [_MECHANISM],
        words=(1, 1),
    ),
}
