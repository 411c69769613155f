"""The files of one bucket of a table without primary key: in the order in which their rows were written."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_table.metadata.data_file import DataFileMeta


def in_order(files: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    """Files by their first sequence number; where writers gave one twice, by their age."""
    return sorted(files, key=lambda file: (file.min_sequence_number, file.creation_time_ms or 0, file.file_name))
