"""Rules about rows that expire (``record-level.*``), and deletes that stay (``tidemark.keep-deletes``).

What Java notices when it writes is refused with the schema.
"""

from __future__ import annotations

from paimon_table.errors import ConfigError
from paimon_table.options.names import KEEP_DELETES, RECORD_EXPIRE_TIME, RECORD_TIME_FIELD
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import TIMES_OF_ROWS


def check_expiry(schema: TableSchema, options: TableOptions) -> None:
    """The column with the time has to be there and to be one."""
    if options.record_expire_time_ms is None:
        return
    name = options.record_time_field
    if not name:
        raise ConfigError(
            f"option {RECORD_EXPIRE_TIME!r} needs {RECORD_TIME_FIELD!r}, the column with the time of a row; name it",
            option=RECORD_EXPIRE_TIME,
        )
    if not schema.has_column(name):
        raise ConfigError(
            f"option {RECORD_TIME_FIELD!r}: can not find time field {name!r}; columns are: "
            f"{', '.join(schema.column_names)}",
            option=RECORD_TIME_FIELD,
        )
    field = schema.field(name)
    if field.type.root not in TIMES_OF_ROWS:
        raise ConfigError(
            f"option {RECORD_TIME_FIELD!r}: column {name!r} should be one of INT, BIGINT, or TIMESTAMP, but is "
            f"{field.type}; name another column",
            option=RECORD_TIME_FIELD,
        )


def check_kept_deletes(options: TableOptions) -> None:
    """Deletes stay only if every reader skips them, and if one row decides for its key."""
    if options.keep_deletes_ms is None:
        return
    wrong = None
    if options.merge_engine != "deduplicate":
        wrong = f"needs 'merge-engine' = deduplicate, not {options.merge_engine}"
    elif options.deletion_vectors:
        wrong = "and 'deletion-vectors.enabled' exclude each other: readers would have to merge after all"
    elif options.is_postponed:
        wrong = "needs another 'bucket' than -2, whose rows wait for a compaction job"
    if wrong is not None:
        raise ConfigError(f"option {KEEP_DELETES!r} {wrong}; remove one of the two", option=KEEP_DELETES)
