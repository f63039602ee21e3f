"""A process that uses a store as it is told, line by line: `python store_process.py URL`."""

from __future__ import annotations

import json
import sys

from ottla.stores import Hold, LakeRefused, Store, open_store

MIB = 1024 * 1024


def main(url: str) -> None:
    store = open_store(url)
    held: list[Hold] = []
    say("open")
    for line in sys.stdin:
        word, *rest = json.loads(line)
        try:
            say(done(store, held, word, rest))
        except LakeRefused as refused:
            say(f"refused: {refused}")


def done(store: Store, held: list[Hold], word: str, rest: list[str]) -> str:
    if word == "create":
        return str(store.create(rest[0], rest[1].encode()))
    if word == "write":  # and leave the file there
        output = store.open_output(rest[0])
        for _ in range(int(rest[1])):
            output.sink.write(b"half" * (MIB // 4))
        held.append(output)  # type: ignore[arg-type]
        return "written"
    if word == "hold":
        held.append(store.hold(rest[0]))
        return "held"
    if word == "check":
        held[-1].check()
        return "still mine"
    held[-1].release()
    return "released"


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
