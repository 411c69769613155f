"""Whether deletion vectors may be turned on or off in a table that holds data."""

from __future__ import annotations

from paimon_table.errors import ConfigError
from paimon_table.option_declaration import OptionChange
from paimon_table.options.names import DELETION_VECTORS_MODIFIABLE


def only_when_modifiable(change: OptionChange) -> None:
    """A change is allowed only with the permission, because readers misread old files until a full compaction."""
    if (change.new or "false").lower() == (change.old or "false").lower():
        return
    if change.options.get(DELETION_VECTORS_MODIFIABLE, "false").lower() != "true":
        raise ConfigError(
            f"option {change.name!r} cannot change once the table holds data: turning deletion vectors on or "
            f"off without a full-compaction duplicates rows. Set {DELETION_VECTORS_MODIFIABLE!r} = true if a full "
            "compaction follows before anyone reads",
            option=change.name,
        )
