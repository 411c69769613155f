"""The log lines about the records of a table, with the state that they need from batch to batch."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from paimon_table import TableSchema
from paimon_table.types import TIMESTAMPS, DataType, timestamp_unit
from pipelines.config.error_budget import NEWEST, Share
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_layout import layout_of
from pipelines.tables.merged_sources import source_words
from pipelines.tables.observed_columns import Seen
from sinks.commit.table_sink import TableSink
from sinks.write.unsent import Became, Unsent, unsent_texts
from sources.changes import ControlRecord, NewestRow, SourceTable
from sources.column_sources import ColumnSources, Firsts, place_key
from sources.wording import counted

log = logging.getLogger(__name__)

EVERY_MS = 600_000


class UnsentWarnings:
    """Warnings by table; metrics and the summary of a run count all warnings."""

    def __init__(self) -> None:
        self._untold: defaultdict[str, Counter[tuple[str, Became]]] = defaultdict(Counter)
        self._next_ms: dict[str, int] = {}

    def note(self, batch_id: int, identifier: str, unsent: Unsent, now_ms: int) -> None:
        """Count the values that a batch wrote in place of missing ones; warn if the last warning is some time ago."""
        counts = self._untold[identifier]
        counts.update(unsent)
        if not counts.total() or now_ms < self._next_ms.get(identifier, 0):
            return
        for text in unsent_texts(counts):
            log.warning("batch %d: table %s: %s", batch_id, identifier, text)
        counts.clear()
        self._next_ms[identifier] = now_ms + EVERY_MS


class LateRowNotes:
    """Log lines on late rows by table; a metric counts all late rows."""

    def __init__(self) -> None:
        self._untold: Counter[str] = Counter()
        self._next_ms: dict[str, int] = {}

    def note(self, batch_id: int, identifier: str, rows: int, now_ms: int) -> None:
        """Count the rows of a batch that had no effect; log it if the last line is some time ago."""
        self._untold[identifier] += rows
        if not self._untold[identifier] or now_ms < self._next_ms.get(identifier, 0):
            return
        log.info(
            "batch %d: table %s: %s arrived after newer rows of their keys and had no effect; the metric "
            "tidemark_table_late_rows_total counts them",
            batch_id,
            identifier,
            counted(self._untold.pop(identifier), "row"),
        )
        self._next_ms[identifier] = now_ms + EVERY_MS


class ControlNotes:
    """Lines on control records, one for each kind in each topic, for readers who miss them among the rows."""

    def __init__(self) -> None:
        self._warned: set[tuple[str, str]] = set()

    def note(self, first: Iterable[ControlRecord]) -> None:
        """Log the kinds that are new, each with the place of a record."""
        for record in first:
            if (record.topic, record.kind) in self._warned:
                continue
            self._warned.add((record.topic, record.kind))
            log.info(
                "%s partition %d offset %d: a %s, which is not a row of a table. Tidemark skips it and all others of"
                " the topic, and counts them as control records",
                record.topic,
                record.partition,
                record.offset,
                record.kind,
            )


class RecordShares:
    """The newest batches of each table that together have enough records to judge it by.

    A trickle of bad records counts like one batch with as many. A process starts without knowledge of earlier ones:
    records that they quarantined do not count.
    """

    def __init__(self) -> None:
        self._batches: defaultdict[str, dict[int, Share]] = defaultdict(dict)

    def note(self, name: str, batch_id: int, share: Share) -> Share:
        """Add the records of a batch and return the newest ones; a batch that is planned again counts once."""
        batches = self._batches[name]
        batches[batch_id] = share
        while len(batches) > 1 and _sum(batches).all - batches[min(batches)].all >= NEWEST:
            del batches[min(batches)]
        return _sum(batches)

    def forget(self, name: str) -> None:
        """Forget the records of a paused table: after the pause, later records decide."""
        self._batches.pop(name, None)


def _sum(batches: dict[int, Share]) -> Share:
    return sum(batches.values(), Share())


class VanishedColumns:
    """The losses already logged, so that each is logged once per process, and the newest row of every partition."""

    def __init__(self) -> None:
        self._warned: set[tuple[str, str, str]] = set()
        self._newest: defaultdict[SourceTable, dict[int, NewestRow]] = defaultdict(dict)

    def lacking(
        self, rows: Iterable[NewestRow], remembered: Callable[[SourceTable], ColumnSources]
    ) -> dict[SourceTable, list[str]]:
        """The columns that the source tables of a batch have lost, by the newest ``rows`` that its tasks saw.

        Partitions are read at different paces, so events from before ALTER TABLE ... ADD COLUMN can arrive after events
        that have the column. A column is lost if the newest row of each partition in the batch lacks it. The newest
        rows of other partitions must lack it too, if they were produced later. Rows from before the column do not
        count, nor columns that others continue: ``remembered`` gives the stored facts of a source table's table about
        that.
        """
        batch: defaultdict[SourceTable, dict[int, NewestRow]] = defaultdict(dict)
        for row in rows:
            known = batch[row.source].get(row.partition)
            if known is None or known.offset < row.offset:
                batch[row.source][row.partition] = row
        found: dict[SourceTable, list[str]] = {}
        for source, of_batch in batch.items():
            until = max(row.timestamp_ms or 0 for row in of_batch.values())
            later = [row for row in self._newest[source].values() if (row.timestamp_ms or 0) > until]
            self._newest[source].update(of_batch)
            known_names, newest = remembered(source), [*of_batch.values(), *later]
            retired = known_names.retired
            absent = dict.fromkeys(name for row in newest for name in row.absent if name not in retired)
            rows_of = {name: [row for row in newest if not _is_before(known_names, name, row)] for name in absent}
            found[source] = [n for n, those in rows_of.items() if those and all(n in row.absent for row in those)]
        return found

    def is_certain(self, source: SourceTable) -> bool:
        """Whether columns that the newest rows lack are missing in the source, and not only NULL in these rows."""
        return all(row.is_whole for row in self._newest[source].values())

    def comments(self, source: SourceTable) -> Mapping[str, str]:
        """The columns of a source table by its newest row."""
        row = self.newest(source)
        return {} if row is None else row.comments

    def newest(self, source: SourceTable) -> NewestRow | None:
        """The row of a source table that was produced last; rows of other partitions may be from before a change."""
        rows = self._newest[source].values()
        return max(rows, key=lambda row: (row.timestamp_ms or 0, row.offset), default=None)

    def behind_newest(self, source: SourceTable) -> Firsts:
        """The position after the newest row of a source table, and the time of that row."""
        row = self.newest(source)
        return {} if row is None else {place_key(source.topic, row.partition): (row.offset + 1, row.timestamp_ms)}

    def ends(
        self, source: SourceTable, lost: Sequence[str], partitions: Collection[int], known: ColumnSources
    ) -> tuple[dict[str, dict[str, int]], dict[str, list[int]]]:
        """Lost columns that the newest row of each partition lacks, with the offsets behind these rows.

        The others have the partitions that Tidemark waits for. These have given this process no row, or their newest
        row still has the column, or is from before it came.
        """
        newest = self._newest[source]
        found: dict[str, dict[str, int]] = {}
        waiting: dict[str, list[int]] = {}
        for name in lost:
            lacks = {p for p, row in newest.items() if name in row.absent and not _is_before(known, name, row)}
            others = {*partitions, *newest} - lacks
            if others:
                waiting[name] = sorted(others)
            else:
                found[name] = {place_key(source.topic, p): row.offset + 1 for p, row in sorted(newest.items())}
        return found, waiting

    def note_waiting(
        self, topic: str, identifier: str, waiting: Mapping[str, Sequence[int]], schema: TableSchema
    ) -> None:
        """Log which columns are not dropped yet, and why."""
        for name, partitions in waiting.items():
            if (topic, identifier, f"waits {name}") not in self._warned:
                self._warned.add((topic, identifier, f"waits {name}"))
                log.info(
                    "%s: column %s of table %s is dropped once rows of partition %s lack it too; until then %s",
                    topic, name, identifier, ", ".join(map(str, partitions)), _without([name], schema),
                )  # fmt: skip

    def note_awaited(self, topic: str, identifier: str, awaited: Mapping[str, tuple[str, str]]) -> None:
        """Warn of declared columns that rows lack and the table relies on.

        The table does not pause, because they may still appear.
        """
        for name, (place, follows) in awaited.items():
            if (topic, identifier, f"awaits {name}") not in self._warned:
                self._warned.add((topic, identifier, f"awaits {name}"))
                log.warning(
                    "%s: its events have no column %s, and %s of table %s needs it: %s. The table continues,"
                    " because columns.types declares %s, which may still appear. If the source renamed it, name "
                    "the new column in the rule. If it never appears, remove it from the rule",
                    topic, name, place, identifier, follows, name,
                )  # fmt: skip

    def note_unfed(self, identifier: str, unfed: Mapping[str, str]) -> None:
        """Warn of columns that expressions need and no source of the table has shown."""
        for name, text in unfed.items():
            if ("", identifier, f"unfed {name}") not in self._warned:
                self._warned.add(("", identifier, f"unfed {name}"))
                log.warning(
                    "table %s: %s. Until a source has it, the expression gives no values. If the name is wrong, "
                    "correct it in the rule",
                    identifier, text,
                )  # fmt: skip

    @staticmethod
    def lost(rule: TargetRule, absent: Sequence[str], *, is_only_source: bool) -> list[str]:
        """The columns ``absent`` from the newest events that no later event is expected to have."""
        if rule.merge_sources is not None or not is_only_source:
            return []
        return [name for name in absent if not rule.declares(name)]

    def note(
        self,
        source: SourceTable,
        sink: TableSink,
        rule: TargetRule,
        absent: Sequence[str],
        *,
        is_only_source: bool,
    ) -> None:
        """Warn of columns of a table that the newest events of a source table lack.

        Rows that may omit columns prove no loss. Declared columns may still appear. If several source tables feed the
        table, as in a log of many, the others may have the columns.
        """
        topic, identifier = source.topic, sink.identifier
        lost = self.lost(rule, absent, is_only_source=is_only_source)
        news = [name for name in lost if (topic, identifier, name) not in self._warned]
        if not news:
            return
        self._warned |= {(topic, identifier, name) for name in news}
        without = _without([rule.columns.stored_as(name) or name for name in news], sink.table.schema)
        if not self.is_certain(source):
            log.info(
                "%s: its newest record lacks %s, which table %s has; records of this format may omit NULL. If the "
                "source dropped or renamed it, %s",
                topic, ", ".join(news), identifier, without,
            )  # fmt: skip
            return
        log.warning(
            "%s: its events no longer have column %s, which table %s has. If the column was dropped or renamed, "
            "%s. If the source table was dropped and recreated, its old rows stay: write the new one into another "
            "`into`",
            topic, ", ".join(news), identifier, without,
        )  # fmt: skip


def _is_before(known: ColumnSources, name: str, row: NewestRow) -> bool:
    return known.is_before(name, {place_key(row.source.topic, row.partition): (row.offset, row.timestamp_ms)})


def _without(columns: Sequence[str], schema: TableSchema) -> str:
    """The fate of records that lack ``columns`` of the table, in words."""
    strict = [name for name in columns if schema.has_column(name) and not schema.field(name).type.nullable]
    if not strict:
        return "new rows have NULL there"
    return (
        f"new records go to quarantine, because {', '.join(strict)} is NOT NULL in the table: make the column "
        "nullable (ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL), then retry them"
    )


class MessageKeyWarnings:
    """Warnings about keys, each once per table: shards would repeat them for every source table."""

    def __init__(self) -> None:
        self._warned: set[tuple[str, str]] = set()
        """Identifier of the table, and the warning about it."""

    def note(self, sink: TableSink, rule: TargetRule, message_key: Sequence[str], topic: str) -> None:
        """Warn if events need whole old rows, or if rows of several keys or sources become one."""
        primary_key = rule.row_key(sink.table.schema.primary_keys)
        if not primary_key:
            return
        is_computed = any(name in rule.columns.computed for name in primary_key)
        told = ", ".join(primary_key)
        if rule.changes_rows:
            primary_key = layout_of(rule, sink.table.schema).key_inputs(primary_key)
        if rule.primary_key is None and {*message_key} != {*primary_key}:
            return  # the table takes no record with such a key
        beyond = [name for name in primary_key if message_key and name not in message_key]
        if beyond and rule.before is None:
            self._tell(
                (sink.identifier, f"beyond {beyond}"),
                topic,
                f"primary key column {beyond[0]} of table {sink.identifier} is not in the message key. Updates and "
                "deletes without the whole old row (PostgreSQL: REPLICA IDENTITY FULL, and `before: full` in the "
                "rule) go to quarantine",
            )
        outside = [name for name in message_key if name not in primary_key]
        if outside and sink.table.options.merge_engine != "aggregation":  # many rows become one there on purpose
            self._tell(
                (sink.identifier, f"outside {outside}"),
                topic,
                f"{outside[0]} of the message key ({', '.join(message_key)}) is not in the primary key ({told}) of "
                f"table {sink.identifier}: rows that differ only in it become one row",
            )
        if (
            rule.merge_sources == "disjoint_keys"
            and message_key
            and not (beyond or is_computed)
            and len(sink.sources) > 1
        ):
            first, second, *_ = map(source_words, sink.sources)
            self._tell(
                (sink.identifier, "sources"),
                topic,
                f"table {sink.identifier} takes rows of several source tables ({first}, {second}) as "
                f"`merge_sources: disjoint_keys`, and its primary key ({told}) has no column beyond their message "
                "key. Tidemark does not check this: rows with the same key overwrite each other. Unless the "
                "sources are parts of one table, add a column that identifies the source to primary_key",
            )

    def _tell(self, about: tuple[str, str], topic: str, text: str) -> None:
        if about not in self._warned:
            self._warned.add(about)
            log.warning("%s: %s", topic, text)


_MOST_NAMED = 30
_UNIT_NAMES = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

_REMEDY = (
    "pipeline %s: records without an embedded schema have columns whose values look encoded, and Tidemark stores "
    "them unchanged: %s. Enable schemas in the connector (value.converter.schemas.enable=true), or declare types "
    "under columns.types of the rule. A pattern such as `/.*_at/` declares all columns that it matches, which must "
    "all have this type. Then write into a new table (another `into`, with `backfill: true`): columns of an "
    "existing table keep their form"
)

_MISREAD = (
    "pipeline %s: the declared types read the numbers of these columns in a unit that seems wrong, which gives "
    "wrong times: %s. Declare the precision that the source column has, and write into a new table (another `into`,"
    " with `backfill: true`). If the connector has time.precision.mode=connect, set `time_precision: connect`"
)


class EncodedColumns:
    """New columns whose values look encoded, though their records have no schema and no type is declared.

    Tidemark stores such values unchanged. No value is lost, but hardly anybody wants decimals as base64 or dates as
    numbers of days. If one pattern routes a whole database into tables, they would fill with such values before a user
    notices.

    Collects the new columns of one decoding; logs each column once.
    """

    def __init__(self, pipeline: str, *, precision_tells_unit: bool) -> None:
        self._pipeline = pipeline
        self._precision_tells_unit = precision_tells_unit
        self._warned: set[tuple[str, str]] = set()
        self._found: dict[tuple[str, str], str] = {}
        self._misread: dict[tuple[str, str], str] = {}

    def note(self, sink: TableSink, rule: TargetRule, seen: Seen) -> None:
        """Record the columns of a source table before its table follows them; known columns are ignored."""
        if not seen.looks:
            return
        has_rows = sink.state.snapshot is not None
        known = {*rule.declared(seen.looks), *(seen.key_columns or ()), *sink.table.schema.primary_keys}
        known |= {*sink.table.schema.column_names} if has_rows else set()
        for name in seen.looks.keys() - known:
            self._found.setdefault((sink.identifier, name), seen.looks[name])

    def note_units(self, sink: TableSink, rule: TargetRule, seen: Seen) -> None:
        """Record the declared columns whose numbers seem to have another unit than the declaration reads."""
        if not self._precision_tells_unit:
            return
        for name, declared in rule.declared(seen.looks).items():
            meaning = seen.looks.get(name)
            if meaning is not None and _is_other_unit(meaning, declared):
                said = f"declared {declared}, looks like {meaning}"
                self._misread.setdefault((sink.identifier, name), said)

    def tell(self) -> None:
        """One warning of each kind for everything new."""
        for remedy, found in ((_REMEDY, self._found), (_MISREAD, self._misread)):
            news = {column: meaning for column, meaning in sorted(found.items()) if column not in self._warned}
            found.clear()
            if news:
                self._warned |= news.keys()
                named = [f"{table}.{name} ({meaning})" for (table, name), meaning in news.items()]
                more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
                log.warning(remedy, self._pipeline, ", ".join(named[:_MOST_NAMED]) + more)


def _is_other_unit(meaning: str, declared: DataType) -> bool:
    """Whether a declared timestamp reads numbers in another unit than they seem to have."""
    if declared.root not in TIMESTAMPS or not meaning.startswith("epoch "):
        return False
    unit = timestamp_unit(declared.precision or 0)
    return not meaning.startswith(f"epoch {_UNIT_NAMES[unit]}:")
