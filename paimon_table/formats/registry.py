"""The formats of data files that Tidemark writes and reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paimon_table.formats.avro.file import AVRO_FILES
from paimon_table.formats.file_format import FileFormat
from paimon_table.formats.known_formats import storing_format
from paimon_table.formats.orc.file import ORC_FILES
from paimon_table.formats.parquet.file import PARQUET_FILES
from paimon_table.options.file_settings import FileSettings
from paimon_table.types import DataField

FORMATS: Mapping[str, FileFormat] = {known.name: known for known in (PARQUET_FILES, ORC_FILES, AVRO_FILES)}


def format_for(settings: FileSettings, fields: Sequence[DataField]) -> FileFormat:
    """The format that the settings name, for a file with these columns; raises as ``storing_format``."""
    return FORMATS[storing_format(settings, fields).name]
