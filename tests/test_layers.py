"""The import layers of docs/ARCHITECTURE.md, kept by the contracts in pyproject.toml, and rules beside them."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
_MAY_BE_ONE = re.compile(r"^ *(?:from|import) +tests\b[\w., ]*(?:\([^)]*)?\b(?:test_|conftest)", re.MULTILINE)
"""Finds the few modules that are worth parsing."""


@pytest.mark.slow
def test_imports_follow_the_layers() -> None:
    # In a process of its own: the linter disables the loggers of the process that it runs in.
    done = subprocess.run([sys.executable, "-c", _LINT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert "kept" in done.stdout


def test_no_test_module_is_imported() -> None:
    """What tests share lies in ``tests/support`` or in a module beside them that holds no tests."""
    files = (path for name in ("tests", "benchmarks") for path in (ROOT / name).rglob("*.py"))
    found = [f"{path.relative_to(ROOT)}: {module}" for path in files for module in _test_modules(path)]
    assert found == []


def _test_modules(path: Path) -> Iterator[str]:
    code = path.read_text(encoding="utf-8")
    if not _MAY_BE_ONE.search(code):
        return
    for node in ast.walk(ast.parse(code)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            if parts[0] == "tests" and any(part == "conftest" or part.startswith("test_") for part in parts):
                yield name


_FORMAT_SAID_IN = {
    "pipelines/cli.py": "the help text says what Tidemark is for",
    "pipelines/config/config_reference.py": "the example file of the reference page",
}
"""Texts outside of sources that may name a format of records."""


def test_only_sources_name_the_formats_of_records() -> None:
    """Names and texts of the code; comments and docstrings may give a format as an example."""
    packages = ("tidemark", "pipelines", "sinks", "paimon_table")
    files = (path for name in packages for path in (ROOT / name).rglob("*.py"))
    found = {str(path.relative_to(ROOT)): words for path in files if (words := _words_on_formats(path))}
    assert {name: words for name, words in found.items() if name not in _FORMAT_SAID_IN} == {}
    assert found.keys() == _FORMAT_SAID_IN.keys(), "an exception that is none any more"


def _words_on_formats(path: Path) -> list[str]:
    code = path.read_text(encoding="utf-8")
    if "debezium" not in code.lower():
        return []
    tree = ast.parse(code)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts: list[str] = []
    for node in ast.walk(tree):
        if id(node) in docstrings:
            continue
        for _, value in ast.iter_fields(node):
            texts += [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
    return [text for text in texts if "debezium" in text.lower()]
