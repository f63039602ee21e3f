"""A file of users with passwords, NAME=PASSWORD a line, for what is served over HTTP; a changed file is read again."""

from __future__ import annotations

import hmac
import os

from ottla.config.properties import parse_properties


class UsersFile:
    """The users of a file. ValueError if the file cannot be used; a later one that cannot lets nobody in."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._users: dict[str, str] = {}
        self._seen: tuple[int, int, int] | None = None
        if (why := self._follow()) is not None:
            raise ValueError(f"{path}: {why}")

    def knows(self, user: str, password: str) -> bool:
        """True if this is the user's password."""
        self._follow()
        kept = self._users.get(user)
        same = hmac.compare_digest((kept or "").encode(), password.encode())
        return same and kept is not None

    def _follow(self) -> str | None:
        """Read the file if it has changed; the reason why it cannot be used."""
        try:
            found = os.stat(self._path)
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen == self._seen:
                return None
            self._seen, self._users = None, {}
            with open(self._path, encoding="utf-8") as file:
                users = parse_properties(file.read())
        except OSError as fault:
            self._seen, self._users = None, {}
            return fault.strerror or "it cannot be read"
        except ValueError:
            return "it is not lines NAME=PASSWORD"
        empty = [name for name, password in users.items() if not name or not password]
        if empty or not users:
            return f"user {empty[0]!r} has no password" if empty else "it names no user"
        self._seen, self._users = seen, users
        return None
