"""A broker that takes the tokens of an identity provider."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.access.identity import AUDIENCE, Provider
from tests.access.secured import Secured

LISTENER = "SASL_PLAINTEXT"


class Identified(Secured):
    """A broker that takes the tokens of a provider, on the listener whose sessions have no other end."""

    def __init__(self, directory: Path, provider: Provider, url: str) -> None:
        self.provider, self.url = provider, url
        prefix = f"listener.name.{LISTENER.lower()}."
        super().__init__(
            directory,
            {
                f"{prefix}sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN",
                f"{prefix}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"{url}/jwks",
                f"{prefix}oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
                f"{prefix}oauthbearer.sasl.oauthbearer.expected.issuer": provider.issuer,
                f"{prefix}oauthbearer.sasl.jaas.config": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
                ),
                f"{prefix}oauthbearer.sasl.server.callback.handler.class": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
                ),
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:alice;User:rdkafka;User:ottla",
            },
        )

    @property
    def bootstrap(self) -> str:
        host, port = self.address(LISTENER)
        return f"{host}:{port}"

    def credentials(self, user: str = "ottla", secret: str = "secret") -> dict[str, str]:
        return {
            "security.protocol": LISTENER,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": f"{self.url}/token",
            "sasl.oauthbearer.client.credentials.client.id": user,
            "sasl.oauthbearer.client.credentials.client.secret": secret,
            "sasl.oauthbearer.scope": "kafka",
        }

    def callback(self, **claims: Any) -> dict[str, Any]:
        """Options of our client that show one token."""
        token = self.provider.token(**claims)
        return {
            "security.protocol": LISTENER,
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda config: (token, time.time() + 300),
        }
