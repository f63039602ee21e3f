"""`ottla schema`: list, show, register, check and compare the schemas of a registry, over HTTP."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ottla.cli.command import (
    PROFILE,
    REGISTRY,
    Command,
    Verb,
    bad,
    good,
    noun,
    print_json,
    print_table,
    registry_of,
    wants_json,
)
from ottla.cli.faults import Misuse, text_of
from ottla.cli.options import Given, Option
from ottla.client.registry_client import RegistryClient, RegistryRefusal, RegistryUnavailable, registry_urls

Json = Any
"""A parsed JSON document."""

_TYPES = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}


def command(arguments: Sequence[str]) -> int:
    return noun("schema", VERBS, arguments)


def _ask(given: Given, method: str, path: str, body: Json = None) -> Json:
    """Send a request to the registry, once: who waits at a terminal tries again."""
    try:
        urls = registry_urls(registry_of(given), "--registry")
    except ValueError as fault:
        raise Misuse(str(fault)) from None
    return RegistryClient(urls, rounds=1).ask(method, path, body)


def _subject(given: Given) -> str:
    return quote(given.words[0], safe="")


def _list(given: Given) -> int:
    """Subjects with their versions and types."""
    prefix = f"&subjectPrefix={quote(given.words[0], safe='')}" if given.words else ""
    deleted = "true" if "deleted" in given else "false"
    found = _ask(given, "GET", f"/schemas?deleted={deleted}{prefix}")
    if wants_json(given):
        names = ("subject", "version", "id")
        print_json([{name: each[name] for name in names} | {"schemaType": _type(each)} for each in found])
        return 0
    if not found:
        sys.stderr.write("there are no schemas; `ottla schema register SUBJECT FILE` makes one\n")
        return 0
    rows = [[each["subject"], each["version"], each["id"], _type(each)] for each in found]
    print_table(["SUBJECT", "VERSION", "ID", "TYPE"], rows)
    return 0


def _type(found: dict[str, Json]) -> Json:
    """The type of a schema; several registries leave it out where it is Avro."""
    return found.get("schemaType", "AVRO")


def _show(given: Given) -> int:
    """One version, the latest unless another is named."""
    version = given.words[1] if len(given.words) > 1 else "latest"
    found = _ask(given, "GET", f"/subjects/{_subject(given)}/versions/{quote(version, safe='')}")
    if wants_json(given):
        print_json(found)
        return 0
    place = f"subject {found['subject']}  version {found['version']}  id {found['id']}"
    sys.stdout.write(f"{place}  {_type(found)}\n")
    for each in found.get("references", ()):
        sys.stdout.write(f"refers to {each['name']}: subject {each['subject']}, version {each['version']}\n")
    sys.stdout.write("\n".join(_lines(found["schema"])) + "\n")
    return 0


def _register(given: Given) -> int:
    body = _body(given)
    normalize = "true" if "normalize" in given else "false"
    answer = _ask(given, "POST", f"/subjects/{_subject(given)}/versions?normalize={normalize}", body)
    if wants_json(given):
        print_json(answer)
    else:
        version = f", version {answer['version']}" if "version" in answer else ""
        sys.stdout.write(f"registered {given.words[0]}{version}, id {answer['id']}\n")
    return 0


def _check(given: Given) -> int:
    """Ask whether a schema could be registered; exit code 1 if it could not."""
    version = given.text("against")
    where = f"/{quote(version, safe='')}" if version is not None else ""
    path = f"/compatibility/subjects/{_subject(given)}/versions{where}?verbose=true"
    answer = _ask(given, "POST", path, _body(given))
    if wants_json(given):
        print_json(answer)
    elif answer["is_compatible"]:
        sys.stdout.write(good("compatible") + "\n")
    else:
        sys.stdout.write(bad("not compatible") + "\n")
        sys.stdout.write("".join(f"  {each}\n" for each in answer.get("messages", ())))
    return 0 if answer["is_compatible"] else 1


def _diff(given: Given) -> int:
    """Two versions line by line; the last two unless others are named."""
    path = f"/subjects/{_subject(given)}/versions"
    names = given.words[1:]
    if not names:
        names = [str(each) for each in _ask(given, "GET", path)[-2:]]
        if len(names) < 2:
            raise Misuse(f"{given.words[0]} has one version only")
    names = names if len(names) == 2 else [*names, "latest"]
    old, new = (_ask(given, "GET", f"{path}/{quote(name, safe='')}") for name in names)
    lines = list(
        unified_diff(
            _lines(old["schema"]),
            _lines(new["schema"]),
            f"{old['subject']} version {old['version']}",
            f"{new['subject']} version {new['version']}",
            lineterm="",
        )
    )
    if wants_json(given):
        print_json({"from": old["version"], "to": new["version"], "diff": lines})
    else:
        sys.stdout.write("".join(f"{_coloured(line)}\n" for line in lines))
    return 0


def _number(text: str) -> int:
    if not text.isdecimal():
        raise Misuse(f"{text!r} is not a version: write its number")
    return int(text)


def _coloured(line: str) -> str:
    return good(line) if line.startswith("+") else bad(line) if line.startswith("-") else line


def _lines(schema: str) -> list[str]:
    """A schema's text in lines: JSON is laid out, Protobuf is as it is."""
    try:
        return json.dumps(json.loads(schema), indent=2, ensure_ascii=False).splitlines()
    except ValueError:
        return schema.splitlines()


def _body(given: Given) -> dict[str, Json]:
    """The file on the command line as a schema; its type by its name unless one is given."""
    name = given.words[1]
    text = text_of(name)
    kind = (given.text("type") or _TYPES.get(Path(name).suffix, "AVRO")).upper()
    body: dict[str, Json] = {"schema": text, "schemaType": kind}
    references = [_reference(each) for each in given.all("reference")]
    return {**body, "references": references} if references else body


def _reference(text: str) -> dict[str, Json]:
    name, equals, place = text.partition("=")
    subject, colon, version = place.rpartition(":")
    if not equals or not colon or not name or not subject:
        raise Misuse(f"{text!r} is not NAME=SUBJECT:VERSION")
    return {"name": name, "subject": subject, "version": _number(version)}


class _Verb(Command):
    """A verb that calls a registry, not brokers; its refusals are printed in one line."""

    def __init__(
        self,
        usage: str,
        about: str,
        do: Verb,
        options: Sequence[Option] = (),
        *,
        words: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__(usage, about, do, [*options, REGISTRY, PROFILE], words=words, connects=False)

    def run(self, arguments: Sequence[str]) -> int:
        try:
            return super().run(arguments)
        except (RegistryRefusal, RegistryUnavailable) as fault:
            sys.stdout.flush()
            sys.stderr.write(f"ottla: {fault.message if isinstance(fault, RegistryRefusal) else fault}\n")
            return 1


_TYPE = Option("type", "AVRO, JSON or PROTOBUF; default by the file's name (.avsc, .json, .proto).", "TYPE")
_REFERENCE = Option("reference", "A schema that this one uses; may come several times.", "NAME=SUBJECT:VERSION")

VERBS: dict[str, Command] = {
    "list": _Verb(
        "ottla schema list [PREFIX]",
        "List subjects and versions.",
        _list,
        [Option("deleted", "Softly deleted versions too.")],
        words=(0, 1),
    ),
    "show": _Verb("ottla schema show SUBJECT [VERSION]", "Show one version of a schema.", _show, words=(1, 2)),
    "register": _Verb(
        "ottla schema register SUBJECT FILE [--type TYPE] [--reference NAME=SUBJECT:VERSION]",
        "Register the schema in a file; - reads standard input.",
        _register,
        [_TYPE, _REFERENCE, Option("normalize", "Store the schema in its normal form.")],
        words=(2, 2),
    ),
    "check": _Verb(
        "ottla schema check SUBJECT FILE [--against VERSION]",
        "Say whether a schema is compatible with the subject's versions; exit code 1 where it is not.",
        _check,
        [_TYPE, _REFERENCE, Option("against", "One version instead of those of the level.", "VERSION")],
        words=(2, 2),
    ),
    "diff": _Verb("ottla schema diff SUBJECT [FROM [TO]]", "Compare two versions of a schema.", _diff, words=(1, 3)),
}
