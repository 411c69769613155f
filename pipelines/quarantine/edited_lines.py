"""Records of a quarantine as somebody has mended them, in a file of lines such as ``show --format json`` prints."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from paimon_table.errors import ConfigError
from pipelines.bad_records.dead_letters import BadLine, read_line
from pipelines.bad_records.log import Place
from pipelines.report.safe_text import shown
from sources.dumps.dump_lines import MALFORMED_PREFIX, NoRecord, record_of_line

MOST_TOLD = 5

_Record: TypeAlias = tuple[str, int, int]
"""Topic, partition and offset: what a line may leave out is the time."""


class EditedLines:
    """The lines of the file by topic, partition and offset, which are not to be changed; they stay on the disk.

    Raises ConfigError, with the numbers of the lines, where one is no record or two have one record otherwise mended. A
    record may lie in a quarantine twice, and so in the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[_Record, tuple[int, int, int]] = {}
        self._times: dict[_Record, int | None] = {}
        self._taken_for: dict[_Record, Place] = {}
        self._contents: dict[_Record, str] = {}
        self._found: set[_Record] = set()
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise ConfigError(f"--file {path} cannot be read: {error.strerror or error}") from error
        problems: list[str] = []
        position = 0
        for number, line in enumerate(self._file, 1):
            text = line.rstrip(b"\r\n")
            problem = self._added(number, position, text) if text.strip() else None
            if problem is not None:
                problems.append(f"{path}:{number}: {shown(problem, 200)}")
            position += len(line)
        if not problems and not self._places:
            self._file.close()
            raise ConfigError(f"--file {path} has no lines; `tidemark quarantine show FILE --format json` prints some")
        if problems:
            self._file.close()
            more = [f"and {len(problems) - MOST_TOLD} more"] if len(problems) > MOST_TOLD else []
            raise ConfigError("\n".join([*problems[:MOST_TOLD], *more]))
        self._contents.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._places)

    def of(self, line: BadLine) -> bytes | None:
        """The mended line of a record; None where the file has none.

        A topic that was made anew has other records in the places of those before, which have other times. ConfigError
        where the file does not tell which of two is meant.
        """
        record = _record(line)
        place, time_ms = self._places.get(record), self._times.get(record)
        if place is None or (None not in (time_ms, line.ts) and time_ms != line.ts):
            return None
        if self._taken_for.setdefault(record, line.record) != line.record:
            topic, partition, offset = record
            raise ConfigError(
                f"--file {self._path}:{place[0]}: the quarantine has two records of {topic} partition {partition}"
                f" offset {offset} (the topic was made anew, or a dump replaced), and the line does not say which it"
                " is: leave its field `ts` as `quarantine show` prints it, or drop the other record first"
            )
        self._found.add(record)
        self._file.seek(place[1])
        text = self._file.read(place[2])
        return text if time_ms is not None else json.dumps({**json.loads(text), "ts": line.ts}).encode()

    def unknown(self) -> list[int]:
        """The numbers of the lines whose records were nowhere in the quarantine."""
        return sorted(place[0] for record, place in self._places.items() if record not in self._found)

    def _added(self, number: int, position: int, text: bytes) -> str | None:
        """Note a line; gives what is wrong with it."""
        line = read_line(str(self._path), number, text)
        if not isinstance(line, BadLine):
            return line.problem
        if not line.topic.startswith(MALFORMED_PREFIX):
            try:
                record_of_line(text)
            except NoRecord as error:
                return str(error)
        record, content = _record(line), _digest(line)
        known = self._places.get(record)
        if known is not None and self._contents[record] != content:
            return f"the record of line {known[0]} stands here again, otherwise; leave one"
        if known is None:
            self._places[record] = (number, position, len(text))
            self._contents[record] = content
            self._times[record] = line.ts
        return None


def _record(line: BadLine) -> _Record:
    return line.topic, line.partition, line.offset


def _digest(line: BadLine) -> str:
    return hashlib.sha256(line.content.encode()).hexdigest()[:32]
