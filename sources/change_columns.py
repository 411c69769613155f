"""The columns that change rows have in addition to source columns; no source column can have their names."""

from __future__ import annotations

from paimon_table.row_kind import VALUE_KIND

OFFSET_COLUMN = "_OFFSET"
"""Column of change rows: the offset of the record that they come from (int64); rows of one record share it."""

UNAVAILABLE_COLUMN = "_UNAVAILABLE"
"""Optional column of change rows: positions (list<int16>) of the columns whose value the source did not send."""

OTHER_KEY_COLUMN = "_OTHER_KEY"
"""Optional column of change rows: the other key of a change of the primary key, as JSON text of a list in primary key
order. A delete has the new key, the moved row has the old one. NULL everywhere else."""

WEAK_COLUMN = "_WEAK"
"""Column of change rows of a table that keeps versions: whether a row without a change leaves no trace, such as the
snapshot read of a stored row."""

ORDERED_COLUMN = "_ORDERED"
"""Optional column of change rows: whether a delete has its own sequence columns, because it is an update in the source.
Every other delete takes its place from the row that it meets."""

ABSENT_COLUMN = "_ABSENT"
"""Column of change rows with ``DecodeTarget.joined``: positions (list<int16>) of those columns that the record lacks. A
transform reads it and leaves it out."""

CHANGE_COLUMNS = frozenset(
    {VALUE_KIND, OFFSET_COLUMN, UNAVAILABLE_COLUMN, OTHER_KEY_COLUMN, WEAK_COLUMN, ORDERED_COLUMN, ABSENT_COLUMN}
)
"""All columns of change rows that are none of the source: no column of a source or table can have such a name."""
