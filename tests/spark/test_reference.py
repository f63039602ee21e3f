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
    _, _, section = (REFERENCE / "python.md").read_text("utf-8").partition("\n## ottla.spark\n")
    examples = EXAMPLE.findall(section.partition("\n## ")[0])
    assert len(examples) == 3
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(examples).replace("localhost:9092", bootstrap)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "|one book|" in done.stdout
    assert "1 rows" in done.stdout
    assert "written" in done.stdout
