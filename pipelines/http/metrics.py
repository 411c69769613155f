"""The metrics for Prometheus: each with its labels, its meaning and the origin of its values.

The list is complete: the exposition, docs/OPERATIONS.md and the checks of dashboard and alert rules derive from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from pipelines.catchup.shown_standing import Standing
from pipelines.views.table_views import BadGroup, Beside, Phase, PipelineView, RunView, TableView
from sources.lag import PlaceLag
from sources.wording import BadReason

Samples: TypeAlias = Iterable[tuple[tuple[str, ...], float]]
"""(values of the labels, value) pairs."""

PIPELINE = ("pipeline",)
PLACE = ("pipeline", "topic", "partition")
TABLE = ("pipeline", "table")
BAD = ("pipeline", "table", "reason")


@dataclass(frozen=True, slots=True)
class Metric:
    """One name; counters end in ``_total`` and count since the start of the process."""

    name: str
    labels: tuple[str, ...]
    text: str
    samples: Callable[[RunView], Samples]

    @property
    def kind(self) -> str:
        return "counter" if self.name.endswith("_total") else "gauge"


Part = TypeVar("Part")
Parts: TypeAlias = Callable[[RunView], Iterable[tuple[tuple[str, ...], Part]]]
"""Returns the parts of a run with the values of their labels."""


def _each(parts: Parts[Part], value: Callable[[Part], float | None]) -> Callable[[RunView], Samples]:
    """A sample of each part that has a value."""
    return lambda run: ((labels, found) for labels, part in parts(run) if (found := value(part)) is not None)


def _each_word(parts: Parts[Part], values: Callable[[Part], Mapping[Any, float]]) -> Callable[[RunView], Samples]:
    """A sample of each word, or words, for which a part has a value."""
    return lambda run: (
        ((*labels, *(map(str, word) if isinstance(word, tuple) else (str(word),))), value)
        for labels, part in parts(run)
        for word, value in values(part).items()
    )


def _pipelines(run: RunView) -> Iterator[tuple[tuple[str, ...], PipelineView]]:
    return (((p.name,), p) for p in run.pipelines)


def _places(run: RunView) -> Iterator[tuple[tuple[str, ...], PlaceLag]]:
    return (((p.name, place.topic, str(place.partition)), place) for p in run.pipelines for place in p.places)


def _tables(run: RunView) -> Iterator[tuple[tuple[str, ...], TableView]]:
    return (((p.name, t.name), t) for p in run.pipelines for t in p.tables)


def _seen_tables(run: RunView) -> Iterator[tuple[tuple[str, ...], TableView]]:
    """The open tables: a paused one may not have been opened since the start."""
    return ((labels, table) for labels, table in _tables(run) if table.snapshot_id)


def _works(run: RunView) -> Iterator[tuple[tuple[str, ...], Beside]]:
    return (((*labels, t.beside.work), t.beside) for labels, t in _tables(run) if t.beside is not None)


def _of_bad_records(value: Callable[[BadGroup], int | None]) -> Callable[[RunView], Samples]:
    """By table and the word for the reason: several kinds of reasons share a word."""

    def samples(run: RunView) -> Samples:
        sums: dict[tuple[str, ...], float] = {}
        for pipeline in run.pipelines:
            for group in pipeline.bad_records:
                if (found := value(group)) is not None:
                    labels = (pipeline.name, group.table, group.word.value)
                    sums[labels] = sums.get(labels, 0.0) + found
        return sums.items()

    return samples


def _build(run: RunView) -> Samples:
    return [((run.version, run.python, run.spark), 1.0)]


def _snapshot_age(run: RunView) -> Samples:
    return _each(_tables, lambda t: None if t.snapshot_time_s is None else max(0.0, run.time_s - t.snapshot_time_s))(
        run
    )


def _behind_s(run: RunView) -> Samples:
    return _each(_tables, lambda t: 0.0 if t.since_s is None else max(0.0, run.time_s - t.since_s))(run)


def _running_s(run: RunView) -> Samples:
    return _each(_pipelines, lambda p: 0.0 if p.running_since_s is None else run.time_s - p.running_since_s)(run)


def _pipeline(name: str, text: str, value: Callable[[PipelineView], float | None]) -> Metric:
    return Metric(name, PIPELINE, text, _each(_pipelines, value))


def _place(name: str, text: str, value: Callable[[PlaceLag], float | None]) -> Metric:
    return Metric(name, PLACE, text, _each(_places, value))


def _table(name: str, text: str, value: Callable[[TableView], float | None]) -> Metric:
    return Metric(name, TABLE, text, _each(_tables, value))


def _seen_table(name: str, text: str, value: Callable[[TableView], float | None]) -> Metric:
    return Metric(name, TABLE, text, _each(_seen_tables, value))


METRICS: tuple[Metric, ...] = (
    Metric("tidemark_build_info", ("version", "python", "spark"), "Always 1; the labels have the versions.", _build),
    Metric("tidemark_start_time_seconds", (), "When the process started, since 1970.", lambda r: [((), r.started_s)]),
    Metric(
        "tidemark_memory_bytes",
        ("process",),
        "Resident memory of `driver`, `jvm` and `workers` on this machine.",
        lambda r: (((kind,), use.resident_bytes) for kind, use in r.processes.items()),
    ),
    Metric(
        "tidemark_open_files",
        ("process",),
        "Open files and connections of the same processes.",
        lambda r: (((kind,), use.open_files) for kind, use in r.processes.items()),
    ),
    Metric(
        "tidemark_pipeline_phase",
        ("pipeline", "phase"),
        f"1 for the phase that the pipeline is in, of {', '.join(f'`{phase}`' for phase in Phase)}.",
        _each_word(_pipelines, lambda p: {phase: float(p.phase is phase) for phase in Phase}),
    ),
    _pipeline("tidemark_records_total", "Records read.", lambda p: p.records),
    Metric(
        "tidemark_records_skipped_total",
        ("pipeline", "reason"),
        "Records that Tidemark skips on purpose.",
        _each_word(_pipelines, lambda p: p.skipped),
    ),
    Metric(
        "tidemark_records_quarantined_total",
        BAD,
        f"Quarantined records; `reason` is one of {', '.join(f'`{word}`' for word in BadReason)}.",
        _of_bad_records(lambda group: group.put_aside),
    ),
    Metric(
        "tidemark_quarantine_records",
        BAD,
        "Records in the quarantine at the last count: every few seconds, less often if a count takes long.",
        _of_bad_records(lambda group: group.open),
    ),
    _pipeline(
        "tidemark_quarantine_counted_timestamp_seconds",
        "Time of the last count of the quarantine, since 1970; missing before the first count.",
        lambda p: p.bad_counted_s,
    ),
    Metric(
        "tidemark_retries_total",
        ("pipeline", "reason"),
        "Retries; `reason` names what failed.",
        _each_word(_pipelines, lambda p: p.retries),
    ),
    Metric(
        "tidemark_batch_step_seconds_total",
        ("pipeline", "step"),
        "Wall time of batches per step of the driver.",
        _each_word(_pipelines, lambda p: p.step_seconds),
    ),
    Metric(
        "tidemark_task_step_seconds_total",
        ("pipeline", "step"),
        "Time inside the tasks per step, summed over parallel tasks.",
        _each_word(_pipelines, lambda p: p.task_seconds),
    ),
    _pipeline(
        "tidemark_last_batch_timestamp_seconds",
        "When the last batch ended, since 1970.",
        lambda p: p.last_batches[-1].ended_s if p.last_batches else None,
    ),
    Metric(
        "tidemark_running_batch_seconds",
        PIPELINE,
        "How long the running batch has taken so far; 0 if none runs.",
        _running_s,
    ),
    _pipeline(
        "tidemark_source_silent_seconds",
        "How long the source has not answered; 0 while it answers.",
        lambda p: p.source_silent_s or 0.0,
    ),
    Metric(
        "tidemark_lost_offsets_total",
        PLACE,
        "Offsets that Kafka deleted before Tidemark read them (`on_data_loss: continue`). Offsets of deleted or "
        "recreated topics are not included, because their end is unknown; the log names them.",
        _each_word(_pipelines, lambda p: p.lost_offsets),
    ),
    _place(
        "tidemark_lag_records",
        "Records that the stream has not read yet. `tidemark_table_missed_records` covers tables outside the stream.",
        lambda p: p.records,
    ),
    _place(
        "tidemark_lag_seconds",
        "Age of the first record that the stream has not read yet; missing while unknown.",
        lambda p: p.seconds,
    ),
    _pipeline(
        "tidemark_unread_bytes",
        "Bytes of dump files that are not read yet; a compressed file counts in full until its end is read.",
        lambda p: p.unread_bytes,
    ),
    _pipeline(
        "tidemark_group_failures_total",
        "Failed commits of offsets to the consumer group (`group_id`); Tidemark retries each.",
        lambda p: p.group_failures,
    ),
    _place("tidemark_next_offset", "Offset of the next record to read.", lambda p: p.next_offset),
    _place("tidemark_end_offset", "End of the partition when Tidemark last checked it.", lambda p: p.end_offset),
    Metric(
        "tidemark_table_state",
        ("pipeline", "table", "state"),
        f"1 for the state that the table is in, of {', '.join(f'`{standing}`' for standing in Standing)}.",
        _each_word(_tables, lambda t: {one: float(t.standing is one) for one in Standing}),
    ),
    Metric(
        "tidemark_table_behind_seconds",
        TABLE,
        "How long the table has been out of the stream: paused, catching up, or both; 0 if it is in the stream.",
        _behind_s,
    ),
    _table(
        "tidemark_table_missed_records",
        "About how many records of its topics a table outside the stream has not read; missing while unknown.",
        lambda t: t.missed_records,
    ),
    Metric(
        "tidemark_table_beside_records",
        ("pipeline", "table", "work"),
        "Records read so far by unfinished work alongside the stream: `catch-up`, `backfill`, `replay`, `rebuild`.",
        _each(_works, lambda work: work.records),
    ),
    Metric(
        "tidemark_table_beside_records_left",
        ("pipeline", "table", "work"),
        "About how many records this work has yet to read; missing while unknown.",
        _each(_works, lambda work: work.records_left),
    ),
    _table(
        "tidemark_table_events_total",
        "Events that gave rows for the table, including rereads alongside the stream.",
        lambda t: t.events,
    ),
    _table(
        "tidemark_table_rows_total", "Rows written to level 0, including those alongside the stream.", lambda t: t.rows
    ),
    _table("tidemark_table_changelog_rows_total", "Rows of the changelog.", lambda t: t.changelog_rows),
    _table(
        "tidemark_table_late_rows_total",
        "Rows that arrived after newer ones of their key (`order_by: source_position`, `sequence.field`) and had "
        "no effect; Tidemark counts them when it merges them.",
        lambda t: t.late_rows,
    ),
    Metric(
        "tidemark_table_unsent_values_total",
        ("pipeline", "table", "column", "became"),
        "Values that the source did not send (unchanged TOAST) and that Tidemark could not find for certain in a "
        "stored row. It wrote NULL (`null`, `null-key-changed`), or a value that may be outdated (`older`).",
        _each_word(_tables, lambda t: t.unsent),
    ),
    Metric(
        "tidemark_table_schema_changes_total",
        ("pipeline", "table", "kind"),
        "Changes of the source's schema that the table has followed (`add`, `drop`, `rename`, `widen`, `retype`,"
        " `nullability`, `comment`, `truncate`; `primary_key` of the new table), and changes by other programs.",
        _each_word(_tables, lambda t: t.schema_changes),
    ),
    Metric(
        "tidemark_table_files",
        ("pipeline", "table", "level"),
        "Live data files.",
        _each_word(_tables, lambda t: {level: shape.files for level, shape in t.shape.levels.items()}),
    ),
    Metric(
        "tidemark_table_bytes",
        ("pipeline", "table", "level"),
        "Bytes of the live data files.",
        _each_word(_tables, lambda t: {level: shape.size_bytes for level, shape in t.shape.levels.items()}),
    ),
    _seen_table("tidemark_table_buckets", "Buckets with files.", lambda t: t.shape.buckets),
    _seen_table(
        "tidemark_table_level0_runs",
        "Sorted runs on level 0 of all buckets, which wait for compaction.",
        lambda t: t.shape.level0_runs,
    ),
    _seen_table(
        "tidemark_table_max_sorted_runs",
        "The largest number of sorted runs in one bucket.",
        lambda t: t.shape.most_runs,
    ),
    _seen_table(
        "tidemark_table_compaction_backlog_buckets",
        "Buckets with at least `num-sorted-run.compaction-trigger` sorted runs.",
        lambda t: t.shape.backlog_buckets,
    ),
    _seen_table(
        "tidemark_table_compaction_backlog_bytes", "Bytes of level 0 in those buckets.", lambda t: t.shape.backlog_bytes
    ),
    _seen_table(
        "tidemark_table_waiting_rows",
        "Rows in postponed buckets, which readers do not see until a compaction.",
        lambda t: t.shape.waiting_rows,
    ),
    _seen_table("tidemark_table_snapshot_id", "The newest snapshot.", lambda t: t.snapshot_id),
    Metric("tidemark_table_snapshot_age_seconds", TABLE, "Age of the newest snapshot.", _snapshot_age),
)

DURATIONS = "tidemark_batch_duration_seconds"
DURATIONS_TEXT = "Wall time of batches, without the overlap with the previous batch."
