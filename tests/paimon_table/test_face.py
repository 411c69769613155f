"""What the engine exports: exactly its list, and nothing is imported before it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import paimon_table


def typed_homes() -> dict[str, str]:
    """Name to module, as type checkers see it."""
    tree = ast.parse(Path(paimon_table.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = (node for node in block.body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_every_name_of_the_face_is_what_its_module_has() -> None:
    homes = typed_homes()

    assert sorted(homes) == sorted(paimon_table.__all__)
    for name, home in homes.items():
        assert getattr(paimon_table, name) is getattr(import_module(home), name)
    assert set(paimon_table.__all__) <= set(dir(paimon_table))


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Tabel'"):
        paimon_table.Tabel  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("module", ["paimon_table", "paimon_table.errors", "paimon_table.row_kind"])
def test_words_need_no_arrow(module: str) -> None:
    code = f"import sys, {module}; sys.exit('pyarrow' in sys.modules or 'numpy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
