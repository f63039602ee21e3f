import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.reference import page

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_reference_says_what_the_declarations_say():
    assert (REFERENCE / "spark.md").read_text("utf-8") == page(), "make it again: python -m ottla.spark.reference"


@pytest.mark.spark
@pytest.mark.slow
def test_the_examples_of_the_python_reference_run(bootstrap: str):
    done = run_examples("ottla.spark", 3, bootstrap)
    assert "|one book|" in done.stdout
    assert "1 rows" in done.stdout
    assert "written" in done.stdout


@pytest.mark.slow
def test_the_example_of_a_load_runs_and_shows_nothing_of_sparks(bootstrap: str, tmp_path: Path):
    done = run_examples("ottla.lake", 1, bootstrap, tmp_path)
    assert done.stdout == "1 rows in 1 file\n"
    assert all(line.startswith(("loading in this process, ", "round 0: ")) for line in done.stderr.splitlines())


def run_examples(
    module: str, count: int, bootstrap: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    _, _, section = (REFERENCE / "python.md").read_text("utf-8").partition(f"\n## {module}\n")
    examples = EXAMPLE.findall(section.partition("\n## ")[0])
    assert len(examples) == count
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(examples).replace("localhost:9092", bootstrap)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
