"""The keys of a campaign in which brokers and clients speak TLS alone, and each shows a certificate."""

from __future__ import annotations

from pathlib import Path

from tests.access.certificates import authority


class Secured:
    """An authority in a folder; `options` are those of a broker, `client` the settings of all clients."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._signer = authority()
        trusted = folder / "ca.pem"
        trusted.write_text(self._signer.certificate_pem)
        key = self._signer.sign("client").file(folder, "client.pem")
        self.client = {
            "security.protocol": "SSL",
            "ssl.ca.location": str(trusted),
            "ssl.certificate.location": key,
            "ssl.key.location": key,
        }

    def options(self, number: int, address: str) -> list[str]:
        """The words of `ottla start` by which a broker listens with TLS, and nowhere without."""
        host = address.rpartition(":")[0]
        key = self._signer.sign(f"broker {number}", hosts=(), addresses=(host,))
        settings = {
            "listeners": f"SSL://{address}",
            "inter.broker.listener.name": "SSL",
            "ssl.keystore.location": key.file(self._folder, f"broker-{number}.pem"),
            "ssl.truststore.location": self.client["ssl.ca.location"],
            "ssl.client.auth": "required",
        }
        return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
