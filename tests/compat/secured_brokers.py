"""Brokers that listen with SASL_SSL and limit users by ACLs: options for ottla's and for Apache Kafka's, and a login.

The authority, the certificate and the users are those that `ottla secure init` makes.
"""

from __future__ import annotations

from pathlib import Path

from reaching import Login, options_in

from ottla.cli import secure_making
from ottla.cli.secure_folder import CLIENT, LIBRDKAFKA, SERVER, TRUSTED, SecureFolder
from ottla.cli.secure_texts import ADMIN, LISTENER, MECHANISM, BrokerPlace
from ottla.config.properties import parse_properties

USER = "tester"
"""Clients log in as this user, who is no super user, so that each of their requests is judged by the ACLs."""
_OPEN = {"allow.everyone.if.no.acl.found": "true"}
_SHARED = ("ssl.keystore.type", "ssl.keystore.location", "ssl.truststore.type", "ssl.truststore.location",
           "authorizer.class.name", "inter.broker.listener.name")  # fmt: skip
"""The options of ottla's brokers that Apache Kafka's have too."""


class SecuredBrokers:
    """One folder of `ottla secure init` for all brokers of a run; they listen on the loopback interface."""

    def __init__(self, folder: Path) -> None:
        self.folder = SecureFolder(str(folder))
        secure_making.init(self.folder, BrokerPlace((), 9092), [USER])
        lines = self._file(USER, CLIENT).read_text().splitlines(keepends=True)
        self._java = folder / "login.properties"  # some of Kafka's tools prefer the address in their file to the given
        self._java.write_text("".join(line for line in lines if not line.startswith("bootstrap.servers=")))

    @property
    def security(self) -> dict[str, str]:
        """The login of the administrator, as options of our clients."""
        return options_in(self._file(ADMIN, CLIENT))

    @property
    def login(self) -> Login:
        """The login of the tests' user."""
        trusted = str(self._file(USER, TRUSTED))
        return Login(MECHANISM, USER, self._password(USER), trusted, str(self._java))

    def options(self) -> dict[str, str]:
        """Options of an ottla broker, on a port of its own choice."""
        return {**self._server(), "listeners": f"{LISTENER}://127.0.0.1:0", **_OPEN}

    def options_of_apache(self) -> dict[str, str]:
        """Options of an Apache Kafka node without its listeners; its controllers' listener asks nobody."""
        server = self._server()
        return {
            **{name: server[name] for name in _SHARED},
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{LISTENER}:{LISTENER}",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.{LISTENER.lower()}.{MECHANISM.lower()}.sasl.jaas.config": self.security["sasl.jaas.config"],
            "super.users": f"{server['super.users']};User:ANONYMOUS",
            **_OPEN,
        }

    def users_of_apache(self) -> list[str]:
        """Arguments with which an Apache Kafka node's storage is formatted: its users."""
        users = {user: self._password(user) for user in self.folder.users()}
        given = [f"{MECHANISM}=[name={user},password={password}]" for user, password in users.items()]
        return [word for each in given for word in ("--add-scram", each)]

    def _server(self) -> dict[str, str]:
        return parse_properties(self.folder.text(SERVER))

    def _password(self, user: str) -> str:
        return options_in(self._file(user, LIBRDKAFKA))["sasl.password"]

    def _file(self, user: str, file: str) -> Path:
        return Path(self.folder.user_path(user, file))
