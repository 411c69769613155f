"""Compares the result of the soak with its source: every row by two readers, every bad record."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.soaking.source import Source
from paimon_table import Table
from tests.interop.environment import java_class_path
from tests.interop.java_paimon import JavaPaimon
from tests.stack.paths import PROJECT_DIR
from tests.support.command import TIDEMARK

_SHOWN = 3
Texts = tuple[str | None, ...]


def wrong_rows(warehouse: Path, sources: Sequence[Source]) -> list[str]:
    """One line for each table and reader that does not show exactly the rows of the source."""
    found = []
    java = JavaPaimon(java_class_path(), PROJECT_DIR)
    try:
        for source in sources:
            path, columns = f"{warehouse}/lake.db/{source.kind.name}", source.columns()
            wanted = Counter(_texts(row.get(name) for name in columns) for row in source.rows.values())
            table = Table.open(path)
            for reader, rows in {
                "Tidemark": _by_tidemark(table, columns),
                "Java Paimon": (values for _, *values in java.read(path, columns=columns)),
            }.items():
                found += _differences(f"{source.kind.table} read by {reader}", Counter(map(_texts, rows)), wanted)
    finally:
        java.close()
    return found


def wrong_quarantine(quarantine: Path, bad: Iterable[tuple[str, str]]) -> list[str]:
    """``bad`` are topic and value of each bad record; each must be in quarantine, and nothing else."""
    lines = (line for file in quarantine.rglob("*.jsonl") for line in file.read_text().splitlines())
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    # A batch that was killed once it was sealed has its records in two files.
    places = {(record["topic"], record["partition"], record["offset"]): str(record["payload"]) for record in records}
    found = Counter((topic, payload) for (topic, *_), payload in places.items())
    return _differences("the quarantine", found, Counter(bad))


def orphans(table: Path) -> int:
    """Files that nothing references, which killed writers have left; they are removed."""
    words = [*TIDEMARK, "table", "remove-orphans", str(table), "--nobody-writes", "--older-than", "0s"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"remove-orphans {table}: {done.stdout}{done.stderr}")
    removed = re.search(r"^removed ([\d,]+) file", done.stdout, re.MULTILINE)
    return 0 if removed is None else int(removed[1].replace(",", ""))


def _by_tidemark(table: Table, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
    rows = table.to_arrow().select(list(columns))
    yield from zip(*(column.to_pylist() for column in rows.columns), strict=True)


def _texts(values: Iterable[Any]) -> Texts:
    return tuple(None if value is None else str(value) for value in values)


def _differences(where: str, found: Counter[Any], wanted: Counter[Any]) -> list[str]:
    missing, extra = wanted - found, found - wanted
    if not missing and not extra:
        return []
    return [
        f"{where}: {missing.total()} missing, {extra.total()} too many; "
        f"missing {list(missing)[:_SHOWN]}, too many {list(extra)[:_SHOWN]}"
    ]
