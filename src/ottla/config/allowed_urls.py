"""The URLs that options may name: a list outside the options, as Apache Kafka 4 has one (CVE-2025-27817).

Options of clients come from others too: from Connect's REST interface, from a pipeline's file. They must not make this
process read its own files, or ask servers of its network.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

VARIABLE = "OTTLA_ALLOWED_URLS"
PROPERTY = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""Kafka's system property, which its scripts take from the variable KAFKA_OPTS."""
FILES_PROPERTY = "org.apache.kafka.sasl.oauthbearer.allowed.files"
"""Kafka's other one: paths."""
_SCHEMES = ("https", "http", "file")


def allowed_urls(environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The URLs in OTTLA_ALLOWED_URLS, and those of Kafka's two properties in KAFKA_OPTS; each comma-separated."""
    texts = [environment.get(VARIABLE, "")]
    try:
        words = shlex.split(environment.get("KAFKA_OPTS", ""))
    except ValueError:
        words = []  # a quote is not closed: nothing in it is allowed
    texts += [word.partition("=")[2] for word in words if word.startswith(f"-D{PROPERTY}=")]
    urls = [url.strip() for text in texts for url in text.split(",")]
    paths = [word.partition("=")[2].split(",") for word in words if word.startswith(f"-D{FILES_PROPERTY}=")]
    urls += [f"file://{quote(path.strip())}" for listed in paths for path in listed if path.strip()]
    return frozenset(url for url in urls if url)


def url_refusal(option: str, url: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The reason for which an option may not name this URL; None if it may."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return f"{option}: {url} is no URL"
    if parts.scheme not in _SCHEMES or (parts.scheme != "file" and not parts.hostname):
        return f"{option}: {url} must be a URL with https, http or file"
    if parts.username is not None or parts.password is not None:
        return f"{option}: it must not hold a user or a password"
    if parts.scheme == "file" and (parts.netloc not in ("", "localhost") or not parts.path.startswith("/")):
        return f"{option}: {url} must be file:///PATH"
    if url not in allowed_urls(environment):
        return f"{option}: {url} is not allowed: add it to the environment variable {VARIABLE} (URLs, comma-separated)"
    return None
