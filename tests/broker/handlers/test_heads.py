"""The head of each handler names its API, key and versions, as the table of APIs has them, and its KIPs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ottla.broker import handlers
from ottla.wire.apis import APIS, Api

FOLDER = Path(handlers.__file__).parent


def head_of(module: str) -> str:
    return ast.get_docstring(ast.parse((FOLDER / f"{module}.py").read_text())) or ""


def versions_of(api: Api) -> str:
    first, last = api.served
    if first == last:
        return f"version {first}"
    return f"versions {first} {'and' if last == first + 1 else 'to'} {last}"


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_handler_opens_with_the_name_the_key_the_versions_and_the_proposals_of_its_api(api: Api) -> None:
    head = head_of(api.module.rpartition(".")[2])
    assert head.startswith(f"{api.name} (key {api.key}, {versions_of(api)}): ")
    assert "KIP-" in head


def test_the_folder_holds_a_module_for_each_api_and_nothing_else() -> None:
    modules = {path.stem: path.read_text() for path in FOLDER.glob("*.py") if path.stem != "__init__"}
    assert sorted(modules) == sorted(api.module.rpartition(".")[2] for api in APIS.values())
    assert [name for name, text in modules.items() if "\nasync def handle(" not in text] == []
