"""`ottla console`: a console in the browser, served in this process until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ottla.cli.command import Command
from ottla.cli.connect import client_settings, read_properties
from ottla.cli.faults import BadInput, Misuse, text_of
from ottla.cli.options import Given, Option
from ottla.client.security import BY_PASSWORD
from ottla.console.desk import ConsoleSetting
from ottla.console.given_servers import (
    check_insecure,
    decoding,
    given_instances,
    given_registry,
    given_workers,
    warnings,
)
from ottla.console.masks import Masks, mask
from ottla.console.provider import ProviderSetting

if TYPE_CHECKING:
    from ottla.pipeline.reading import PipelineFile

LOOPBACK = ("127.0.0.1", "::1", "localhost")
CLIENT_SECRET = "OTTLA_OIDC_CLIENT_SECRET"
"""The variable with this console's secret at the identity provider."""
_HIGHEST_PORT = 65535
_NEEDED = (
    ("registry", "formats", ("pyarrow", "fastavro", "google.protobuf")),
    ("lake", "lake", ("pyarrow",)),
    ("pipeline", "pipeline", ("yaml",)),
    ("oidc-issuer", "security", ("joserfc", "cryptography")),
)
"""By option, the extra and the packages without which its page cannot be."""


def command(arguments: Sequence[str]) -> int:
    return COMMAND.run(arguments)


def _start(given: Given) -> int:
    port = given.count("port")
    if not 0 <= port <= _HIGHEST_PORT:
        raise Misuse(f"--port {port} is not a port: ports are 0 to {_HIGHEST_PORT}")
    needed = ["jinja2", *(["urllib3"] if "registry" in given or "connect" in given else [])]
    needed += ["urllib3"] if "streams" in given and "urllib3" not in needed else []
    extras = "console"
    for option, extra, names in _NEEDED:
        if option in given:
            needed += [name for name in names if name not in needed]
            extras += f",{extra}"
    missing = [name for name in needed if not _there(name)]
    if missing:
        sys.stderr.write(f"ottla console: needs {', '.join(missing)}: pip install 'ottla[{extras}]'\n")
        return 1
    logging.basicConfig(level=logging.WARNING, format="ottla: %(message)s", stream=sys.stderr)
    setting, tls = setting_of(given), _tls(given)
    try:
        asyncio.run(_serve(setting, given, tls))
    except (OSError, ValueError) as fault:
        sys.stderr.write(f"ottla console: cannot start: {fault}\n")
        return 1
    return 0


def _there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def setting_of(given: Given) -> ConsoleSetting:
    """A console as its options say it."""
    check_insecure(given)
    path, registry = given.text("command-config"), given_registry(given)
    try:
        masks = Masks([mask(text) for text in given.all("mask")])
    except ValueError as fault:
        raise Misuse(str(fault)) from None
    return ConsoleSetting(
        given.need("bootstrap-server"),
        client_settings(read_properties(path) if path else {}, "ottla-console"),
        registry,
        given_workers(given),
        read_only="read-only" in given,
        shows_records="no-data" not in given,
        masks=masks,
        login=given.text("login") or "",
        decoding=None if registry is None else decoding(),
        streams=given_instances(given),
        lakes=tuple(given.all("lake")),
        pipelines=_pipelines(given.all("pipeline")),
        audit_log=tuple(given.all("audit-log")),
        provider=_provider(given),
        insecure="insecure" in given,
    )


def _provider(given: Given) -> ProviderSetting | None:
    """The identity provider at which users log in; Misuse where its options do not fit together."""
    if "oidc-issuer" not in given:
        alone = next((option.name for option in OIDC if option.name in given), None)
        if alone is not None:
            raise Misuse(f"--{alone} is about an identity provider: say which with --oidc-issuer")
        return None
    path = given.text("oidc-client-secret-file")
    secret = os.environ.get(CLIENT_SECRET, "") if path is None else text_of(path).partition("\n")[0].rstrip("\r")
    if path is not None and not secret:
        raise BadInput(f"{path}: its first line must be the secret of this console at the identity provider")
    try:
        return ProviderSetting(
            given.need("oidc-issuer"),
            given.text("oidc-client-id") or "",
            secret,
            tuple(given.need("oidc-scopes").replace(",", " ").split()),
            given.need("oidc-principal-claim"),
            given.text("oidc-redirect-url") or "",
        )
    except ValueError as fault:
        raise Misuse(str(fault)) from None


def _names(given: Given, setting: ConsoleSetting) -> list[str]:
    """The names under which browsers reach the console."""
    redirect = setting.provider.redirect_url if setting.provider is not None else ""
    behind = urlsplit(redirect).hostname
    return [*given.all("name"), given.need("host"), *([behind] if behind else [])]


def _pipelines(paths: Sequence[str]) -> tuple[PipelineFile, ...]:
    if not paths:
        return ()
    from ottla.pipeline.reading import PipelineFile

    return tuple(map(PipelineFile.read, paths))


def _tls(given: Given) -> dict[str, str] | None:
    """The ssl.* options of a file: that of a broker or a worker will do."""
    path = given.text("ssl-config")
    if path is None:
        return None
    found = {name: text for name, text in read_properties(path).items() if name.startswith("ssl.")}
    if not found:
        raise BadInput(f"{path} has no option ssl.*: HTTPS needs ssl.keystore.location at the least")
    return found


async def _serve(setting: ConsoleSetting, given: Given, tls: dict[str, str] | None) -> None:
    from ottla.console.app import ConsoleApp, guarded
    from ottla.jobs.parent import parent_watched
    from ottla.web.entry import https_context
    from ottla.web.server import listening, serving, url_of

    stop, host = asyncio.Event(), given.need("host")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    context = None if tls is None else https_context(tls)
    try:
        bound = listening(host, given.count("port"))
    except OSError as fault:
        free = "; choose another with --port (0: a free one)" if fault.errno == errno.EADDRINUSE else ""
        raise OSError(f"{fault.strerror}{free}") from fault
    app = ConsoleApp(setting, secure=context is not None)
    url = url_of(host, bound, scheme="http" if context is None else "https")
    parent = parent_watched(stop) if "with-parent" in given else nullcontext()
    with bound:
        handler = guarded(app, _names(given, setting))
        async with parent, serving(handler, bound, ssl_context=context):
            sys.stdout.write(f"ottla console ready: {url} on {setting.bootstrap}\n")
            sys.stdout.flush()
            said = warnings(setting)
            if host not in LOOPBACK and not setting.asks:
                said.append("anybody who reaches it may use it; --login and --oidc-issuer ask for users")
            sys.stderr.writelines(f"ottla console: warning: {each}\n" for each in said)
            await stop.wait()
        await app.close()


OIDC = [
    Option(
        "oidc-issuer", "Users log in at this identity provider (OpenID Connect), whose tokens the brokers take.", "URL"
    ),
    Option("oidc-client-id", "The name of this console at the identity provider.", "ID"),
    Option(
        "oidc-client-secret-file",
        f"Its secret there: the first line of this file, else the variable {CLIENT_SECRET}, else none.",
        "FILE",
    ),
    Option("oidc-scopes", "The scopes to ask for, with commas or blanks between.", "SCOPES", default="openid"),
    Option(
        "oidc-principal-claim",
        "The claim with the user's name, as brokers have it in sasl.oauthbearer.sub.claim.name.",
        "NAME",
        default="sub",
    ),
    Option(
        "oidc-redirect-url",
        "The address of /login/callback for browsers, where they reach the console through a proxy.",
        "URL",
    ),
]

COMMAND = Command(
    "ottla console [-b HOST:PORT] [--port N] [--registry URL] [--connect URL] [--read-only]",
    "Serve a console for the browser: topics, records, searches, groups, schemas, connectors, streams, lakes.\n\n"
    "It works with any Kafka cluster. Every change is shown before it is made, with the command that does the same.",
    _start,
    [
        Option(
            "host",
            "Listen there; without --login and --oidc-issuer anybody who reaches it may use it.",
            "HOST",
            default="127.0.0.1",
        ),
        Option("port", "The port of HTTP; 0 takes a free one.", "N", "Integer", default="8080"),
        Option("name", "A host name by which browsers reach it, beside localhost; may be repeated.", "NAME"),
        Option("registry", "The schema registry that decodes values.", "URL"),
        Option("connect", "A worker of Connect; may be repeated.", "URL"),
        Option("streams", "An instance of Streams, by its --query-port; may be repeated.", "URL"),
        Option("lake", "A lake; may be repeated.", "PLACE"),
        Option("pipeline", "A pipeline by its file, whose programs are imported; may be repeated.", "FILE"),
        Option("audit-log", "A broker's audit log; may be repeated, the oldest file first.", "FILE"),
        Option("read-only", "Change nothing."),
        Option("no-data", "Show no records, only what there is to know about them."),
        Option("mask", "Hide a field: TOPIC:key, TOPIC:value.FIELD, TOPIC:header.NAME; may be repeated.", "FIELD"),
        Option(
            "login",
            "Users log in as users of the brokers, by this mechanism; each may do what the brokers let that user do.",
            "MECHANISM",
            choices=BY_PASSWORD,
        ),
        *OIDC,
        Option(
            "insecure",
            "Show credentials to a registry and to workers by plain http, too: everybody on the way can read them.",
        ),
        Option("ssl-config", "Serve HTTPS by the ssl.* options in this file, a server.properties too.", "FILE"),
        Option("with-parent", "End when standard input does.", hidden=True),
    ],
    has_json=False,
)
