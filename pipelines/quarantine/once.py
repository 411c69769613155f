"""Records that are read again and that the quarantine holds: each is in a table, or in the quarantine, and once.

A replay, or a table on its way back, meets records that were put aside before. Those that are bad still stay in the
quarantine once. Those that are good by now are noted when they are read (``Quarantine.note_good``), and leave it when
all that was read is in its table for good.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from paimon_table.errors import BrokenInvariant, SinkUnavailable
from pipelines.bad_records.bad_lines import (
    REPLAY,
    RETRY,
    BadFile,
    BadLine,
    BadLines,
    DamagedLine,
    aside_owner,
    replay_owner,
)
from pipelines.bad_records.settled import Settled
from pipelines.checkpoint.book import Pause
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.replay_state import ReplayState
from pipelines.config.config import PipelineConfig
from pipelines.prepared import own_tables
from pipelines.quarantine.alone import alone
from pipelines.quarantine.kept_lines import take_out
from pipelines.quarantine.slices import Slices
from pipelines.quarantine.twins import Identity, Placed, identity, placed
from pipelines.tables.target_names import TargetNames
from sinks.quarantine import NOTES
from sources.wording import counted

log = logging.getLogger(__name__)


def keep_once(config: PipelineConfig, state: ReplayState) -> Settled:
    """Take out of the quarantine what a finished replay has brought into its table, or has put aside once more.

    Of the latter the other line stays: the stream's, or that of somebody who has tried the record before. The notes of
    the former stay too: somebody may go back to the table as it was. Idempotent.
    """
    return _settled(BadLines(config), replay_owner(state), keeps_notes=True)


def keep_once_behind(config: PipelineConfig, pause: Pause) -> bool:
    """The same for a table that has caught up; False while a retry or drop works on the quarantine."""
    query = Checkpoint(config).query_id
    if query is None:
        raise BrokenInvariant(f"table {pause.table} has caught up with a stream that has no checkpoint; please report")
    try:
        _settled(BadLines(config), aside_owner(query, pause), keeps_notes=False)
    except SinkUnavailable:
        return False
    return True


def take_out_good(config: PipelineConfig) -> None:
    """Take out what the stream, or a table that was caught up, has brought into a table; not beside a retry or drop."""
    bad = BadLines(config)
    if not _notes_of_stream(bad):
        return
    try:
        with alone(bad):
            take_out_good_alone(config, bad)
    except SinkUnavailable as error:
        log.info("records that are good by now stay in the quarantine for now: %s", error)


def take_out_good_alone(config: PipelineConfig, bad: BadLines) -> None:
    """The same for somebody who holds the quarantine.

    What was noted under an earlier checkpoint may never have come into its table: there the table's position tells.
    """
    query, notes = Checkpoint(config).query_id, _notes_of_stream(bad)
    of_others = [note for note in notes if query is None or not note.owner.startswith(query)]
    missing: set[Identity] = set()
    if of_others:
        known = own_tables(config).positions().known
        names = TargetNames(config, known.items)
        for line in bad.lines(of_others, lambda: None):
            if isinstance(line, BadLine):
                position = known.get(names.of(line))
                if position is None or line.offset >= position.offsets.get((line.topic, line.partition), 0):
                    missing.add(identity(line))
    _take_out_noted(bad, notes, keeps_notes=False, but=missing)


def _notes_of_stream(bad: BadLines) -> list[BadFile]:
    return [note for note in bad.notes() if note.is_final and not note.owner.startswith(REPLAY)]


def _settled(bad: BadLines, owner: str, *, keeps_notes: bool) -> Settled:
    if not bad.io.list_names(f"{bad.path}/{owner}"):
        return Settled()
    with alone(bad):
        notes = [note for note in bad.notes() if note.owner == owner]
        good = _take_out_noted(bad, notes, keeps_notes=keeps_notes)
        return Settled(_kept_once(bad, owner), good, f"{bad.location}/{owner}/*/*{NOTES}")


def _take_out_noted(
    bad: BadLines, notes: list[BadFile], *, keeps_notes: bool, but: Collection[Identity] = frozenset()
) -> int:
    if not notes:
        return 0
    lines = [line for line in bad.lines(notes, lambda: None) if isinstance(line, BadLine)]
    good = {identity(line) for line in lines} - {*but}
    places = {placed(line) for line in lines if identity(line) in good}
    _leave_out_of_retries(bad, places)
    files = [file for file in bad.files() if file.is_final]
    taken = sum(take_out(bad.io, file, _among(good, places)) for file in files) if good else 0
    for note in () if keeps_notes else notes:
        bad.io.delete(note.path)
    if taken:
        log.info("%s left %s: read again, they are in their tables by now", counted(taken, "record"), bad.location)
    return taken


def _leave_out_of_retries(bad: BadLines, places: Collection[Placed]) -> None:
    """Let retries that have not ended pass over the records that are in their tables."""
    slices = Slices(bad.io, bad.path)
    for slice_ in slices.unfinished():
        slices.leave_out(slice_, {line.record for line in slices.lines(slice_) if placed(line) in places})


def _kept_once(bad: BadLines, owner: str) -> int:
    files = bad.files()
    own = [file for file in files if file.owner == owner]
    others = [file for file in files if file.owner != owner]
    put_aside = {identity(line): placed(line) for line in bad.lines(own, lambda: None) if isinstance(line, BadLine)}
    if not put_aside:
        return 0
    places = {*put_aside.values()}
    known: set[Identity] = set()
    mended: set[Placed] = set()
    for line in bad.lines(others, lambda: None):
        if isinstance(line, BadLine) and identity(line) in put_aside:
            known.add(identity(line))
        elif isinstance(line, BadLine) and _is_mended(line) and placed(line) in places:
            mended.add(placed(line))
    twice = known | {one for one, place in put_aside.items() if place in mended}
    return sum(take_out(bad.io, file, _among(twice, ())) for file in own) if twice else 0


def _is_mended(line: BadLine) -> bool:
    """Whether somebody may have changed what the line holds: it has failed in a retry."""
    return line.file.owner.startswith(RETRY)


def _among(identities: Collection[Identity], places: Collection[Placed]) -> Callable[[BadLine | DamagedLine], bool]:
    """Tells lines of these records; also as somebody has mended them, where ``places`` has theirs."""

    def is_among(line: BadLine | DamagedLine) -> bool:
        if not isinstance(line, BadLine):
            return False
        return identity(line) in identities or (_is_mended(line) and placed(line) in places)

    return is_among
