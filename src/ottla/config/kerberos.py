"""The options of GSSAPI on a listener: the broker's own key, and how principals become users. Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.config.jaas import Jaas
from ottla.config.option import ConfigError, OptionKind, OptionSet, Scope, nearest, option

MODULE_OPTIONS = (
    "keyTab", "principal", "serviceName", "useKeyTab", "storeKey", "useTicketCache", "ticketCache", "doNotPrompt",
    "isInitiator", "refreshKrb5Config", "renewTGT", "debug",
)  # fmt: skip
"""The options of Java's Krb5LoginModule that files hold; the last six have no use here."""


class KerberosConfig(OptionSet):
    """The options that a listener may have of its own, and those of all."""

    # fmt: off
    sasl_kerberos_service_name: str | None = option(
        "sasl.kerberos.service.name", None, OptionKind.STRING, scope=Scope.PER_BROKER,
        doc="The first part of the broker's principal; without it, that of the principal in sasl.jaas.config.",
    )
    sasl_kerberos_principal_to_local_rules: tuple[str, ...] = option(
        "sasl.kerberos.principal.to.local.rules", ("DEFAULT",), OptionKind.LIST, scope=Scope.PER_BROKER,
        doc="How principals become users: DEFAULT (the first part, of the broker's realm) or RULE:[n:format] ...",
    )
    # fmt: on


class KerberosSettings(NamedTuple):
    """The key by which a listener takes tickets."""

    principal: str
    keytab: str
    rules: tuple[str, ...]

    @property
    def realm(self) -> str:
        return self.principal.rpartition("@")[2]


def kerberos_settings(
    texts: Mapping[str, str], jaas: Jaas | None, listener: str
) -> tuple[KerberosSettings | None, list[str]]:
    """The settings in a listener's own options (`texts`), and what is wrong with them."""
    names = KerberosConfig.BY_NAME
    own = {name: texts[f"gssapi.{name}"] for name in names if f"gssapi.{name}" in texts}
    try:
        config = KerberosConfig.of_texts({name: text for name, text in texts.items() if name in names} | own)
    except ConfigError as fault:
        return None, list(fault.problems)
    options = {} if jaas is None else jaas.options
    problems = [
        f"sasl.jaas.config: {name} is no option of Krb5LoginModule{nearest(name, MODULE_OPTIONS)}"
        for name in options
        if name not in MODULE_OPTIONS
    ]
    principal, keytab = options.get("principal", ""), options.get("keyTab", "")
    if not principal or not keytab:
        problems.append(
            f"GSSAPI needs the broker's key: set listener.name.{listener.lower()}.gssapi.sasl.jaas.config to "
            'com.sun.security.auth.module.Krb5LoginModule required keyTab="FILE" principal="kafka/HOST@REALM"; '
            "or name other mechanisms in sasl.enabled.mechanisms"
        )
    elif "/" not in principal or "@" not in principal:
        problems.append(f"sasl.jaas.config: principal must be SERVICE/HOST@REALM, not {principal}")
    service = config.sasl_kerberos_service_name or options.get("serviceName", "")
    if principal and service and principal.partition("/")[0] != service:
        problems.append(f"sasl.kerberos.service.name is {service}, and the broker's principal is {principal}")
    if problems:
        return None, problems
    return KerberosSettings(principal, keytab, config.sasl_kerberos_principal_to_local_rules), []
