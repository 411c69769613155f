"""The import layers of docs/ARCHITECTURE.md, kept by the contracts in pyproject.toml, and one rule of the tests."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"


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
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            if parts[0] == "tests" and any(part == "conftest" or part.startswith("test_") for part in parts):
                yield name
