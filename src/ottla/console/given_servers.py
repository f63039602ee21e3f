"""The registry, the workers and the instances of Streams that a console's options name, and what to warn of."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ottla.cli.command import registry_address
from ottla.cli.faults import Misuse
from ottla.cli.options import Given
from ottla.console.beside import HTTPS_ALONE, own_credential
from ottla.console.desk import ConsoleSetting, Decoding, links
from ottla.web.credentials import REFUSED, Credential, is_private

if TYPE_CHECKING:
    from ottla.client.registry_client import RegistryClient
    from ottla.console.links import LinkedServer


def given_registry(given: Given) -> RegistryClient | None:
    """The registry, asked by the console's own user. Values whose schema that user may not see are shown as bytes."""
    from ottla.client import registry_client as its

    address = given.text("registry")
    if not address:
        return None
    try:
        urls = its.registry_urls(registry_address(address, "--registry"), "--registry")
    except ValueError as fault:
        raise Misuse(str(fault)) from None
    variables = f"{its.USER} and {its.PASSWORD}, or {its.TOKEN},"
    own = own_credential(its.credential_of_environment(), variables, insecure="insecure" in given)
    return its.RegistryClient(urls, credential=own, unseen=REFUSED | {404})


def decoding() -> Decoding:
    """Readers of values by the schemas of a registry. Their library is loaded now, so that no user waits for it."""
    from ottla.formats.console import ValueDecoder

    return lambda client: ValueDecoder(client.schema).decode


def given_workers(given: Given) -> tuple[LinkedServer, ...]:
    """The workers of Connect, asked by the console's own user."""
    from ottla.connect.commands import asking as its

    variables = f"{its.USER} and {its.PASSWORD}, or {its.TOKEN},"
    own = own_credential(its.credential_of_environment(), variables, insecure="insecure" in given)
    return _linked(given, "connect", own)


def given_instances(given: Given) -> tuple[LinkedServer, ...]:
    """The instances of Streams, which ask nobody who calls."""
    return _linked(given, "streams")


def _linked(given: Given, option: str, credential: Credential | None = None) -> tuple[LinkedServer, ...]:
    try:
        return links(given.all(option), credential)
    except ValueError as fault:
        raise Misuse(f"--{option}: {fault}") from None


def check_insecure(given: Given) -> None:
    """Misuse for --insecure without a server that could be shown a credential."""
    if "insecure" in given and "registry" not in given and "connect" not in given:
        raise Misuse("--insecure is about credentials for a registry and for workers: name --registry or --connect")


def warnings(setting: ConsoleSetting) -> list[str]:
    """Sentences about credentials that some server will not be shown."""
    from ottla.client import registry_client
    from ottla.connect.commands import asking

    registry = () if setting.registry is None else setting.registry.urls
    asked = (
        ("registry", registry, (registry_client.USER, registry_client.TOKEN)),
        ("connect", [link.url for link in setting.connect], (asking.USER,)),
    )
    found = []
    for option, urls, variables in asked:
        named = [name for name in variables if urls and os.environ.get(name)]
        if setting.asks:
            found += [f"{name} does not count: users show their own credentials" for name in named]
        if (setting.asks or named) and not setting.insecure:
            found += [f"--{option} {url}: {HTTPS_ALONE}" for url in urls if not is_private(url)]
    return found
