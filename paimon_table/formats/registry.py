"""The formats of data files that Tidemark writes and reads."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_table.errors import UnsupportedFeature
from paimon_table.formats.avro.file import AVRO
from paimon_table.formats.file_format import FileFormat
from paimon_table.formats.orc.file import ORC
from paimon_table.formats.parquet.file import PARQUET
from paimon_table.options.file_settings import FileSettings

FORMATS: Mapping[str, FileFormat] = {known.name: known for known in (PARQUET, ORC, AVRO)}


def format_for(settings: FileSettings) -> FileFormat:
    """The format that the settings name; UnsupportedFeature for a format or compression that Tidemark does not have."""
    known = FORMATS.get(settings.format)
    if known is None:
        raise UnsupportedFeature(
            f"option {settings.format_option!r}: {settings.format!r} is not supported; supported: {', '.join(FORMATS)}",
            option=settings.format_option,
        )
    if settings.compression not in known.codecs:
        raise UnsupportedFeature(
            f"option {settings.compression_option!r}: {settings.compression!r} is not supported for {known.name} "
            f"files; supported: {', '.join(known.codecs)}",
            option=settings.compression_option,
        )
    return known
