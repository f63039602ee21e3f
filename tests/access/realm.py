"""A realm of Kerberos for tests: MIT's key distribution centre on a free port of loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from tests.ports import free_port

REALM = "OTTLA.TEST"
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def is_possible() -> bool:
    """True if a realm can be had here."""
    try:
        import gssapi  # noqa: F401
    except ImportError:
        return False
    programs = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
    return all(shutil.which(each, path=_PATH) is not None for each in programs)


class Realm:
    """`environment` leads Kerberos' library to it; keys are in files of `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        (directory / "krb5.conf").write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_canonicalize_hostname = false\n rdns = false\n"
            f" udp_preference_limit = 1\n[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n"
        )
        (directory / "kdc.conf").write_text(
            f'[kdcdefaults]\n kdc_ports = ""\n kdc_tcp_ports = {self.port}\n[realms]\n {REALM} = {{\n'
            f"  database_name = {directory}/principal\n  key_stash_file = {directory}/stash\n"
            f'  kdc_tcp_listen = 127.0.0.1:{self.port}\n  kdc_listen = ""\n }}\n'
        )
        self.environment = {
            "KRB5_CONFIG": str(directory / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{directory}/tickets",
            "KRB5RCACHENAME": "none:",
        }
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        with (directory / "kdc.log").open("w") as log:
            self._kdc = subprocess.Popen(
                ["krb5kdc", "-n"], env={**os.environ, "PATH": _PATH, **self.environment}, stdout=log, stderr=log
            )
        while True:  # until it listens
            assert self._kdc.poll() is None, (directory / "kdc.log").read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)

    def principal(self, name: str) -> str:
        """Make a principal; the path of a file with its key."""
        path = self.directory / f"{name.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {name}@{REALM}")
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {path} {name}@{REALM}")
        return str(path)

    def close(self) -> None:
        self._kdc.terminate()
        self._kdc.wait()

    def _run(self, *command: str) -> None:
        environment = {**os.environ, "PATH": _PATH, **self.environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
