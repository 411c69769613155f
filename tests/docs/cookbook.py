"""The pages of the cookbook: what stands behind a marker is a file of `examples/`, or the tables of its first case.

``python -m tests.docs.cookbook`` writes both into the pages; a test finds pages that differ from their files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paimon_table.types import DataType, sql
from pipelines.trial.case_file import Case, load_cases
from tests.docs.documents import ROOT

EXAMPLES = ROOT / "examples"
TESTS = sorted(EXAMPLES.rglob("*.test.yaml"))
PAGES = sorted((ROOT / "docs" / "cookbook").glob("*.md"))

_FILE = re.compile(r"<!-- file: (\S+) -->\n(?:```.*?\n```\n)?", re.DOTALL)
_TABLES = re.compile(r"<!-- tables: (\S+) -->\n.*?<!-- end -->\n", re.DOTALL)


def pipeline_of(test: Path) -> Path:
    """The pipeline file beside a file of cases."""
    return test.with_name(test.name.replace(".test.yaml", ".yaml"))


def page_of(test: Path) -> Path:
    """The page of an example, which has the name of the file, or of its folder."""
    name = test.name.removesuffix(".test.yaml") if test.parent == EXAMPLES else test.parent.name
    return ROOT / "docs" / "cookbook" / f"{name}.md"


def filled(text: str) -> str:
    """A page with its files and tables as they are."""
    text = _FILE.sub(lambda found: f"{found[0].splitlines()[0]}\n```yaml\n{(ROOT / found[1]).read_text()}```\n", text)
    return _TABLES.sub(lambda found: f"{found[0].splitlines()[0]}\n{_tables(ROOT / found[1])}\n<!-- end -->\n", text)


def _tables(test: Path) -> str:
    case: Case = load_cases(test)[1][0].case
    assert case.expect.tables is not None and case.expect.schema_ is not None, f"{test}: the page shows rows and types"
    shown = [_table(name, case.expect.schema_[name], rows) for name, rows in case.expect.tables.items()]
    return f"After the case *{case.name}*:\n\n" + "\n\n".join(shown)


def _table(name: str, columns: Mapping[str, DataType], rows: tuple[Mapping[str, Any], ...]) -> str:
    unnamed = set(columns).difference(*rows)
    assert not unnamed, f"{name}: no row of the case names {', '.join(unnamed)}"
    lines = [[f"{column} {sql(t)}" for column, t in columns.items()], ["---"] * len(columns)]
    lines += [[_cell(row.get(column)) for column in columns] for row in rows]
    return f"`{name}`\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    return "NULL" if value is None else str(getattr(value, "written", value)).replace("*", "\\*").replace("|", "\\|")


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
