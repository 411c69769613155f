"""The options of a table that matter to readers, so that tables of any writer can be read.

A reader needs the order and the merge of rows, the place of files, and the place of changes. Options of writers and
maintenance jobs, even unknown ones, are ignored; options that change the meaning of rows are refused.
"""

from __future__ import annotations

from paimon_table.errors import UnsupportedFeature
from paimon_table.options.field_options import is_field_option
from paimon_table.options.option_facts import ACTED_ON
from paimon_table.options.option_names import REFUSED, refusal_of
from paimon_table.options.option_parsing import parse_options
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.table_schema import TableSchema

_READ = frozenset(name for option in ACTED_ON if option.is_read for name in option.names)
_MISLEADING = frozenset(name for name, refusal in REFUSED.items() if refusal.misleads_readers)


def reading_options(schema: TableSchema) -> TableOptions:
    """The typed options for a reader; all others have their defaults, so a writer must not use them.

    Raises UnsupportedFeature if an option gives the rows a meaning that Tidemark does not support.
    """
    for name in sorted(_MISLEADING & schema.options.keys()):
        if refusal_of(name, schema.options[name]) is not None:
            raise UnsupportedFeature(
                f"the table has option {name!r} = {schema.options[name]!r}, so Tidemark would misread its rows; read "
                "it with Paimon's own readers",
                option=name,
            )
    kept = {name: value for name, value in schema.options.items() if name in _READ or is_field_option(name)}
    return parse_options(kept, schema)
