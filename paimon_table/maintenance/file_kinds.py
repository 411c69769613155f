"""Recognises the names that Paimon writers give to files in a table's directories. Pure.

Every other file may belong to another program: it is reported and kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from paimon_table.metadata.paths import escape_path_name
from paimon_table.options.names import CHANGELOG_FILE_PREFIX, DATA_FILE_PREFIX
from paimon_table.schema.table_schema import TableSchema

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TEMPORARY = re.compile(rf"\..+\.{_UUID}\.tmp")
_PROBE = re.compile(rf"\.tidemark-probe-{_UUID}")
_INDEX = re.compile(rf"index-{_UUID}-(?:\d+|[0-9a-f]{{8}}-of-\d+)")
_PAYLOADS = {
    "manifest": re.compile(rf"(?:manifest|manifest-list|index-manifest)-{_UUID}-\d+"),
    "index": _INDEX,
    "statistics": re.compile(rf"stat-{_UUID}-\d+"),
}
_KEPT = {
    "schema": re.compile(r"schema-\d+"),
    "snapshot": re.compile(r"snapshot-\d+|EARLIEST|LATEST"),
    "changelog": re.compile(r"changelog-\d+|EARLIEST|LATEST"),
    "tag": re.compile(r"tag-.+"),
    "consumer": re.compile(r"consumer-.+"),
}
BRANCHED = tuple(_KEPT)
"""Directories of the table that each branch also has."""

SHARED = tuple(_PAYLOADS)
"""Directories whose files snapshots of the table and of its branches share."""

_OTHERS = ("branch", "tidemark")
_BUCKET = re.compile(r"bucket-(?:\d+|postpone)")
_DATA = re.compile(rf".*{_UUID}-\d+(?:\.\w+)+")


class FileKind(Enum):
    """What happens to an unreferenced file."""

    PAYLOAD = "removed once it is old enough: its writer has not published it"
    KEPT = "stays: it is valid from its creation on"
    UNKNOWN = "stays: no Paimon writer uses such names"


@dataclass(frozen=True, slots=True)
class FileNamesOf:
    """The names that files of one table can have."""

    prefixes: tuple[str, ...]
    """The prefixes of data and changelog files, in any version of the schema."""
    partition_keys: tuple[str, ...]

    @staticmethod
    def of(schemas: Collection[TableSchema]) -> FileNamesOf:
        prefixes = {"data-", "changelog-"}
        for schema in schemas:
            prefixes |= {schema.options[n] for n in (DATA_FILE_PREFIX, CHANGELOG_FILE_PREFIX) if n in schema.options}
        keys: Sequence[str] = next((schema.partition_keys for schema in schemas), ())
        return FileNamesOf(tuple(sorted(prefixes)), tuple(keys))

    def is_partition(self, level: int, name: str) -> bool:
        """Whether a directory ``level`` levels below the table's can be a partition directory."""
        return level < len(self.partition_keys) and name.startswith(f"{escape_path_name(self.partition_keys[level])}=")

    def is_bucket(self, level: int, name: str) -> bool:
        return level == len(self.partition_keys) and _BUCKET.fullmatch(name) is not None

    def in_bucket(self, name: str) -> FileKind:
        """The kind of a file in a bucket directory, which may also hold index files."""
        if _DATA.fullmatch(name) and name.startswith(self.prefixes):
            return FileKind.PAYLOAD
        return FileKind.PAYLOAD if _INDEX.fullmatch(name) or is_temporary(name) else FileKind.UNKNOWN


def is_temporary(name: str) -> bool:
    """Whether the writer of a file later renames or removes it."""
    return _TEMPORARY.fullmatch(name) is not None


def kind_in(directory: str, name: str) -> FileKind:
    """The kind of a file in one of ``BRANCHED`` and ``SHARED``, or in the table's own directory, which is ""."""
    if is_temporary(name) or (not directory and _PROBE.fullmatch(name)):
        return FileKind.PAYLOAD
    if directory in _PAYLOADS:
        return FileKind.PAYLOAD if _PAYLOADS[directory].fullmatch(name) else FileKind.UNKNOWN
    return FileKind.KEPT if directory in _KEPT and _KEPT[directory].fullmatch(name) else FileKind.UNKNOWN


def is_own_directory(name: str) -> bool:
    """Whether this directory of a table is for other files than rows."""
    return name in _PAYLOADS or name in _KEPT or name in _OTHERS
