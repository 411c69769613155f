"""Compares a case's expectation with its result: pure comparisons that return readable differences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any

import pyarrow as pa

from paimon_table.nearest_name import did_you_mean
from paimon_table.types import DataType, sql
from pipelines.report.row_output import plain_values
from pipelines.report.safe_text import json_line
from pipelines.trial.case_file import Expectation, Quarantined, Row
from pipelines.trial.case_values import comparable
from sources.topics import TopicSelection


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table as the case left it; ``rows`` and ``changes`` are of plain values, as the command line prints them."""

    columns: Mapping[str, DataType]
    primary_key: tuple[str, ...]
    arrow: pa.Schema
    rows: Sequence[Row]
    changes: Sequence[tuple[str, Row]]
    """Kind and row of each change, in order."""


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record in the quarantine."""

    topic: str
    partition: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that came out of a case."""

    tables: Mapping[str, FoundTable] = field(default_factory=dict)
    quarantined: Sequence[FoundRecord] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    paused: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as expected: ``at`` is the path below the case of what says otherwise."""

    at: tuple[str | int, ...]
    text: str
    lines: tuple[str, ...] = ()
    """The rows, as a diff: `-` is expected and missing, `+` is unexpected."""


def differences(expected: Expectation, found: Outcome) -> list[Difference]:
    """The differences from the expectation; none if the case passes."""
    found_differences = [
        *_of_error(expected, found),
        *_of_paused(expected, found),
        *_of_schemas(expected, found),
        *_of_tables(expected, found),
        *_of_changelogs(expected, found),
        *_of_quarantine(expected.quarantine, found.quarantined),
        *_of_skipped(expected, found),
    ]
    return [replace(difference, at=("expect", *difference.at)) for difference in found_differences]


def unread_topics(topics: Mapping[str, tuple[str | int, ...]], read: TopicSelection) -> list[Difference]:
    """The topics of a case, given with their places, that the pipeline does not read."""
    return [
        Difference(
            at,
            f"the pipeline does not read topic {topic}, but {read.words}; correct the topic, or add it to the `topics`"
            " of `source`",
        )
        for topic, at in topics.items()
        if not read.selects(topic)
    ]


def _of_error(expected: Expectation, found: Outcome) -> Iterator[Difference]:
    if expected.error is None and found.error is not None:
        yield Difference((), f"the pipeline stopped: {found.error}")
    elif expected.error is not None and found.error is None:
        yield Difference(("error",), f"the pipeline did not stop, expected an error with: {expected.error}")
    elif expected.error is not None and expected.error not in str(found.error):
        yield Difference(
            ("error",), "the pipeline stopped for another reason", (f"- {expected.error}", f"+ {found.error}")
        )


def _of_paused(expected: Expectation, found: Outcome) -> Iterator[Difference]:
    for table, reason in found.paused.items():
        if table not in expected.paused:
            yield Difference((), f"table {table} is paused: {reason}")
        elif expected.paused[table] not in reason:
            lines = f"- {expected.paused[table]}", f"+ {reason}"
            yield Difference(("paused", table), f"table {table} is paused for another reason", lines)
    for table in expected.paused.keys() - found.paused.keys():
        yield Difference(("paused", table), f"table {table} is not paused")


def _of_schemas(expected: Expectation, found: Outcome) -> Iterator[Difference]:
    for table, columns in (expected.schema_ or {}).items():
        at = ("schema", table)
        if table not in found.tables:
            yield _missing(at, table, found)
            continue
        wanted = [(name, name, sql(t)) for name, t in columns.items()]
        there = [
            (name, name, sql(t if not columns.get(name, t).nullable else t.with_nullable(True)))
            for name, t in found.tables[table].columns.items()
        ]
        lines = _diff([((n, t), f"{n}: {t}") for _, n, t in wanted], [((n, t), f"{n}: {t}") for _, n, t in there])
        if lines:
            yield Difference(at, f"table {table} has other columns", lines)


def _missing(at: tuple[str | int, ...], table: str, found: Outcome) -> Difference:
    return Difference(at, f"there is no table {table}; {did_you_mean(table, found.tables)}")


def _of_tables(expected: Expectation, found: Outcome) -> Iterator[Difference]:
    if expected.tables is None:
        return
    for table, rows in expected.tables.items():
        if table in found.tables:
            yield from _of_rows(("tables", table), table, rows, found.tables[table])
        elif rows:
            yield _missing(("tables", table), table, found)
    for table, other in found.tables.items():
        if table not in expected.tables and other.rows:
            lines = tuple(f"+ {json_line(row)}" for row in other.rows[:_MOST_LINES])
            text = f"table {table} has {_count(len(other.rows), 'row')}, and `expect.tables` does not name it"
            yield Difference(("tables",), text, lines)


def _of_rows(at: tuple[str | int, ...], table: str, wanted: Sequence[Row], found: FoundTable) -> Iterator[Difference]:
    names = _columns(wanted, found)
    if isinstance(names, _Unknown):
        yield Difference((*at, names.row, names.column), f"table {table} has no column '{names.column}'; {names.hint}")
        return
    if not names:
        names = tuple(found.columns)
    left = Counter(_form(row, names, found.arrow) for row in found.rows)
    missing: list[tuple[int, Row]] = []
    for number, row in enumerate(wanted):
        form = _form(row, names, found.arrow)
        if left[form]:
            left[form] -= 1
        else:
            missing.append((number, row))
    extra = []
    for row in found.rows:
        form = _form(row, names, found.arrow)
        if left[form]:
            left[form] -= 1
            extra.append(row)
    if missing or extra:
        lines = tuple(_row_lines(missing, extra, names, found))
        text = (
            f"table {table}: {len(missing)} of {_count(len(wanted), 'expected row')} missing, {len(extra)} unexpected"
        )
        yield Difference((*at, missing[0][0]) if missing else at, text, lines)


_UNNAMED = " (not named in this row, so NULL is expected)"


def _row_lines(
    missing: Sequence[tuple[int, Row]], extra: Sequence[Row], names: Sequence[str], found: FoundTable
) -> Iterator[str]:
    """Expected rows, each above the actual row with its key."""
    key = found.primary_key if {*found.primary_key} <= {*names} else ()
    by_key: defaultdict[Hashable, list[Row]] = defaultdict(list)
    for row in extra:
        by_key[_form(row, key, found.arrow) if key else None].append(row)
    for _, row in missing:
        same = by_key[_form(row, key, found.arrow)] if key else []
        yield f"- {_text(row, names)}"
        if same:
            other = same.pop(0)
            yield f"+ {_text(other, names)}"
            unlike = [n for n in names if _form(row, [n], found.arrow) != _form(other, [n], found.arrow)]
            unnamed = {name: "" if name in row else _UNNAMED for name in unlike}
            yield f"? {', '.join(f'{name} {sql(found.columns[name])}{words}' for name, words in unnamed.items())}"
    for rows in by_key.values():
        yield from (f"+ {_text(row, names)}" for row in rows)


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A column that the table does not have, in the ``row``-th expected row."""

    row: int
    column: str
    hint: str


def _columns(rows: Iterable[Row], found: FoundTable) -> tuple[str, ...] | _Unknown:
    """The columns that any of the rows names, in the order of the table."""
    named: set[str] = set()
    for number, row in enumerate(rows):
        for column in row:
            if column not in found.columns:
                return _Unknown(number, column, did_you_mean(column, found.columns))
        named |= {*row}
    return tuple(name for name in found.columns if name in named)


def _form(row: Row, names: Iterable[str], arrow: pa.Schema) -> tuple[Hashable, ...]:
    return tuple(comparable(row.get(name), arrow.field(name).type) for name in names)


def _text(row: Row, names: Iterable[str]) -> str:
    return json_line({name: _shown(row.get(name)) for name in names})


def _shown(value: Any) -> Any:
    """A number of the case with the digits that are written."""
    return value if isinstance(value, int) else getattr(value, "written", value)


def _of_changelogs(expected: Expectation, found: Outcome) -> Iterator[Difference]:
    for table, changes in (expected.changelog or {}).items():
        at = ("changelog", table)
        if table in found.tables:
            yield from _of_changes(at, table, [next(iter(change.items())) for change in changes], found.tables[table])
        elif changes:
            yield _missing(at, table, found)


def _of_changes(
    at: tuple[str | int, ...], table: str, wanted: Sequence[tuple[str, Row]], found: FoundTable
) -> Iterator[Difference]:
    names = _columns((row for _, row in wanted), found)
    if isinstance(names, _Unknown):
        yield Difference((*at, names.row), f"table {table} has no column '{names.column}'; {names.hint}")
        return
    names = names or tuple(found.columns)
    key = found.primary_key if {*found.primary_key} <= {*names} else ()
    order: dict[Hashable, int] = {}
    for _, row in (*wanted, *found.changes):
        order.setdefault(_form(row, key, found.arrow), len(order))

    def sides(changes: Sequence[tuple[str, Row]]) -> list[tuple[Hashable, str]]:
        lines: list[tuple[Any, Any, str]] = []
        for number, (kind, row) in enumerate(changes):
            form = (kind, _form(row, names, found.arrow))
            place = (order[_form(row, key, found.arrow)], number) if key else repr(form)
            lines.append((place, form, f"{kind} {_text(row, names)}"))
        return [(form, text) for _, form, text in sorted(lines, key=lambda line: line[0])]

    lines = _diff(sides(wanted), sides(found.changes))
    if lines:
        yield Difference(at, f"the changelog of table {table} differs", lines)


def _of_quarantine(expected: Sequence[Quarantined], found: Sequence[FoundRecord]) -> Iterator[Difference]:
    left = list(found)
    for number, wanted in enumerate(expected):
        match = next((record for record in left if _is_meant(wanted, record)), None)
        if match is None:
            place = ", ".join(
                f"{name} {value}"
                for name, value in (
                    ("topic", wanted.topic),
                    ("partition", wanted.partition),
                    ("offset", wanted.offset),
                )
                if value is not None
            )
            at = "quarantine", number
            yield Difference(at, f"no record in the quarantine{place and f' of {place}'} with: {wanted.reason}")
        else:
            left.remove(match)
    if left:
        lines = tuple(f"+ {r.topic} partition {r.partition} offset {r.offset}: {r.reason}" for r in left[:_MOST_LINES])
        yield Difference(("quarantine",), f"{_count(len(left), 'unexpected record')} in the quarantine", lines)


def _is_meant(wanted: Quarantined, record: FoundRecord) -> bool:
    places = (wanted.topic, record.topic), (wanted.partition, record.partition), (wanted.offset, record.offset)
    return all(want is None or want == there for want, there in places) and wanted.reason in record.reason


def _of_skipped(expected: Expectation, found: Outcome) -> Iterator[Difference]:
    if expected.skipped is None:
        return
    for reason in sorted({*expected.skipped, *found.skipped}):
        wanted, there = expected.skipped.get(reason, 0), found.skipped.get(reason, 0)
        if wanted != there:
            at = ("skipped", reason) if reason in expected.skipped else ("skipped",)
            yield Difference(at, f"skipped records, {reason}: expected {wanted}, found {there}")


_MOST_LINES = 20


def _diff(wanted: Sequence[tuple[Hashable, str]], found: Sequence[tuple[Hashable, str]]) -> tuple[str, ...]:
    """Both sides as a diff; nothing where their forms are the same."""
    matcher = SequenceMatcher(None, [form for form, _ in wanted], [form for form, _ in found], autojunk=False)
    if [form for form, _ in wanted] == [form for form, _ in found]:
        return ()
    lines: list[str] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            lines += [f"  {text}" for _, text in wanted[a:b]]
        else:
            lines += [f"- {text}" for _, text in wanted[a:b]] + [f"+ {text}" for _, text in found[c:d]]
    return tuple(lines)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of an Arrow table as the command line prints them in JSON."""
    columns = [plain_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
