"""docs/reference/spark.md, made from the declared options by `python -m ottla.spark.reference`."""

from __future__ import annotations

import sys

from ottla.rows import kafka_settings
from ottla.spark.declared_options import OPTIONS


def page() -> str:
    """The whole page."""
    lines = [
        '# Options of format("ottla")',
        "",
        "Made from the declarations in `src/ottla/spark/declared_options.py` and `kafka_settings.py`; "
        "`docs/guide/spark.md` explains.",
        "Names are known in any case.",
        "",
        "| option | default | for | what it does |",
        "|---|---|---|---|",
    ]
    for option in OPTIONS:
        doc = option.doc.replace("|", "\\|")
        lines.append(f"| `{option.name}` | {option.default or '-'} | {option.where} | {doc} |")
    for role, honoured, without_effect, refused in (
        ("Sources", kafka_settings.READ, kafka_settings.CONSUMER_WITHOUT_EFFECT, kafka_settings.REFUSED_BY_SOURCE),
        ("Sinks", kafka_settings.WRITTEN, kafka_settings.PRODUCER_WITHOUT_EFFECT, kafka_settings.REFUSED_BY_SINK),
    ):
        lines += [
            "",
            f"## `kafka.*` of {role.lower()}",
            "",
            f"Honoured: {_names(honoured)}.",
            "",
            f"Accepted without effect: {_names(without_effect)}.",
            "",
            f"Refused: {_names(refused)}.",
        ]
    return "\n".join(lines) + "\n"


def _names(names: object) -> str:
    assert isinstance(names, frozenset | dict)
    return ", ".join(f"`{name}*`" if name.endswith(".") else f"`{name}`" for name in sorted(names))


if __name__ == "__main__":
    sys.stdout.write(page())
