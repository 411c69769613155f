"""Makes the dump that `make demo` replays, and the content that the tables must have afterwards.

    python -m benchmarks.demo_dump          writes configs/quickstart-data and tests/demo

The dump holds one file a topic in the form that `kcat -J` prints. The final content is one JSON object a row, with
decimals and times as text.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks.debezium_events import EventLog, zoned_text
from benchmarks.shop import OPENING, TABLES, Shop

PROJECT_DIR = Path(__file__).resolve().parents[1]
DUMP_DIR = PROJECT_DIR / "configs" / "quickstart-data"
FINAL_DIR = PROJECT_DIR / "tests" / "demo"
SEED = 20260105
CUSTOMERS, PRODUCTS, ORDERS, TRANSACTIONS = 1_500, 400, 3_000, 12_000


@dataclass(frozen=True, slots=True)
class DemoDump:
    """Lines of the dump by topic, and rows of the final content by table, each as JSON text."""

    events: dict[str, list[str]]
    final: dict[str, list[str]]


def simulate() -> DemoDump:
    """Run the shop for a day; always the same result."""
    shop, log = Shop(SEED), EventLog()
    shop.open(CUSTOMERS, PRODUCTS, ORDERS)
    events: dict[str, list[str]] = {table.topic: [] for table in TABLES}
    for topic, line in _records(shop, log):
        events[topic].append(line)
    final = {table.name: [_final_row(row) for row in rows] for table, rows in shop.content().items()}
    return DemoDump(events, final)


def _records(shop: Shop, log: EventLog) -> Iterator[tuple[str, str]]:
    yield from log.snapshot(OPENING, shop.content())
    for commit in shop.live(TRANSACTIONS):
        yield from log.live(commit)


def _final_row(row: Mapping[str, Any]) -> str:
    return json.dumps({name: _final_value(value) for name, value in row.items()}, ensure_ascii=False)


def _final_value(value: Any) -> Any:
    match value:
        case datetime() if value.tzinfo is not None:
            return zoned_text(value)
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case dict():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return value


def read_lines(path: Path) -> list[str]:
    """Return the lines of a compressed file that this module wrote."""
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def _write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), 9, mtime=0))


def main() -> None:
    """Write both directories and print their content."""
    dump = simulate()
    for topic, lines in dump.events.items():
        _write_lines(DUMP_DIR / f"{topic}.jsonl.gz", lines)
        print(f"{topic}: {len(lines)} records")
    for table, rows in dump.final.items():
        _write_lines(FINAL_DIR / f"{table}.final.jsonl.gz", rows)
        print(f"{table}: {len(rows)} rows at the end")


if __name__ == "__main__":
    main()
