"""Applies the slices of a retry, without Spark, with the code of the stream's batches.

If a process runs the pipeline, it applies a slice between two batches at the request of the command. Otherwise the
command applies it, and holds the checkpoint meanwhile.
"""

from __future__ import annotations

import logging
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from paimon_table import Table
from paimon_table.errors import ConfigError, SinkUnavailable
from paimon_table.storage.private_directory import process_directory
from pipelines.bad_records.dead_letters import DeadLetters
from pipelines.bad_records.facts import TableJudge, settle
from pipelines.bad_records.log import Applied as AppliedEntry
from pipelines.bad_records.log import Closed, Place, Sealed, places_in, stretches
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.decode_report import kind_of_reason
from pipelines.batch.local_exchange import process_locally
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.batch.step_facts import AllOpen
from pipelines.checkpoint.document import known_fields
from pipelines.config.config import PipelineConfig
from pipelines.control.asking import done_or_raised, wait_for
from pipelines.control.guest import Guest
from pipelines.control.request_desk import Handler, Tell
from pipelines.control.requests import Answer, Request, State, check_rules, digest_of_rules
from pipelines.prepared import own_tables
from pipelines.quarantine.older_records import LateRecords, WithoutLateRecords
from pipelines.quarantine.overtaken import steps_of
from pipelines.quarantine.slices import Slice, Slices
from pipelines.storage import quarantine_of
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.table_failure import TableFailure
from pipelines.tables.tables import PipelineTables
from sinks.commit.own_position import OwnReading
from sinks.commit.positions import RETRY_EDITED_PROPERTY, RETRY_PROPERTY
from sinks.quarantine import Quarantine
from sources.changes import SourceTable
from sources.dumps.dump_lines import MALFORMED_PREFIX

log = logging.getLogger(__name__)

COMMAND = "retry-slice"
_NAME = re.compile(r"retry-[0-9A-Za-z-]+/slice-[0-9]{12}")


@dataclass(frozen=True, slots=True)
class Applied:
    """The records of a slice by outcome."""

    records: int = 0
    with_rows: int = 0
    failed: int = 0
    """Records that are in quarantine again."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Records that give no rows on purpose, by the word for the reason."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Failed records, by kind of reason."""

    def plus(self, other: Applied) -> Applied:
        """The combined numbers."""
        return Applied(
            self.records + other.records,
            self.with_rows + other.with_rows,
            self.failed + other.failed,
            dict(Counter(self.skipped) + Counter(other.skipped)),
            dict(Counter(self.reasons) + Counter(other.reasons)),
        )

    @staticmethod
    def from_details(details: Mapping[str, Any]) -> Applied:
        return Applied(**known_fields(Applied, details))


def apply(given: PipelineConfig, own: OwnTables, slice_: Slice) -> Applied:
    """Apply the records of a slice to the tables, exactly once; records that fail again stay in the quarantine.

    ``given`` is the pipeline as its file has it. No batch of the pipeline may run meanwhile. A second call for the same
    slice finds what the first has done.
    """
    config = own.config_before(given, slice_.later)
    records = DeadLetters(config)
    settle(records.log, TableJudge(own.catalog))
    facts, all_records = records.facts(), slice_.records
    own_ones = {
        place
        for entry in records.log.entries.values()
        if isinstance(entry, AppliedEntry) and entry.by == slice_.step
        for place in places_in(entry.places)
    }
    still = {*facts.places()} | own_ones
    report = _run(config, own, slice_, records, {*all_records} - still)

    facts = records.facts()
    failed_again = facts.of_step(slice_.step)
    failed = {*failed_again.places()}
    left = [place for place in all_records if place not in failed and facts.at(place) is not None]
    _close(records, own, slice_, left)
    reasons = Counter(kind_of_reason(line.reason) for line in records.records(failed_again))
    skipped = dict(report.counts.skipped)
    with_rows = len(all_records) - len(failed) - sum(skipped.values())
    return Applied(len(all_records), with_rows, len(failed), skipped, dict(reasons))


def _close(records: DeadLetters, own: OwnTables, slice_: Slice, left: Sequence[Place]) -> None:
    """Count records without rows, and lines that are records only now: these have other places."""
    mended = [place for place in left if place.topic.startswith(MALFORMED_PREFIX)]
    sealed = Sealed(
        step=slice_.step, user=_user(records.config, slice_), number=slice_.number, since_ms=slice_.started_ms
    )
    judge = TableJudge(own.catalog)
    found = (judge.committed(sealed, str(name)) for name in own.names()) if mended else ()
    evidence = next((one for one in found if one is not None), None)
    if evidence is not None:
        records.log.append(AppliedEntry(by=slice_.step, evidence=evidence, places=stretches(mended)))
        left = [place for place in left if place not in mended]
    if left:
        records.log.append(Closed(why="skipped", places=stretches(left)))


def _user(config: PipelineConfig, slice_: Slice) -> str:
    """The commit user of a retry."""
    return f"{slice_.retry}-{config.name}"


def _run(
    config: PipelineConfig, own: OwnTables, slice_: Slice, records: DeadLetters, but: Collection[Place]
) -> BatchReport:
    io, path = quarantine_of(config)
    recorded = {RETRY_PROPERTY: config.name, **({RETRY_EDITED_PROPERTY: "true"} if slice_.is_edited else {})}
    reading = OwnReading(lambda _: recorded, by_offsets=False, after=slice_.after)
    tables = PipelineTables(config, _user(config, slice_), own, beside=reading)
    settings = TaskSettings(
        config.decoder if slice_.even_if_older else WithoutLateRecords(config.decoder, _late(slice_, records, tables)),
        1,
        process_directory(tempfile.gettempdir()),
        Quarantine(io, f"{path}/{slice_.retry}"),
        log=records.log,
        topic_ids=lambda: slice_.topic_ids,
        reads_again=AllOpen(records.log, own.catalog, lambda: slice_.topic_ids),
    )
    run = BatchRun(slice_.number, slice_.started_ms)
    try:
        return process_locally(run, tables, settings, Slices(io, path).records(slice_, but))
    except TableFailure as failure:
        raise failure.error from failure


def _late(slice_: Slice, records: DeadLetters, tables: PipelineTables) -> LateRecords:
    steps = steps_of(records.log)
    found = {place[:1] + place[2:4]: steps[place] for place in slice_.records if place in steps}

    def table_of(source: SourceTable) -> tuple[str, Table] | None:
        identifier = tables.routes.get(source)
        return None if identifier is None else (identifier, tables.sinks[identifier].table)

    return LateRecords(table_of, lambda *place: found.get(place), tables.commit_user)


def is_begun(config: PipelineConfig, own: OwnTables, slice_: Slice) -> bool:
    """Whether some table has rows of the slice, or may have them."""
    records = DeadLetters(config)
    sealed = records.log.last_sealed(slice_.step)
    judge = TableJudge(own.catalog)
    try:
        return sealed is not None and any(judge.committed(sealed, table) is not None for table in sealed.good)
    except (SinkUnavailable, OSError):
        return True  # without access, nothing is given up


Apply = Callable[[Slice], Applied]


def applier(config: PipelineConfig, tell: Callable[[str], None]) -> Guest[Slice, Applied]:
    """Applies slices during the block; ``tell`` gets words for a waiting user."""

    def ask(slice_: Slice) -> Applied | None:
        arguments = {"slice": slice_.name, "rules": digest_of_rules(config)}
        answer = wait_for(config, COMMAND, arguments, tell)
        return None if answer is None else Applied.from_details(done_or_raised(answer))

    @contextmanager
    def here() -> Iterator[Apply]:
        yield partial(apply, config, own_tables(config))

    return Guest(config, "retries records of the quarantine", ask, here, tell)


def handler(config: PipelineConfig, own: OwnTables, before: Callable[[], None]) -> Handler:
    """Handles requests for slices in the running pipeline; ``before`` waits for unfinished work of the last batch."""

    def handle(request: Request, _tell: Tell) -> Answer:
        name = request.text("slice")
        check_rules(config, request)
        if _NAME.fullmatch(name) is None:
            raise ConfigError(f"{name!r} is not a slice of a retry")
        try:
            slice_ = Slices(*quarantine_of(config)).read(name)
        except FileNotFoundError as error:
            raise ConfigError(f"slice {name} is already done, or was given up") from error
        before()
        applied = apply(config, own, slice_)
        return Answer(
            State.DONE, f"{name}: {applied.with_rows:,} of {applied.records:,} records applied", asdict(applied)
        )

    return handle
