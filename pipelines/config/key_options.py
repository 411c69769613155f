"""Options about rows of one key, which an event log of a topic without keys does not get.

`defaults.options` states them for all tables of a pipeline, but tables with and without primary key take different
options.
"""

from __future__ import annotations

from collections.abc import Mapping

from paimon_table.options import names
from paimon_table.options.field_options import is_field_option
from paimon_table.options.option_facts import declaration
from paimon_table.schema.schema_options import BUCKET_KEY

_OF_KEYS = frozenset(
    {
        names.CHANGELOG_PRODUCER,
        names.FULL_COMPACTION_DELTA_COMMITS,
        names.MERGE_ENGINE,
        names.RECORD_EXPIRE_TIME,
        names.RECORD_TIME_FIELD,
        names.ROW_DEDUPLICATE_IGNORE_FIELDS,
        names.ROWKIND_FIELD,
        names.SEQUENCE_AUTO_PADDING,
        names.SEQUENCE_FIELD,
        names.SNAPSHOT_ORDERING,
        names.STREAMING_READ_OVERWRITE,
    }
)


def without_key_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that a table without primary key can have too."""
    return {name: value for name, value in options.items() if not _is_of_keys(name, options)}


def _is_of_keys(name: str, options: Mapping[str, str]) -> bool:
    if name == names.BUCKET:
        return options[name].strip() != "-1" and BUCKET_KEY.name not in options
    if name == BUCKET_KEY.name:
        return options.get(names.BUCKET, "-1").strip() == "-1"
    declared = declaration(name)
    return name in _OF_KEYS or is_field_option(name) or (declared is not None and declared.with_key is True)
