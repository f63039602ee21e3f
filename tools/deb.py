"""Builds the Debian package: `python tools/deb.py [--extras registry] [--out DIR]`.

It has the program with all that it needs under /usr/lib/ottla, the units of `ottla service install`, and example
configurations. It is built for the Python of the machine that builds it, and depends on that one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))

from image import ARCHITECTURES, new_wheel  # noqa: E402

from ottla import __version__  # noqa: E402

CONTROL = """\
Package: ottla
Version: {version}
Architecture: {architecture}
Maintainer: The ottla developers <ottla@localhost>
Installed-Size: {kilobytes}
Depends: python3 (>= {python}~), python3 (<< {next_python}~), libc6 (>= 2.31), libstdc++6, ca-certificates
Section: database
Priority: optional
Description: distributed commit log that speaks the Kafka protocol
 Topics of partitions, consumer groups, transactions, replication, with
 Connect and a schema registry, for unmodified Kafka clients, without a JVM.
"""
AFTER_INSTALL = """\
#!/bin/sh
set -e
if [ -d /run/systemd/system ] || command -v systemd-sysusers >/dev/null; then
    systemd-sysusers ottla.conf
    systemd-tmpfiles --create ottla.conf
    [ ! -d /run/systemd/system ] || systemctl daemon-reload
else
    getent passwd ottla >/dev/null || useradd --system --home-dir /var/lib/ottla --shell /usr/sbin/nologin ottla
    install -d -o ottla -g ottla -m 750 /var/lib/ottla
fi
"""
BEFORE_REMOVAL = """\
#!/bin/sh
set -e
[ "$1" != remove ] || [ ! -d /run/systemd/system ] || systemctl disable --now ottla ottla-registry ottla-connect || true
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--extras", default="registry,connect-sql,security", help="extras of the package, by commas")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "deb", help="where it goes: build/deb")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ottla-deb-") as scratch:
        package = Path(scratch) / "package"
        package.mkdir(mode=0o755)
        fill(package, new_wheel(Path(scratch)), given.extras)
        architecture = ARCHITECTURES[os.uname().machine]
        path = given.out / f"ottla_{__version__}_{architecture}.deb"
        subprocess.run(
            ["dpkg-deb", "-Zxz", "-z1", "--root-owner-group", "--build", package, path],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        shutil.rmtree(package)
        version = try_out(path, Path(scratch) / "unpacked")
    print(f"{path}: {path.stat().st_size / 1e6:.0f} MB; unpacked, it says: {version}")
    return 0


def fill(package: Path, wheel: Path, extras: str) -> None:
    subprocess.run([ROOT / "packaging" / "program.sh", wheel, package, extras], check=True)
    units = ["service", "install", "broker", "registry", "connect", "--root", package, "--program", "/usr/bin/ottla"]
    subprocess.run([sys.executable, "-m", "ottla", *units], check=True, stdout=subprocess.DEVNULL)
    about = package / "usr" / "share" / "doc" / "ottla"
    about.mkdir(parents=True)
    for name in ("README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, about / name)
    shutil.copy(ROOT / "LICENSE", about / "copyright")
    control = package / "DEBIAN"
    control.mkdir()
    major, minor = sys.version_info[:2]
    size = sum(path.stat().st_size for path in package.rglob("*") if path.is_file()) // 1024
    text = CONTROL.format(
        version=__version__,
        architecture=ARCHITECTURES[os.uname().machine],
        kilobytes=size,
        python=f"{major}.{minor}",
        next_python=f"{major}.{minor + 1}",
    )
    (control / "control").write_text(text, encoding="utf-8")
    configured = sorted(f"/{path.relative_to(package)}" for path in (package / "etc").rglob("*") if path.is_file())
    (control / "conffiles").write_text("".join(f"{name}\n" for name in configured), encoding="utf-8")
    for name, script in (("postinst", AFTER_INSTALL), ("prerm", BEFORE_REMOVAL)):
        (control / name).write_text(script, encoding="utf-8")
        (control / name).chmod(0o755)


def try_out(deb: Path, to: Path) -> str:
    """Ask the unpacked program for its version. Its modules are those of the package and of no other place."""
    subprocess.run(["dpkg-deb", "-x", deb, to], check=True)
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); from ottla.cli.main import main; sys.exit(main())"
    command = [
        f"/usr/bin/python3.{sys.version_info[1]}",
        "-sPSc",
        program,
        str(to / "usr" / "lib" / "ottla"),
        "--version",
    ]
    if not Path(command[0]).exists():
        command[0] = sys.executable
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
