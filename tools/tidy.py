"""Checks house rules that no other checker knows: sizes, docstrings, tests, I/O, owners of fields, class names.

`python tools/tidy.py [FILE...]` prints one line per broken rule and ends with 1 where there is one.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import class_names
import owners
from owners import nodes

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES, FUNCTION_LINES = 500, 60

MACHINES = ("replication", "groups", "transactions", "cluster")
# The child processes of compaction and scrub report to their parent on standard output.
MAY_PRINT = (
    "cli",
    "server",
    "demo",
    "lake",
    "storage/maintenance/compact_child.py",
    "storage/maintenance/scrub_child.py",
    "registry/command.py",
    "connect/command.py",
    "connect/distributed.py",
    "streams/command.py",
    "streams/state_command.py",
    "mirror/command.py",
    "pipeline/command.py",
)
# protoc reads schemas from files alone; the handler of signals writes to stderr by a call that takes no lock.
MAY_CALL_FILES = (
    "formats/protoc.py",
    "storage/disk/local.py", "storage/maintenance/compact_child.py", "storage/maintenance/scrub_child.py", "server",
    "coordination", "config", "lake", "stores", "spark/daemon.py", "spark/launch.py",
    "spark/workers.py", "cli", "demo", "testing", "registry/protoc.py", "jobs/running.py", "streams/command.py",
    "connect/plugins", "connect/claims.py", "connect/starter", "connect/commands/new_plugin.py", "sinks",
    "connect/standalone.py", "connect/tasks/offset_file.py", "connect/tasks/secrets.py", "tls",
    "pipeline", "web/fetch.py",
)  # fmt: skip
MAY_CALL_SOCKETS = ("server", "client", "coordination", "testing", "cli/doctor.py", "demo", "lake/rounds/progress.py",
                    "spark/workers.py", "registry/server.py", "web/server.py", "tls",
                    "connect/plugins/http/listener.py",
                    "connect/plugins/mail/imap.py")  # fmt: skip
MAY_CATCH_ALL = ("server", "broker/requests/dispatch.py", "kernel/story.py", "testing", "cli/main.py", "sim/world.py",
                 "web", "jobs/running.py", "rows/workers.py", "client/blocking/producer.py",
                 "client/blocking/topic_table.py", "connect/claims.py", "streams/engine/task.py",
                 "streams/engine/ahead.py", "connect/worker.py",
                 "connect/testing", "connect/owning.py", "connect/tasks/on_spark.py", "connect/tasks/ranges.py",
                 "logging.py",
                 "pipeline/check.py")  # fmt: skip

FILE_MODULES = {"pathlib", "shutil", "tempfile", "glob", "fileinput", "mmap"}
SOCKET_MODULES = {"socket", "socketserver", "ssl", "selectors"}
OS_FILE_CALLS = {
    "open", "close", "read", "write", "pread", "pwrite", "preadv", "pwritev", "readv", "writev", "sendfile", "fsync",
    "fdatasync", "ftruncate", "truncate", "rename", "replace", "unlink", "remove", "rmdir", "removedirs", "mkdir",
    "makedirs", "listdir", "scandir", "walk", "stat", "fstat", "lstat", "link", "symlink", "utime", "chmod",
    "posix_fadvise", "posix_fallocate", "copy_file_range", "lseek", "statvfs", "access",
}  # fmt: skip
MOST_IN_A_CIRCLE = 3
CLAUSE_WORDS = {
    "How", "Of", "That", "What", "Whatever", "Where", "Whether", "Which", "Who", "Whoever", "Whom", "Whose", "Why",
}  # fmt: skip
SET_NAMES = {"set", "frozenset", "Set", "AbstractSet", "MutableSet"}

_TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!.*#\d+)")

Finding = tuple[int, str]


def main(arguments: list[str]) -> int:
    """Check the named files, or all that git tracks or would add; and src as a whole: imports, tests, exemptions."""
    files = [Path(name).resolve() for name in arguments] or tracked_files()
    broken = 0
    for path in files:
        for line, sentence in sorted(check(path)):
            print(f"{path.relative_to(ROOT)}:{line}: {sentence}")
            broken += 1
    about_all = [
        *circles_too_large(imports_within(ROOT / "src", "ottla")),
        *rooms_without_tests(ROOT / "src" / "ottla", ROOT / "tests"),
        *exemptions_of_nothing(ROOT / "src" / "ottla"),
        *class_names.doubled(ROOT / "src" / "ottla"),
    ]
    for place, sentence in about_all:
        print(f"{place}: {sentence}")
    broken += len(about_all)
    print(f"{broken} broken rules in {len(files)} files" if broken else f"{len(files)} files in order")
    return 1 if broken else 0


def tracked_files() -> list[Path]:
    """Every Python file of the project that git does not ignore; without git, those of its folders."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    try:
        names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return [path for folder in ("src", "tests", "bench", "tools") for path in (ROOT / folder).rglob("*.py")]
    return [ROOT / name for name in names if (ROOT / name).exists()]


def check(path: Path) -> Iterator[Finding]:
    """Every broken rule of one file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, str(path))
    lines = text.count("\n")
    if lines > FILE_LINES and not path.is_relative_to(ROOT / "tests"):
        yield lines, f"{lines} lines: a file has at most {FILE_LINES}"
    yield from functions_too_long(tree)
    yield from todos_without_issue(text)
    yield from docstrings_that_open_with_a_clause(tree)
    if path.is_relative_to(ROOT / "tests"):
        yield from imports_of_tests(tree)
    if path.is_relative_to(ROOT / "src"):
        package, _, room = path.relative_to(ROOT / "src").as_posix().partition("/")
        if not ast.get_docstring(tree):
            yield 1, "a module says in its docstring what happens here"
        yield from check_room(room if package == "ottla" else "spark/" + room, tree)
        yield from owners.check(path, tree)


def check_room(room: str, tree: ast.Module) -> Iterator[Finding]:
    """The rules that depend on where a file of src stands."""
    if not within(room, MAY_PRINT):
        yield from prints(tree)
    if not within(room, MAY_CALL_FILES):
        yield from file_calls(tree)
    if not within(room, MAY_CALL_SOCKETS):
        yield from imports_of(tree, SOCKET_MODULES, "sockets live in " + ", ".join(MAY_CALL_SOCKETS))
    if not within(room, MAY_CATCH_ALL):
        yield from catch_alls(tree)
    if within(room, MACHINES):
        yield from awaiting(tree)
        yield from unsorted_sets(tree)


def within(room: str, places: tuple[str, ...]) -> bool:
    """True if a file is one of the places or lies in one."""
    return any(room == place or room.startswith(place + "/") for place in places)


def functions_too_long(tree: ast.Module) -> Iterator[Finding]:
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES:
                yield node.lineno, f"{node.name} has {size} lines: a function has at most {FUNCTION_LINES}"


def docstrings_that_open_with_a_clause(tree: ast.Module) -> Iterator[Finding]:
    """Docstrings, those behind fields and constants too, that begin with a relative or interrogative word."""
    for node in nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            first = re.match(r"\s*(\w+)", node.value.value)
            if first is not None and first[1] in CLAUSE_WORDS:
                yield node.lineno, f"a docstring opens with a plain statement, not with {first[1]}"


def todos_without_issue(text: str) -> Iterator[Finding]:
    if not _TODO.search(text):
        return  # as almost everywhere: the tokens need no look
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and _TODO.search(token.string):
            yield token.start[0], "a TODO names its issue (#123)"


def prints(tree: ast.Module) -> Iterator[Finding]:
    for node in nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield node.lineno, "print belongs to " + ", ".join(MAY_PRINT)


def file_calls(tree: ast.Module) -> Iterator[Finding]:
    sentence = "file calls live in " + ", ".join(MAY_CALL_FILES)
    yield from imports_of(tree, FILE_MODULES, sentence)
    for node in nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield node.lineno, sentence
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            if node.attr in OS_FILE_CALLS:
                yield node.lineno, f"os.{node.attr}: {sentence}"
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            for alias in node.names:
                if alias.name in OS_FILE_CALLS:
                    yield node.lineno, f"os.{alias.name}: {sentence}"


def imports_of(tree: ast.Module, modules: set[str], sentence: str) -> Iterator[Finding]:
    for node in nodes(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            if name.split(".")[0] in modules:
                yield node.lineno, f"import of {name}: {sentence}"


def imports_of_tests(tree: ast.Module) -> Iterator[Finding]:
    """Imports from a test module, also within functions."""
    for node in nodes(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(alias.name for alias in node.names)]
        for name in names:
            if name.rpartition(".")[2].startswith("test_"):
                yield node.lineno, f"import of {name}: what tests share stands in a module that is no test"


def catch_alls(tree: ast.Module) -> Iterator[Finding]:
    for node in nodes(tree):
        # A handler that ends in `raise` only cleans up; the exception goes on to its owner.
        if not isinstance(node, ast.ExceptHandler) or isinstance(node.body[-1], ast.Raise):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        if any(
            kind is None or (isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"})
            for kind in caught
        ):
            yield node.lineno, "except Exception stands in " + " and ".join(MAY_CATCH_ALL) + " only"


def awaiting(tree: ast.Module) -> Iterator[Finding]:
    for node in nodes(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield node.lineno, "a machine decides; it does not await"


def unsorted_sets(tree: ast.Module) -> Iterator[Finding]:
    """Iterations over sets, whose order depends on hashes: a replay could differ from the first run."""
    sets = names_of_sets(tree)
    for node in nodes(tree):
        iterated: list[ast.expr] = []
        if isinstance(node, ast.For):
            iterated = [node.iter]
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
            iterated = [clause.iter for clause in node.generators]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"list", "tuple", "next", "iter"}
        ):
            iterated = node.args[:1]
        for expression in iterated:
            if is_set(expression, sets) and not consumed_without_order(node, tree):
                yield expression.lineno, "a machine iterates a set only through sorted"


def names_of_sets(tree: ast.Module) -> set[str]:
    """Names (`live`) and attributes (`.live`) that are annotated as sets or assigned one, and nothing else."""
    found: set[str] = set()
    other: set[str] = set()
    for node in nodes(tree):
        if isinstance(node, ast.AnnAssign):
            (found if annotates_set(node.annotation) else other).update(variable(node.target))
        elif isinstance(node, ast.arg) and node.annotation is not None:
            (found if annotates_set(node.annotation) else other).add(node.arg)
        elif isinstance(node, ast.ClassDef):
            fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
            found.update(
                f".{name}" for field in fields if annotates_set(field.annotation) for name in variable(field.target)
            )
        elif isinstance(node, ast.Assign) and is_set(node.value, set()):
            for target in node.targets:
                found |= variable(target)
    return found - other


def variable(target: ast.expr) -> set[str]:
    """The key under which a name (`live`) or an attribute (`.live`) is noted."""
    if isinstance(target, ast.Name):
        return {target.id}
    return {f".{target.attr}"} if isinstance(target, ast.Attribute) else set()


def annotates_set(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    return isinstance(annotation, ast.Name) and annotation.id in SET_NAMES


def target_name(target: ast.expr | None) -> set[str]:
    if isinstance(target, ast.Name):
        return {target.id}
    return {target.attr} if isinstance(target, ast.Attribute) else set()


def is_set(expression: ast.expr, sets: set[str]) -> bool:
    if isinstance(expression, ast.Set | ast.SetComp):
        return True
    if isinstance(expression, ast.Call):
        return isinstance(expression.func, ast.Name) and expression.func.id in {"set", "frozenset"}
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
        return is_set(expression.left, sets) or is_set(expression.right, sets)
    return bool(variable(expression) & sets)


def consumed_without_order(node: ast.AST, tree: ast.Module) -> bool:
    """True if a comprehension is the argument of a call whose result does not depend on order."""
    orderless = {"sorted", "set", "frozenset", "sum", "min", "max", "any", "all", "len"}
    calls = (parent for parent in nodes(tree) if isinstance(parent, ast.Call) and node in parent.args)
    return any(target_name(call.func) & orderless for call in calls)


def rooms_without_tests(source: Path, tests: Path) -> Iterator[tuple[str, str]]:
    """Folders of modules that have no folder of their name with a test under `tests`."""
    for room in sorted({module.parent.relative_to(source) for module in source.rglob("*.py")} - {Path()}):
        if not any((tests / room).glob("test_*.py")) and not any((tests / room).glob("*/test_*.py")):
            yield str(room), f"tests/{room} holds no test"


def exemptions_of_nothing(source: Path) -> Iterator[tuple[str, str]]:
    """Places that a rule exempts and that are not there."""
    for place in sorted({*MAY_PRINT, *MAY_CALL_FILES, *MAY_CALL_SOCKETS, *MAY_CATCH_ALL}):
        if not (source / place).exists():
            yield place, "is exempt from a rule, and is not there"


def circles_too_large(imports: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Import cycles of more than three modules, each with its first module."""
    for circle in circles(imports):
        if len(circle) > MOST_IN_A_CIRCLE:
            names = " ".join(circle)
            yield circle[0], f"{len(circle)} modules import each other, {MOST_IN_A_CIRCLE} may at most: {names}"


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Sets of modules that reach each other by imports, each once and sorted."""
    reached = {module: everything_reached(imports, module) for module in imports}
    found = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in imports
        if module in reached[module]
    }
    return [list(circle) for circle in sorted(found)]


def everything_reached(imports: dict[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    ahead = [start]
    while ahead:
        for module in imports[ahead.pop()] - reached:
            reached.add(module)
            ahead.append(module)
    return reached


def imports_within(root: Path, package: str) -> dict[str, set[str]]:
    """The modules of a package that each of its modules imports, also within functions and under TYPE_CHECKING."""
    paths = {module_name(path.relative_to(root)): path for path in sorted((root / package).rglob("*.py"))}
    imports: dict[str, set[str]] = {}
    for module, path in paths.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            if isinstance(node, ast.Import):
                named.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                named.update(name if name in paths else node.module for name in names)
        imports[module] = named & paths.keys() - {module}
    return imports


def module_name(path: Path) -> str:
    """The dotted name of a file below the root; that of a package for its `__init__.py`."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
