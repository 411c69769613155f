"""Records of a quarantine that a user fixed, in a file of lines such as ``show --format json`` prints."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from paimon_table.errors import ConfigError
from pipelines.bad_records.dead_letters import BadLine, read_line
from pipelines.bad_records.log import Place
from pipelines.report.safe_text import shown
from sources.dumps.dump_lines import MALFORMED_PREFIX, NoRecord, record_of_line

MOST_SHOWN = 5

_Record: TypeAlias = tuple[str, int, int]
"""Topic, partition and offset: a line may omit the time."""


@dataclass(slots=True)
class _Edited:
    line: BadLine
    taken_for: Place | None = None
    """The record of the quarantine that the line replaces."""


class EditedLines:
    """The lines of the file by their records; they fit into memory.

    Raises ConfigError, with the line numbers, if a line is not a record or two lines fix one record differently.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[_Record, _Edited] = {}
        try:
            texts = path.read_bytes().splitlines()
        except OSError as error:
            raise ConfigError(f"--file {path} cannot be read: {error.strerror or error}") from error
        found = [(number, self._added(number, text)) for number, text in enumerate(texts, 1) if text.strip()]
        problems = [f"{path}:{number}: {shown(problem, 200)}" for number, problem in found if problem is not None]
        if problems:
            more = [f"and {len(problems) - MOST_SHOWN} more"] if len(problems) > MOST_SHOWN else []
            raise ConfigError("\n".join([*problems[:MOST_SHOWN], *more]))
        if not found:
            raise ConfigError(f"--file {path} has no lines; `tidemark quarantine show FILE --format json` prints some")

    def of(self, line: BadLine) -> bytes | None:
        """The fixed line of a record; None if the file has none.

        A recreated topic has other records at the same places, with other times. Raises ConfigError if the file does
        not say which of two is meant.
        """
        edited = self._lines.get(_record(line))
        if edited is None or (None not in (edited.line.ts, line.ts) and edited.line.ts != line.ts):
            return None
        if edited.taken_for not in (None, line.record):
            raise ConfigError(
                f"--file {self._path}:{edited.line.number}: the quarantine has two records of {line.topic} partition"
                f" {line.partition} offset {line.offset} (the topic was recreated, or a dump replaced). The line"
                " does not say which it is. Leave its field `ts` as `quarantine show` prints it, or drop the other"
                " record first"
            )
        edited.taken_for = line.record
        if edited.line.ts is None and line.ts is not None:
            return json.dumps({**json.loads(edited.line.text), "ts": line.ts}).encode()
        return edited.line.text

    def unknown(self) -> list[int]:
        """The numbers of the lines whose records are not in the quarantine."""
        return sorted(edited.line.number for edited in self._lines.values() if edited.taken_for is None)

    def _added(self, number: int, text: bytes) -> str | None:
        """Add a line; returns its fault, if any."""
        line = read_line(str(self._path), number, text)
        if not isinstance(line, BadLine):
            return line.problem
        if not line.topic.startswith(MALFORMED_PREFIX):
            try:
                record_of_line(text)
            except NoRecord as error:
                return str(error)
        known = self._lines.setdefault(_record(line), _Edited(line)).line
        if known.content != line.content:
            return (
                f"the record of line {known.number} appears here a second time with other content; keep one of the two"
            )
        return None


def _record(line: BadLine) -> _Record:
    return line.topic, line.partition, line.offset
