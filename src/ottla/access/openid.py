"""Logins at an identity provider by OpenID Connect's authorization code flow with PKCE: questions and answers.

Pure: nothing is fetched here, and random texts and the time go in.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
from collections.abc import Collection, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import SplitResult, quote, urlencode, urlsplit

LOGIN_S = 600
"""A login that was begun must end within so many seconds."""
_MOST_TEXT = 300
_MOST_TOKEN = 64 * 1024
_BASIC, _POST, _NONE = "client_secret_basic", "client_secret_post", "none"


class WrongAnswer(Exception):
    """The provider's answer cannot be used; the text says why."""


class LoginRefused(Exception):
    """This login ends here; the text says why."""


class ProviderEndpoints(NamedTuple):
    """A provider's addresses, as its discovery document has them."""

    authorization: str
    token: str
    keys: str
    end_session: str = ""
    """Ends the user's session at the provider; empty where there is none."""
    by_post: bool = False
    """True if the client's secret goes in the form, since the provider does not take HTTP's Basic."""


class LoginAttempt(NamedTuple):
    """The secrets of one login."""

    state: str
    nonce: str
    verifier: str

    @property
    def challenge(self) -> str:
        """The verifier's hash, which the provider gets first (RFC 7636, S256)."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())


class TokenAnswer(NamedTuple):
    """The tokens that a provider gave."""

    access: str
    lives_s: float | None
    """The life of the access token from the answer on; None where the provider does not say."""
    refresh: str
    """Empty where there is none."""
    id: str
    """Empty where there is none."""


def issuer_refusal(issuer: str) -> str | None:
    """The reason for which this is no issuer; None if it is one."""
    if (why := unsafe_url(issuer)) is not None:
        return why
    parts = urlsplit(issuer)
    return "an issuer has neither a query nor a fragment" if parts.query or parts.fragment else None


def unsafe_url(url: str) -> str | None:
    """The reason for which no secret may go to this URL: it is not https, and not http to this machine."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return f"{url[:_MOST_TEXT]} is no URL"
    if parts.scheme not in ("https", "http") or not parts.hostname:
        return f"{url[:_MOST_TEXT]} must be a URL with https"
    if parts.username is not None or parts.password is not None:
        return "it must not hold a user or a password"
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        return f"{url[:_MOST_TEXT]} must be https: http is taken for this machine alone"
    if not url.isascii() or not url.isprintable() or " " in url:
        return f"{url[:_MOST_TEXT]!r} has signs that no URL has"
    return None


def discovery_url(issuer: str) -> str:
    """The address of an issuer's discovery document (Discovery 1.0, 4)."""
    return issuer.rstrip("/") + "/.well-known/openid-configuration"


def read_endpoints(content: bytes, issuer: str, allowed: Collection[str] = ()) -> ProviderEndpoints:
    """The addresses in a discovery document. WrongAnswer where it is another issuer's, or sends us elsewhere.

    Tokens and keys are asked for at the issuer's own scheme, host and port; other URLs must be among `allowed`.
    """
    found = _object(content)
    if found.get("issuer") != issuer:
        raise WrongAnswer(f"it says that it is of the issuer {str(found.get('issuer'))[:_MOST_TEXT]!r}, not {issuer}")
    for name, wanted in (("code_challenge_methods_supported", "S256"), ("response_types_supported", "code")):
        if name in found and wanted not in _texts(found, name):
            raise WrongAnswer(f"its {name} lacks {wanted}, which is needed here")
    methods = _texts(found, "token_endpoint_auth_methods_supported") or [_BASIC]
    if not set(methods) & {_BASIC, _POST, _NONE}:
        raise WrongAnswer(f"its token_endpoint_auth_methods_supported has none of {_BASIC}, {_POST}, {_NONE}")
    end_session = found.get("end_session_endpoint")
    return ProviderEndpoints(
        _endpoint(found, "authorization_endpoint"),
        _own(_endpoint(found, "token_endpoint"), "token_endpoint", issuer, allowed),
        _own(_endpoint(found, "jwks_uri"), "jwks_uri", issuer, allowed),
        "" if end_session is None else _endpoint(found, "end_session_endpoint"),
        _BASIC not in methods and _POST in methods,
    )


def begun(random_text: str, now_s: float) -> str:
    """The text that the browser keeps during a login."""
    return f"{int(now_s)}.{random_text}"


def login_attempt(kept: str, key: bytes) -> LoginAttempt:
    """The secrets of the login whose text the browser keeps; they follow from that text and this console's key.

    So nothing is kept here of logins that were begun, and nobody can fill the memory by beginning them.
    """
    return LoginAttempt(
        *(_text(hmac.digest(key, f"{name} {kept}".encode(), "sha256")) for name in LoginAttempt._fields)
    )


def authorization_url(
    endpoint: str, attempt: LoginAttempt, *, client_id: str, redirect_url: str, scopes: Sequence[str]
) -> str:
    """The address to which the browser goes to log in."""
    asked = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_url,
        "scope": " ".join(scopes),
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": attempt.challenge,
        "code_challenge_method": "S256",
    }
    return _with_query(endpoint, asked)


def end_session_url(endpoint: str, *, client_id: str, id_token: str) -> str:
    """The address at which the browser ends the user's session at the provider (RP-Initiated Logout 1.0)."""
    return _with_query(endpoint, {"client_id": client_id, "id_token_hint": id_token})


def code_of(given: Mapping[str, Sequence[str]], kept: str, attempt: LoginAttempt, *, issuer: str, now_s: float) -> str:
    """The code with which the provider sent the browser back; LoginRefused says why there is none.

    Parameters of other names are passed over, as the protocol wants it.
    """
    one = {name: values[0] for name, values in given.items() if len(values) == 1}
    if not kept or not hmac.compare_digest(one.get("state", "").encode(), attempt.state.encode()):
        raise LoginRefused("this login was not begun in this browser, or this console was started anew: begin again")
    if not 0 <= now_s - int(kept.partition(".")[0]) <= LOGIN_S:
        raise LoginRefused(f"this login took longer than {LOGIN_S // 60} minutes: begin again")
    if "iss" in one and one["iss"] != issuer:
        raise LoginRefused("another provider sent the browser back than the one of this login (RFC 9207)")
    if "error" in one:
        more = _shown(one.get("error_description", ""))
        raise LoginRefused(f"{issuer} let nobody log in: {_shown(one['error'])}{more and f' ({more})'}")
    if not one.get("code"):
        raise LoginRefused(f"{issuer} sent the browser back without a code")
    return one["code"]


def token_request(
    endpoints: ProviderEndpoints, form: Mapping[str, str], *, client_id: str, client_secret: str
) -> tuple[bytes, dict[str, str]]:
    """The form and the headers of a request for tokens, with the client's proof (RFC 6749, 2.3.1)."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    if client_secret and not endpoints.by_post:
        pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return urlencode(form).encode(), headers
    own = {"client_id": client_id} | ({"client_secret": client_secret} if client_secret else {})
    return urlencode({**form, **own}).encode(), headers


def read_tokens(content: bytes) -> TokenAnswer:
    """The tokens in the answer to a request for some; WrongAnswer where they cannot be used."""
    found = _object(content)
    kind = found.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise WrongAnswer(f"its token_type is {str(kind)[:40]!r}, not Bearer")
    lives_s = found.get("expires_in")
    if isinstance(lives_s, str) and lives_s.isascii() and lives_s.isdigit():  # as some write it
        lives_s = int(lives_s[:18])
    if lives_s is not None:
        if isinstance(lives_s, bool) or not isinstance(lives_s, int | float) or not 0 < lives_s < math.inf:
            raise WrongAnswer("its expires_in is no number of seconds")
        lives_s = float(lives_s)
    access = _token(found, "access_token")
    if not access:
        raise WrongAnswer("it has no access_token")
    return TokenAnswer(access, lives_s, _token(found, "refresh_token"), _token(found, "id_token"))


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise WrongAnswer("it is no JSON") from None
    if not isinstance(found, dict):
        raise WrongAnswer("it is no JSON object")
    return found


def _endpoint(found: Mapping[str, Any], name: str) -> str:
    url = found.get(name)
    if not isinstance(url, str):
        raise WrongAnswer(f"its {name} is no text")
    if (why := unsafe_url(url)) is not None:
        raise WrongAnswer(f"its {name}: {why}")
    return url


def _own(url: str, name: str, issuer: str, allowed: Collection[str]) -> str:
    if _origin(urlsplit(url)) != _origin(urlsplit(issuer)) and url not in allowed:
        raise WrongAnswer(
            f"its {name} {url[:_MOST_TEXT]} is not at the issuer: if that is meant, add it to the environment "
            "variable OTTLA_ALLOWED_URLS (URLs, comma-separated)"
        )
    return url


def _origin(parts: SplitResult) -> tuple[str, str | None, int]:
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _texts(found: Mapping[str, Any], name: str) -> Sequence[str]:
    value = found.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise WrongAnswer(f"its {name} is no list of texts")
    return value


def _token(found: Mapping[str, Any], name: str) -> str:
    """A token of the answer; empty where there is none."""
    value = found.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > _MOST_TOKEN or not value.isascii() or not value.isprintable():
        raise WrongAnswer(f"its {name} is no token")
    return value


def _with_query(endpoint: str, asked: Mapping[str, str]) -> str:
    parts = urlsplit(endpoint)
    query = "&".join(filter(None, (parts.query, urlencode(asked, quote_via=quote))))
    return parts._replace(query=query, fragment="").geturl()


def _shown(text: str) -> str:
    """A text of somebody else, so short and plain that it may stand in a sentence."""
    return "".join(sign if sign.isprintable() else " " for sign in text)[:_MOST_TEXT]


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
