from pathlib import Path

from ottla.spark.reference import page

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reference" / "spark.md"


def test_the_reference_says_what_the_declarations_say():
    assert DOCUMENT.read_text("utf-8") == page(), "make it again: python -m ottla.spark.reference"
