"""Tidemark's other packages have general names (`pipelines`, `sources`, `sinks`), which a project may use as well.

The command line sets such a project's directory aside: its process runs nothing but Tidemark. Inside another program's
process that would be wrong; there a clear error names the package that is in the way.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path

PACKAGES = ("paimon_table", "pipelines", "sinks", "sources")
ROOT = Path(__file__).resolve().parent.parent
"""The directory that has Tidemark's packages: `site-packages`, or the checkout."""


def set_others_aside() -> None:
    """Remove directories with packages of the same names from the module path of this process and of Spark's workers.

    Nothing changes if there are none.
    """
    sys.path[:] = _without_others(sys.path)
    given = os.environ.get("PYTHONPATH")
    if given is not None:
        os.environ["PYTHONPATH"] = os.pathsep.join(_without_others(given.split(os.pathsep)))
    if _holds_other("."):
        # Spark starts workers with -m, which would search the working directory first.
        os.environ["PYTHONSAFEPATH"] = "1"
    check_own_packages()


def check_own_packages() -> None:
    """Raise ImportError when Python finds, or has imported, another package under one of our names."""
    for name in PACKAGES:
        found = _place_of(name)
        if found is None:
            raise ImportError(
                f"Tidemark's package {name} is not installed next to {ROOT / 'tidemark'}: install it again"
            )
        if found.parent != ROOT:
            raise ImportError(
                f"Python finds {found} where Tidemark needs its own package {name}. Run pipelines in a separate "
                "process (`python -m tidemark run FILE`), or remove that directory from sys.path and PYTHONPATH"
            )


def _place_of(name: str) -> Path | None:
    module = sys.modules.get(name)
    spec = module.__spec__ if module is not None else importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin).resolve()
    return origin.parent if origin.name == "__init__.py" else origin


def _without_others(entries: Iterable[str]) -> list[str]:
    return [entry for entry in entries if not _holds_other(entry or ".")]


def _holds_other(entry: str) -> bool:
    """Whether a directory that is not ours has a module or regular package of one of our names."""
    directory = Path(entry)
    if directory.resolve() == ROOT or not os.path.isdir(directory):
        return False
    return any(
        os.path.isfile(directory / name / "__init__.py") or os.path.isfile(directory / f"{name}.py")
        for name in PACKAGES
    )
