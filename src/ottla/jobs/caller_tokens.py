"""The owners of tokens that callers over HTTP bring: an identity provider's, looked at as a broker looks at them."""

from __future__ import annotations

from ottla.access.mechanisms.oauthbearer import Bearer
from ottla.config.oauth_file import oauth_settings_in
from ottla.jobs.token_keys import TokenKeys
from ottla.web.entry import TokenRefused


class CallerTokens:
    """Names the owner of a token, by the `sasl.oauthbearer.*` options in a file: those of a broker's listener.

    ValueError says what is wrong with the file, or what is missing.
    """

    def __init__(self, path: str) -> None:
        self._keys = TokenKeys(oauth_settings_in(path))
        self._keys.begin()

    def owner(self, token: str) -> str:
        """The user whose token this is, or TokenRefused. May wait for the provider's keys: call it in a thread."""
        found = self._keys.judge(token)
        if not isinstance(found, Bearer):
            raise TokenRefused(found.why)
        return found.name
