"""The options of a table as far as they matter for reading it, so that tables of any writer can be read.

A reader needs the order and the merge of rows, the place of files and where changes are kept. Options of writers and
maintenance jobs, also unknown ones, are passed over; those that give rows another meaning are refused.
"""

from __future__ import annotations

from paimon_table.errors import UnsupportedFeature
from paimon_table.options.field_options import is_field_option
from paimon_table.options.option_names import refusal_of
from paimon_table.options.table_options import TableOptions, parse_options
from paimon_table.schema.table_schema import TableSchema

_READ = frozenset({
    "bucket", "bucket-key", "bucket-function.type", "merge-engine", "sequence.field", "sequence.field.sort-order",
    "sequence.auto-padding", "sequence.snapshot-ordering",
    "ignore-delete", "deduplicate.ignore-delete", "first-row.ignore-delete", "partial-update.ignore-delete",
    "aggregation.remove-record-on-delete", "partial-update.remove-record-on-delete",
    "partial-update.remove-record-on-sequence-group", "changelog-producer", "force-lookup", "partition.default-name",
    "partition.legacy-name", "primary-key.nullable", "file-index.read.enabled", "deletion-vectors.enabled",
    "deletion-vectors.merge-on-read",
})  # fmt: skip

_CHANGES_MEANING = frozenset({
    "index-file-in-data-file-dir", "record-level.expire-time",
    "data-file.path-directory", "pk-clustering-override", "chain-table.enabled", "row-tracking.enabled",
    "data-evolution.enabled", "object-location", "format-table.implementation", "blob-field",
})  # fmt: skip


def reading_options(schema: TableSchema) -> TableOptions:
    """The typed options for a reader; all others have their defaults, so a writer must not use them.

    Raises UnsupportedFeature when an option gives the rows a meaning that Tidemark does not know.
    """
    for name in sorted(_CHANGES_MEANING & schema.options.keys()):
        if refusal_of(name, schema.options[name]) is not None:
            raise UnsupportedFeature(
                f"the table has option {name!r} = {schema.options[name]!r}, with which Tidemark would read it wrongly; "
                "read it with Paimon's own readers"
            )
    kept = {name: value for name, value in schema.options.items() if name in _READ or is_field_option(name)}
    return parse_options(kept, schema)
