"""The folder of `ottla secure`: which file is where, and how files are made and replaced.

server.properties            for `ottla start`
broker.pem                   the broker's private key and certificate
ca.pem                       the certificates that are trusted
ca/                          the authority's private key, and the next one's while it is rotated
first-users.json             keys of the first users' passwords
users/NAME/                  the files of one user
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.cli.faults import BadInput, Misuse, text_of

if TYPE_CHECKING:
    from ottla.tls.authority import Issued

SECRET, OPEN = 0o600, 0o644
SERVER, BROKER, TRUSTED, FIRST_USERS = "server.properties", "broker.pem", "ca.pem", "first-users.json"
AUTHORITY, NEXT = "ca", "next"
CLIENT, LIBRDKAFKA, TRUSTSTORE = "client.properties", "librdkafka.properties", "truststore.p12"
USER_FILES = (CLIENT, LIBRDKAFKA, TRUSTED, TRUSTSTORE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class SecureFolder:
    """One folder. Files of mode SECRET are for their owner alone from the moment they are made."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)

    def path(self, *parts: str) -> str:
        return os.path.join(self.directory, *parts)

    def has(self, *parts: str) -> bool:
        return os.path.lexists(self.path(*parts))

    def text(self, *parts: str) -> str:
        return text_of(self.path(*parts))

    def need(self) -> None:
        """BadInput if `ottla secure init` has not made this folder."""
        if not self.has(SERVER) or not self.has(AUTHORITY):
            raise BadInput(f"{self.directory} was not made by `ottla secure init`: give its folder by --dir")

    def user_path(self, user: str, file: str) -> str:
        return self.path("users", checked_user(user), file)

    def users(self) -> list[str]:
        """The users whose files are here."""
        try:
            return sorted(name for name in os.listdir(self.path("users")) if self.has("users", name, CLIENT))
        except FileNotFoundError:
            return []

    def make(self, files: Mapping[str, tuple[bytes, int]]) -> None:
        """Make files, each with its content and mode. Nothing is made if one of them is there."""
        there = [path for path in files if os.path.lexists(path)]
        if there:
            raise BadInput(f"{there[0]} is there already: nothing is overwritten; choose another folder by --dir")
        for path, (content, mode) in files.items():
            os.makedirs(os.path.dirname(path), mode=0o755 if mode == OPEN else 0o700, exist_ok=True)
            _write(path, content, mode, os.O_EXCL)

    def replace(self, path: str, content: str | bytes, mode: int) -> None:
        """Replace a file at once: a reader finds the old content or the new."""
        fresh = f"{path}.{os.getpid()}"
        _write(fresh, content.encode() if isinstance(content, str) else content, mode, os.O_TRUNC)
        os.replace(fresh, path)

    def authority(self, name: str = AUTHORITY) -> Issued:
        """The authority's key and certificate; BadInput if they are kept elsewhere."""
        key, certificate = self.path(AUTHORITY, f"{name}.key"), self.path(AUTHORITY, f"{name}.pem")
        if not os.path.exists(key):
            raise BadInput(f"{key} is not there: certificates are signed where the authority's private key is kept")
        from ottla.tls.authority import Issued  # of the extra `security`; `ottla start` reads this module without it

        return Issued(text_of(key), text_of(certificate))

    def forget_user(self, user: str) -> None:
        """Remove a user's files; other files in the user's folder stay."""
        for file in USER_FILES:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.user_path(user, file))
        with contextlib.suppress(OSError):  # something else lies in it
            os.rmdir(self.path("users", user))


def authority_files(folder: SecureFolder, name: str, authority: Issued) -> dict[str, tuple[bytes, int]]:
    """The files that keep an authority, for `SecureFolder.make`."""
    return {
        folder.path(AUTHORITY, f"{name}.key"): (authority.key.encode(), SECRET),
        folder.path(AUTHORITY, f"{name}.pem"): (authority.certificate.encode(), SECRET),
    }


def checked_user(user: str) -> str:
    """The name, if files and options can have it."""
    if not _NAME.fullmatch(user):
        raise Misuse(f"{user!r} cannot name a user here: use letters, digits, '.', '_' and '-'")
    return user


def _write(path: str, content: bytes, mode: int, how: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | how, mode)
    with os.fdopen(descriptor, "wb") as out:
        os.fchmod(descriptor, mode)
        out.write(content)
        out.flush()
        os.fsync(descriptor)
