"""A plugin for pytest that gives the fixtures of kafka-python's tests the login of the brokers under test.

The fixtures have parameters for it, which they use for brokers that they start; a broker that is there already they
reach without a login.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import reaching


def pytest_configure() -> None:
    login = reaching.login()
    if login is None:
        return
    from test.integration.fixtures import KafkaFixture  # kafka-python's folder is the current one

    there_already = KafkaFixture.instance
    folder = Path(login.trusted).parent
    certificate = folder / "ca-cert"  # the name that the fixtures look for
    if not certificate.exists():
        certificate.symlink_to(login.trusted)

    def instance(*arguments: Any, **options: Any) -> Any:
        fixture = there_already(*arguments, transport="SASL_SSL", sasl_mechanism=login.mechanism, **options)
        fixture.ssl_dir = str(folder)
        return fixture

    KafkaFixture.broker_user, KafkaFixture.broker_password = login.user, login.password
    KafkaFixture.instance = instance
