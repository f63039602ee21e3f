"""Clients of S3, GCS and Azure through obstore: credentials by each store's default chain, errors as OSError.

S3 takes the environment (AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL, ...), web identity tokens, and the metadata
of a container or an instance; a profile or a credentials file is read through boto3. GCS takes
GOOGLE_APPLICATION_CREDENTIALS, gcloud's own file and the metadata server, Azure AZURE_STORAGE_ACCOUNT_NAME and what
goes with it, the command line's login and the managed identity.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from ottla.stores.base import LakeRefused, StoreUnreachable
from ottla.stores.urls import LakeUrlParts

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

Client = S3Store | GCSStore | AzureStore

_STATUS = re.compile(r"status code: (\d{3})")
_FIRST_PAUSE = 0.1
_PASSING = (408, 409, 425, 429)
_MESSAGE = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")


@dataclass(frozen=True, slots=True)
class Patience:
    """The time that a client tries before the store counts as unreachable."""

    retries: int = 1_000
    """High enough that the time limit decides."""
    seconds: float = 90.0
    """The time from a request's first try to the start of its last."""
    request_seconds: float = 60.0
    """The time for one try."""

    @classmethod
    def for_lease(cls, seconds: float) -> Patience:
        """The patience of a lease: a renewal must fail early enough for another one to have time."""
        return cls(retries=2, seconds=seconds / 8, request_seconds=max(seconds / 8, 0.25))


def open_client(place: LakeUrlParts, patience: Patience, settings: Mapping[str, str] = MappingProxyType({})) -> Client:
    """A client of one bucket; nothing is asked of the store yet. `settings` are S3's, before the environment's."""
    try:
        if place.scheme == "s3":
            return _s3(place.bucket, patience, settings)
        if place.scheme == "gs":
            return GCSStore(place.bucket, client_options=_options("", patience), retry_config=_retries(patience))
        named: dict[str, Any] = {"account_name": place.account} if place.account else {}
        return AzureStore(
            place.bucket, client_options=_options(azure_endpoint(), patience), retry_config=_retries(patience), **named
        )
    except BaseError as fault:
        raise LakeRefused(f"{place.scheme}://{place.bucket} cannot be opened: {said_by(fault)}") from None


def azure_endpoint() -> str:
    """Another endpoint than Azure's own, where the environment names one."""
    return os.environ.get("AZURE_STORAGE_ENDPOINT") or os.environ.get("AZURE_ENDPOINT") or ""


def _s3(bucket: str, patience: Patience, settings: Mapping[str, str]) -> S3Store:
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    endpoint = settings.get("endpoint") or next(filter(None, map(os.environ.get, names)), "")
    provided: dict[str, Any] = dict(settings)
    if "access_key_id" not in settings and (provider := _profile()):
        provided["credential_provider"] = provider
    return S3Store(bucket, client_options=_options(endpoint, patience), retry_config=_retries(patience), **provided)


def _profile() -> object | None:
    """Credentials by boto3, where a profile is asked for, or a file is there and the environment has none."""
    environment = os.environ
    named = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE")
    files = (
        Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials").expanduser(),
        Path(environment.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser(),
    )
    if not named and (environment.get("AWS_ACCESS_KEY_ID") or not any(path.exists() for path in files)):
        return None
    if find_spec("boto3") is None:
        if named:
            raise LakeRefused(f"profile '{named}' of AWS is read through boto3: pip install boto3")
        return None
    return _by_boto3(named)


def _by_boto3(named: str | None) -> object | None:
    from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        return Boto3CredentialProvider()
    except BotoCoreError as fault:
        raise LakeRefused(f"AWS credentials: {fault}") from None
    except ValueError:  # no credentials in any of boto3's places
        if named:
            raise LakeRefused(f"profile '{named}' of AWS has no credentials") from None
        return None


def _options(endpoint: str, patience: Patience) -> ClientConfig:
    """An endpoint that the user wrote as http:// is meant to be one."""
    options: ClientConfig = {"timeout": timedelta(seconds=patience.request_seconds)}
    options["connect_timeout"] = timedelta(seconds=min(5.0, patience.request_seconds))
    if endpoint.startswith("http://"):
        options["allow_http"] = True
    return options


def _retries(patience: Patience) -> RetryConfig:
    longest = max(min(10.0, patience.seconds / 4), 2 * _FIRST_PAUSE)  # obstore panics where it is not above the first
    return {
        "max_retries": patience.retries,
        "retry_timeout": timedelta(seconds=patience.seconds),
        "backoff": {
            "init_backoff": timedelta(seconds=_FIRST_PAUSE),
            "max_backoff": timedelta(seconds=longest),
            "base": 2,
        },
    }


@contextmanager
def asked(doing: str) -> Iterator[None]:
    """Errors of obstore as the protocol's; FileNotFoundError passes, but for a bucket that is missing."""
    try:
        yield
    except FileNotFoundError as fault:
        if any(sign in str(fault) for sign in _NO_BUCKET):
            raise LakeRefused(f"{doing}: the bucket does not exist; make it first") from None
        raise FileNotFoundError(f"{doing}: {said_by(fault)}") from None
    except (PermissionDeniedError, UnauthenticatedError) as fault:
        raise PermissionError(f"{doing}: {said_by(fault)}") from None
    except InvalidPathError as fault:
        raise OSError(f"{doing}: {said_by(fault)}") from None
    except BaseError as fault:
        raise _as_os_error(fault, doing) from None


def _as_os_error(fault: BaseError, doing: str) -> OSError | LakeRefused:
    text = str(fault)
    if any(sign in text for sign in _NO_BUCKET):
        return LakeRefused(f"{doing}: the bucket does not exist; make it first")
    status = int(found[1]) if (found := _STATUS.search(text)) else 0
    sentence = f"{doing}: {said_by(fault)}"
    if status in (401, 403):
        return PermissionError(sentence)
    if status >= 500 or status in _PASSING or (not status and "builder error" not in text and _is_of_the_network(text)):
        return StoreUnreachable(sentence)
    return OSError(sentence)


def _is_of_the_network(text: str) -> bool:
    return any(sign in text for sign in ("HTTP error", "error decoding response body", "timed out", "connection"))


def said_by(fault: Exception) -> str:
    """One line of an error: what was asked, and the store's own message."""
    first = str(fault).partition("\n\nDebug source")[0]
    head = first.partition(": <")[0].splitlines()[0] if first else type(fault).__name__
    message = _MESSAGE.search(first)
    return f"{head[:400]}: {message[1]}" if message else head[:400]
