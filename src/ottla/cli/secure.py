"""`ottla secure`: a folder with everything for brokers and clients that encrypt and ask who somebody is."""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.cli import secure_making as making
from ottla.cli.command import Command, noun, print_json, print_table, wants_json
from ottla.cli.connect import admin_from
from ottla.cli.faults import BadInput, Misuse
from ottla.cli.options import Given, Option, nearest_word
from ottla.cli.secure_folder import AUTHORITY, BROKER, CLIENT, NEXT, SERVER, TRUSTED, SecureFolder, checked_user
from ottla.cli.secure_texts import ADMIN, MECHANISM, BrokerPlace

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

DEFAULT_PORT = 9092
_HIGHEST_PORT = 65535


def command(arguments: Sequence[str]) -> int:
    return noun("secure", VERBS, arguments)


def _folder(given: Given) -> SecureFolder:
    return SecureFolder(given.need("dir"))


def _init(given: Given) -> int:
    folder, port = _folder(given), given.count("port")
    if not 0 <= port <= _HIGHEST_PORT:
        raise Misuse(f"--port {port} is not a port: ports are 0 to {_HIGHEST_PORT}")
    hosts = tuple(making.checked_host(host) for host in given.all("host"))
    if hosts and hosts[0].startswith("*"):
        raise Misuse(f"--host {hosts[0]}: the first name is the one that clients are told, so it has no *")
    place = BrokerPlace(hosts, port)
    making.init(folder, place, given.all("user"))
    if wants_json(given):
        print_json({"directory": folder.directory, "address": place.address, "users": folder.users()})
        return 0
    here = os.path.realpath(folder.directory) == os.path.realpath(os.curdir)
    start = "ottla start" if here else f"ottla start --config {folder.path(SERVER)}"
    client = os.path.relpath(folder.user_path(ADMIN, CLIENT)) if here else folder.user_path(ADMIN, CLIENT)
    others = [user for user in folder.users() if user != ADMIN] or ["NAME"]
    sys.stdout.write(
        f"made {folder.directory}: an authority, a certificate for {', '.join(making.names_for(hosts))}, "
        f"and the users {', '.join(folder.users())}\n"
        f"  broker    {start}\n"
        f"  commands  ottla topic list --command-config {client}\n"
        f"            ottla profile add secure --command-config {client} --use      (then without --command-config)\n"
        f"  rights    ottla acl grant {others[0]} read,write --topic TOPIC --command-config {client}\n"
        f"  clients   {folder.path('users')}/NAME/: client.properties for Java, librdkafka.properties for the others\n"
        f"  keep      {folder.path(AUTHORITY)} to yourself: who has it can sign certificates\n"
    )
    return 0


def _user(given: Given) -> int:
    action, user = given.words
    does = _ACTIONS.get(action)
    if does is None:
        near = nearest_word(action, list(_ACTIONS))
        hint = f"did you mean {near}?" if near else f"there are {', '.join(_ACTIONS)}"
        raise Misuse(f"`ottla secure user` has no {action!r}: {hint}")
    folder = _folder(given)
    folder.need()
    if "offline" in given and action != "add":
        raise Misuse("--offline goes with add: it changes the users of the first start")
    return does(given, folder, checked_user(user))


def _add_user(given: Given, folder: SecureFolder, user: str) -> int:
    if folder.has("users", user, CLIENT):
        raise BadInput(f"{user} has files here already; `ottla secure user rotate {user}` gives another password")
    password, address = making.new_password(), making.address_of(folder)
    files = making.user_files(folder, address, user, password, folder.text(TRUSTED))
    if "offline" in given:
        making.add_first_user(folder, user, password)
    else:
        _ask_cluster(given, folder, lambda admin: admin.set_password(user, password, MECHANISM))
    folder.make(files)
    where = folder.path("users", user)
    return _said(
        given,
        {"user": user, "directory": where},
        f"{user} can log in by the files in {where}; `ottla acl grant {user} ...` says what it may do",
    )


def _rotate_user(given: Given, folder: SecureFolder, user: str) -> int:
    making.address_of(folder, user)  # its files are here
    password, spare = making.new_password(), folder.user_path(user, f"{CLIENT}.next")
    making.set_password(folder, user, password, client_to=spare)
    try:
        _ask_cluster(given, folder, lambda admin: admin.set_password(user, password, MECHANISM))
    except Exception as fault:
        fault.add_note(f"; if the cluster took the new password all the same, it is in {spare}")
        raise
    making.set_password(folder, user, password)
    os.unlink(spare)
    where = folder.path("users", user)
    return _said(given, {"user": user}, f"{user} has another password, in {where}; open connections go on")


def _remove_user(given: Given, folder: SecureFolder, user: str) -> int:
    if user == ADMIN:
        raise Misuse(f"{ADMIN} gives the others their passwords; `ottla user remove {ADMIN}` removes it all the same")
    _ask_cluster(given, folder, lambda admin: admin.remove_password(user, MECHANISM))
    folder.forget_user(user)
    return _said(given, {"user": user}, f"{user} cannot log in again; open connections go on")


_ACTIONS: dict[str, Callable[[Given, SecureFolder, str], int]] = {
    "add": _add_user,
    "rotate": _rotate_user,
    "remove": _remove_user,
}


def _ask_cluster(given: Given, folder: SecureFolder, ask: Callable[[Admin], object]) -> None:
    """Ask the cluster as the administrator of the folder."""
    with admin_from(making.address_of(folder), folder.user_path(ADMIN, CLIENT)) as admin:
        try:
            ask(admin)
        except ValueError as fault:
            raise Misuse(str(fault)) from None


def _renew(given: Given) -> int:
    folder = _folder(given)
    folder.need()
    names = making.renew(folder, given.all("host"))
    expires = making.facts_of(folder.path(BROKER))[0].expires
    text = f"{folder.path(BROKER)} is for {', '.join(names)} until {expires:%Y-%m-%d}; brokers read it within 5 s"
    return _said(given, {"names": names, "expires": expires.isoformat()}, text)


_STEPS = {
    "begin": (
        making.begin_rotation,
        "both authorities are trusted. Give all clients and machines the new files, then: --step use",
    ),
    "use": (
        making.use_next,
        "the next authority signed the broker's certificate. Copy broker.pem to other machines, then: --step finish",
    ),
    "finish": (making.finish_rotation, "the old authority is trusted no more"),
}


def _rotate_ca(given: Given) -> int:
    folder, step = _folder(given), given.text("step")
    folder.need()
    if step is None:
        raise Misuse("give --step begin, use or finish, in this order")
    does, then = _STEPS[step]
    does(folder)
    return _said(given, {"step": step}, then)


def _show(given: Given) -> int:
    folder, now = _folder(given), datetime.datetime.now(datetime.UTC)
    folder.need()
    coming = os.path.join(AUTHORITY, f"{NEXT}.pem")
    found = [
        (file, one)
        for file in (BROKER, TRUSTED, coming)
        if file != coming or folder.has(file)
        for one in making.facts_of(folder.path(file))
    ]
    users = folder.users()
    if wants_json(given):
        rows = [
            {
                "file": file,
                "subject": one.subject,
                "names": one.names,
                "expires": one.expires.isoformat(),
                "days_left": one.days_left(now),
            }
            for file, one in found
        ]
        print_json({"directory": folder.directory, "certificates": rows, "users": users})
        return 0
    table = [
        [file, one.subject, ", ".join(one.names) or None, f"{one.expires:%Y-%m-%d}", one.days_left(now)]
        for file, one in found
    ]
    print_table(["FILE", "SUBJECT", "NAMES", "EXPIRES", "DAYS LEFT"], table)
    sys.stdout.write(f"\nusers with files here: {', '.join(users) or 'none'}\n")
    return 0


def _said(given: Given, content: dict[str, object], text: str) -> int:
    if wants_json(given):
        print_json(content)
    else:
        sys.stdout.write(text + "\n")
    return 0


_DIR = Option("dir", "The folder.", "DIR", default=".")
_HOST = Option("host", "A name or an address by which clients reach the broker; may be repeated.", "NAME")

VERBS = {
    "init": Command(
        "ottla secure init [--dir DIR] [--host NAME]... [--user NAME]...",
        "Make a folder with all that a secure broker and its clients need.\n\n"
        "An authority of your own, a certificate for the broker, its server.properties, users with passwords, and the "
        "files by which Java's clients, librdkafka's and ottla's commands log in. Nothing is overwritten. Without "
        "--host the broker listens for this machine alone; else everywhere, and the first name is told to clients.",
        _init,
        [
            _DIR,
            _HOST,
            Option("user", f"A user beside {ADMIN}; may be repeated.", "NAME"),
            Option("port", "The port of the broker.", "N", "Integer", default=str(DEFAULT_PORT)),
        ],
        connects=False,
    ),
    "user": Command(
        "ottla secure user add|rotate|remove NAME [--dir DIR]",
        "Add a user with files, give one another password, or remove one.\n\n"
        f"The running cluster is asked, as {ADMIN}; at the address in its client.properties.",
        _user,
        [_DIR, Option("offline", "With add, before the first start: a user of that start.")],
        words=(2, 2),
        connects=False,
    ),
    "renew": Command(
        "ottla secure renew [--dir DIR] [--host NAME]...",
        "Sign another certificate for the broker, with the names of the last one and new ones. Running brokers take it "
        "within five seconds; connections go on.",
        _renew,
        [_DIR, _HOST],
        connects=False,
    ),
    "rotate-ca": Command(
        "ottla secure rotate-ca --step begin|use|finish [--dir DIR]",
        "Replace the authority without a pause, in three steps.\n\n"
        "begin: both are trusted, in the users' files too. use: the next one signs the broker's certificate. finish: "
        "the old one is trusted no more. Between the steps the files go to all clients and machines.",
        _rotate_ca,
        [_DIR, Option("step", "The step.", "STEP", choices=tuple(_STEPS))],
        connects=False,
    ),
    "show": Command(
        "ottla secure show [--dir DIR]",
        "Show the certificates, when they expire, and the users with files here.",
        _show,
        [_DIR],
        connects=False,
    ),
}
