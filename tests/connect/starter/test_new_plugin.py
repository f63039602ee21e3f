"""`ottla connect new-plugin`: the package that it writes can be installed and passes its own test."""

import os
import subprocess
import sys

import pytest

from ottla.cli.main import main


def test_the_package_is_found_by_its_entry_points_and_passes_the_kit(tmp_path):
    assert main(["connect", "new-plugin", "sea-birds", "--directory", str(tmp_path / "made")]) == 0
    made = tmp_path / "made"
    # setup.py egg_info writes the entry points beside the sources, as an editable install does, without a network.
    making = [sys.executable, "-c", "from setuptools import setup; setup()", "-q", "egg_info"]
    subprocess.run(making, cwd=made, check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(made / "src")}
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests"]
    found = subprocess.run(run, cwd=made, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "3 passed" in found.stdout


def test_a_directory_that_holds_something_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine").write_text("x")
    assert main(["connect", "new-plugin", "birds", "--directory", str(tmp_path)]) == 1
    assert "is there already: name an empty directory with --directory" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["mine"]


@pytest.mark.parametrize("name", ["Sea Birds", "9birds", "a_b"])
def test_a_name_that_is_no_package_is_refused(name, capsys):
    assert main(["connect", "new-plugin", name]) == 2
    assert "write small letters and digits" in capsys.readouterr().err
