"""The options of TLS to ZooKeeper, by the names that Apache Kafka had for them."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.option import OptionKind, OptionSet, option
from ottla.tls.settings import TlsSettings, tls_settings

_PREFIX = "zookeeper."


class ZookeeperConfig(OptionSet):
    """Options that count where `--join` names an ensemble."""

    # fmt: off
    zookeeper_ssl_client_enable: bool = option(
        "zookeeper.ssl.client.enable", False, OptionKind.BOOLEAN,
        doc="Whether to speak TLS to ZooKeeper.",
    )
    zookeeper_ssl_keystore_location: str | None = option(
        "zookeeper.ssl.keystore.location", None, OptionKind.STRING,
        doc="The file with the private key and the certificate for ZooKeeper, PEM or PKCS12.",
    )
    zookeeper_ssl_keystore_password: str | None = option(
        "zookeeper.ssl.keystore.password", None, OptionKind.PASSWORD,
        doc="The password of that file.",
    )
    zookeeper_ssl_keystore_type: str | None = option(
        "zookeeper.ssl.keystore.type", None, OptionKind.STRING,
        doc="Taken as Kafka did; what the file holds is seen by its first bytes.",
    )
    zookeeper_ssl_truststore_location: str | None = option(
        "zookeeper.ssl.truststore.location", None, OptionKind.STRING,
        doc="The file with the certificates that ZooKeeper's must be signed by, PEM or PKCS12.",
    )
    zookeeper_ssl_truststore_password: str | None = option(
        "zookeeper.ssl.truststore.password", None, OptionKind.PASSWORD,
        doc="The password of that file.",
    )
    zookeeper_ssl_truststore_type: str | None = option(
        "zookeeper.ssl.truststore.type", None, OptionKind.STRING,
        doc="Like zookeeper.ssl.keystore.type.",
    )
    zookeeper_ssl_endpoint_identification_algorithm: str = option(
        "zookeeper.ssl.endpoint.identification.algorithm", "HTTPS", OptionKind.STRING,
        doc="HTTPS: a server's certificate must have the host name of its address. Empty: it need not.",
    )
    zookeeper_ssl_enabled_protocols: tuple[str, ...] = option(
        "zookeeper.ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), OptionKind.LIST,
        doc="The versions of TLS.",
    )
    zookeeper_ssl_cipher_suites: tuple[str, ...] = option(
        "zookeeper.ssl.cipher.suites", (), OptionKind.LIST,
        doc="The cipher suites of TLS 1.2.",
    )
    # fmt: on


def zookeeper_tls(texts: Mapping[str, str]) -> tuple[TlsSettings | None, list[str]]:
    """The settings of TLS to ZooKeeper, None without TLS, and what is wrong with them.

    Options of TLS without `zookeeper.ssl.client.enable` are refused: somebody believes that they encrypt.
    """
    own = {name: text for name, text in texts.items() if name in ZookeeperConfig.BY_NAME}
    if not ZookeeperConfig.of_texts(own).zookeeper_ssl_client_enable:
        given = [name for name in own if name != "zookeeper.ssl.client.enable"]
        return None, [f"{given[0]} has no effect without zookeeper.ssl.client.enable=true"] if given else []
    settings, problems = tls_settings({name.removeprefix(_PREFIX): text for name, text in own.items()})
    return settings, [f"{_PREFIX}{problem}" for problem in problems]
