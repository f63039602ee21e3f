"""Units, configurations, image, compose files and alert rules are whole and true."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ottla.cli.main import main
from ottla.cli.service import PROGRAMS, files
from ottla.config.resolve import environment_texts, read_static

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import image  # noqa: E402
import monitoring  # noqa: E402


def written(data: str = "/var/lib/ottla", program: str = "/usr/bin/ottla") -> dict[str, str]:
    return files(list(PROGRAMS), program=program, user="ottla", data=data)


def test_the_example_of_a_brokers_configuration_starts_a_broker_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(written()["/etc/ottla/server.properties"], encoding="utf-8")
    static = read_static(file=str(path), environment={}, command_line={})
    assert static.warnings == ()
    assert static.texts["log.dirs"] == "/var/lib/ottla"


def test_an_installation_keeps_a_configuration_that_is_there(tmp_path: Path) -> None:
    mine = tmp_path / "etc" / "ottla" / "server.properties"
    mine.parent.mkdir(parents=True)
    mine.write_text("node.id=7\n", encoding="utf-8")
    assert main(["service", "install", "--root", str(tmp_path), "--program", "/usr/bin/ottla"]) == 0
    assert mine.read_text(encoding="utf-8") == "node.id=7\n"
    unit = (tmp_path / "usr/lib/systemd/system/ottla.service").read_text(encoding="utf-8")
    assert "ExecStart=/usr/bin/ottla start --config /etc/ottla/server.properties\n" in unit


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["brokr"], "did you mean broker?"),
        (["--data", "data"], "--data data: give an absolute path"),
        (["--data", "/a b"], "--data /a b: give an absolute path"),
    ],
)
def test_an_installation_refuses_what_a_unit_cannot_say(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        sys.exit(main(["service", "install", "--root", str(tmp_path), "--program", "/usr/bin/ottla", *arguments]))
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for path, text in written(program="/bin/true").items():
        if path.endswith(".service"):
            (tmp_path / Path(path).name).write_text(text, encoding="utf-8")
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *tmp_path.iterdir()], capture_output=True, text=True, check=False
    )
    assert "ottla" not in verified.stderr


def test_the_image_runs_as_its_user_and_is_asked_for_its_health() -> None:
    config = image.settings()
    assert config["User"] == "1000:1000"
    assert config["Cmd"] == ["/etc/kafka/docker/run"]
    assert config["Healthcheck"] == {
        "Test": ["CMD", "/bin/wget", "-q", "-O", "/dev/null", "http://127.0.0.1:9308/health"],
        "Interval": 5 * 10**9,
        "Timeout": 3 * 10**9,
        "StartPeriod": 30 * 10**9,
    }


@pytest.mark.parametrize("name", ["one-broker.yml", "three-brokers.yml"])
def test_brokers_of_the_compose_files_start_without_a_warning_about_their_options(name: str) -> None:
    services = yaml.safe_load((ROOT / "packaging" / "compose" / name).read_text(encoding="utf-8"))["services"]
    brokers = [service["environment"] for service in services.values() if "environment" in service]
    assert brokers
    for environment in brokers:
        static = read_static(file=None, environment=environment, command_line={})
        assert not [warning for warning in static.warnings if "ignored" in warning or "effect" in warning]
        assert {"node.id", "listeners", "advertised.listeners"} <= set(environment_texts(environment))


def test_alert_rules_and_dashboard_name_metrics_that_are_there_and_are_up_to_date() -> None:
    assert monitoring.unknown_metrics() == []
    for name, text in monitoring.contents().items():
        assert (ROOT / "packaging" / "monitoring" / name).read_text(encoding="utf-8") == text
