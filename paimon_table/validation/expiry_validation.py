"""Rules about rows that expire (``record-level.*``). What Java notices when it writes is refused with the schema."""

from __future__ import annotations

from paimon_table.errors import ConfigError
from paimon_table.options.names import RECORD_EXPIRE_TIME, RECORD_TIME_FIELD
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
