"""Makes and changes the folder of `ottla secure`: users' files, certificates, the authority. No cluster is asked."""

from __future__ import annotations

import datetime
import ipaddress
import os
import platform
import re
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.access.first_users import FirstUser, first_user, first_users_text, parse_first_users
from ottla.cli import secure_texts as texts
from ottla.cli.faults import BadInput, Misuse, text_of
from ottla.cli.secure_folder import (
    AUTHORITY,
    BROKER,
    CLIENT,
    FIRST_USERS,
    LIBRDKAFKA,
    NEXT,
    OPEN,
    SECRET,
    SERVER,
    TRUSTED,
    TRUSTSTORE,
    SecureFolder,
    authority_files,
    checked_user,
)
from ottla.config.properties import parse_properties

if TYPE_CHECKING:
    from ottla.tls.authority import Facts, Issued

_HERE = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?")
_PASSWORD_BYTES, _SALT_BYTES = 24, 20
Files = dict[str, tuple[bytes, int]]


def init(folder: SecureFolder, place: texts.BrokerPlace, users: Sequence[str]) -> None:
    """Make the whole folder, or nothing."""
    from ottla.tls.authority import issue, new_authority

    now = _now()
    authority = new_authority(f"ottla {secrets.token_hex(4)}", now=now)
    broker = issue(authority, place.hosts[0] if place.hosts else "localhost", names_for(place.hosts), now=now)
    passwords = {checked_user(user): new_password() for user in dict.fromkeys([texts.ADMIN, *users])}
    server = texts.server_properties(
        place,
        keystore=folder.path(BROKER),
        truststore=folder.path(TRUSTED),
        first_users=folder.path(FIRST_USERS),
    )
    files: Files = {
        folder.path(SERVER): (server.encode(), SECRET),
        folder.path(BROKER): ((broker.key + broker.certificate).encode(), SECRET),
        folder.path(TRUSTED): (authority.certificate.encode(), OPEN),
        folder.path(FIRST_USERS): (_first_users(passwords).encode(), SECRET),
        **authority_files(folder, AUTHORITY, authority),
    }
    for user, password in passwords.items():
        files |= user_files(folder, place.address, user, password, authority.certificate)
    folder.make(files)


def user_files(folder: SecureFolder, address: str, user: str, password: str, trusted: str) -> Files:
    """The files of one user, for `SecureFolder.make`."""
    from ottla.tls.authority import java_truststore

    trusted_file = folder.user_path(user, TRUSTED)
    return {
        folder.user_path(user, CLIENT): (texts.java_properties(address, user, password, trusted).encode(), SECRET),
        folder.user_path(user, LIBRDKAFKA): (
            texts.librdkafka_properties(address, user, password, trusted_file).encode(),
            SECRET,
        ),
        trusted_file: (trusted.encode(), OPEN),
        folder.user_path(user, TRUSTSTORE): (java_truststore(trusted, texts.TRUSTSTORE_PASSWORD), OPEN),
    }


def address_of(folder: SecureFolder, user: str = texts.ADMIN) -> str:
    """The address in a user's file."""
    path = folder.user_path(user, CLIENT)
    address = parse_properties(text_of(path)).get("bootstrap.servers")
    if not address:
        raise BadInput(f"{path} has no bootstrap.servers")
    return address


def add_first_user(folder: SecureFolder, user: str, password: str) -> None:
    """Add a user to those of the first start."""
    path = folder.path(FIRST_USERS)
    try:
        users = list(parse_first_users(text_of(path)))
    except ValueError as fault:
        raise BadInput(f"{path}: {fault}") from None
    if any(each.name == user for each in users):
        raise BadInput(f"{path} has the user {user} already")
    users.append(_first_user(user, password))
    folder.replace(path, first_users_text(users), SECRET)


def set_password(folder: SecureFolder, user: str, password: str, *, client_to: str | None = None) -> None:
    """Put another password into a user's files, or, with `client_to`, into a copy of the first of them alone."""
    if client_to is not None:
        folder.replace(client_to, text_of(folder.user_path(user, CLIENT)), SECRET)
        _change_line(folder, client_to, texts.jaas_line(user, password))
        return
    for file, line in ((CLIENT, texts.jaas_line(user, password)), (LIBRDKAFKA, texts.password_line(password))):
        _change_line(folder, folder.user_path(user, file), line)


def set_address(folder: SecureFolder, address: str) -> None:
    """Put the brokers' address, HOST:PORT,..., into the files of all users, where it is another."""
    line = f"bootstrap.servers={address}\n"
    for user in folder.users():
        for file in (CLIENT, LIBRDKAFKA):
            path = folder.user_path(user, file)
            if line not in text_of(path):
                _change_line(folder, path, line)


def renew(folder: SecureFolder, hosts: Sequence[str], authority: Issued | None = None) -> tuple[str, ...]:
    """Sign another certificate for the broker; its names, which are those of the last one and the new ones."""
    from ottla.tls.authority import issue

    last = facts_of(folder.path(BROKER))[0]
    names = tuple(dict.fromkeys([*(checked_host(host) for host in hosts), *last.names]))
    broker = issue(authority or folder.authority(), last.subject.removeprefix("CN="), names, now=_now())
    folder.replace(folder.path(BROKER), broker.key + broker.certificate, SECRET)
    return names


def begin_rotation(folder: SecureFolder) -> None:
    """Make the next authority, which everybody trusts beside the present one from now on."""
    from ottla.tls.authority import new_authority

    present = folder.authority()
    if folder.has(AUTHORITY, f"{NEXT}.pem"):
        raise Misuse("the next authority is there already: go on by --step use")
    following = new_authority(f"ottla {secrets.token_hex(4)}", now=_now())
    folder.make(authority_files(folder, NEXT, following))
    trust(folder, present.certificate + following.certificate)


def use_next(folder: SecureFolder) -> None:
    """Have the next authority sign from now on, the broker's certificate first."""
    if not folder.has(AUTHORITY, f"{NEXT}.pem"):
        raise Misuse("there is no next authority: begin by --step begin")
    renew(folder, (), folder.authority(NEXT))
    for kind in ("key", "pem"):
        os.replace(folder.path(AUTHORITY, f"{NEXT}.{kind}"), folder.path(AUTHORITY, f"{AUTHORITY}.{kind}"))


def finish_rotation(folder: SecureFolder) -> None:
    """Trust the present authority alone."""
    from ottla.tls.authority import signed_by

    present = folder.authority().certificate
    if folder.has(AUTHORITY, f"{NEXT}.pem"):
        raise Misuse("the next authority does not sign yet: --step use comes first")
    if len(facts_of(folder.path(TRUSTED))) < 2:
        raise Misuse("one authority is trusted only: no rotation has begun; --step begin does")
    if not signed_by(certificates_of(folder.path(BROKER)), present):
        raise BadInput(f"{folder.path(BROKER)} is not signed by the present authority: `ottla secure renew` mends it")
    trust(folder, present)


def trust(folder: SecureFolder, certificates: str) -> None:
    """Replace the trusted certificates: the broker's and those in every user's files."""
    from ottla.tls.authority import java_truststore

    folder.replace(folder.path(TRUSTED), certificates, OPEN)
    for user in folder.users():
        _change_line(folder, folder.user_path(user, CLIENT), texts.trusted_line(certificates))
        folder.replace(folder.user_path(user, TRUSTED), certificates, OPEN)
        store = java_truststore(certificates, texts.TRUSTSTORE_PASSWORD)
        folder.replace(folder.user_path(user, TRUSTSTORE), store, OPEN)


def certificates_of(path: str) -> str:
    """The certificates in a PEM file, without its key."""
    from ottla.tls.stores import StoreUnreadable, pem_trusted

    try:
        return pem_trusted(text_of(path), path)
    except StoreUnreadable as fault:
        raise BadInput(str(fault)) from None


def facts_of(path: str) -> list[Facts]:
    """The facts of the certificates in a PEM file."""
    from ottla.tls.authority import facts

    try:
        return facts(certificates_of(path))
    except ValueError:
        raise BadInput(f"{path} holds a certificate that cannot be read") from None


def names_for(hosts: Sequence[str]) -> tuple[str, ...]:
    """The names of a certificate: those given, this machine's, and loopback's."""
    own = platform.node()
    return tuple(dict.fromkeys([*hosts, *([own] if _HOST.fullmatch(own) else []), *_HERE]))


def checked_host(host: str) -> str:
    """A name or an address that a certificate can have; Misuse otherwise."""
    bare = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not _is_address(bare) and not _HOST.fullmatch(bare):
        raise Misuse(f"--host {host!r} is neither a host's name nor an address; a port is given by --port")
    return bare


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def new_password() -> str:
    return secrets.token_urlsafe(_PASSWORD_BYTES)


def _first_users(passwords: dict[str, str]) -> str:
    return first_users_text(_first_user(user, password) for user, password in passwords.items())


def _first_user(user: str, password: str) -> FirstUser:
    return first_user(user, password, texts.MECHANISM, secrets.token_bytes(_SALT_BYTES))


def _change_line(folder: SecureFolder, path: str, line: str) -> None:
    try:
        changed = texts.with_line(text_of(path), line)
    except ValueError as fault:
        raise BadInput(f"{path}: {fault}") from None
    folder.replace(path, changed, SECRET)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
