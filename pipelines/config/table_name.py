"""Which names no Paimon table can have: the same rule for the file and for names that arrive."""

from __future__ import annotations

import unicodedata

from paimon_table import TableName
from paimon_table.catalog.table_name import DATABASE_SUFFIX

_MAX_BYTES = 255
"""Of the name of a directory."""
_SYSTEM_DATABASE = "sys"
_SYSTEM_TABLE = "$"
"""The separator between a table and its branch or system table: ``orders$snapshots``, ``orders$branch_test``."""

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories: control and format characters (which can turn the direction of writing), lone surrogates."""


def name_problem(name: TableName) -> str | None:
    """Why no table can have this name; None if one can."""
    if name.database == _SYSTEM_DATABASE:
        return f"database {_SYSTEM_DATABASE} is reserved for Paimon's system tables; choose another name"
    wrong = _problem("database", name.database, DATABASE_SUFFIX) or _problem("table", name.table, "")
    if wrong is None and "." in name.database:
        return (
            f"database '{name.database}' contains a dot, but the first dot of DATABASE.TABLE ends the database "
            "name; choose another name before the first dot of `into`"
        )
    return wrong


def folded(name: str) -> str:
    """The same for names that some storage takes for one: that ignores case, or the form of composed characters."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def alike_text(name: str, other: str) -> str:
    """Why two names that are ``folded`` to one are better not both used; characters that look alike are written out."""
    shown, shown_other = (ascii(one) if folded(one) != one.casefold() else f"'{one}'" for one in (name, other))
    return (
        f"{shown} differs from {shown_other} only in case or in how its characters are composed. They are two "
        "tables, but share one directory if the storage does not distinguish the names (macOS, Windows, some "
        "network drives): use the same spelling"
    )


def _problem(kind: str, name: str, suffix: str) -> str | None:
    shown = ascii(name if len(name) <= 80 else f"{name[:77]}...") if not name.isprintable() else f"'{name:.80}'"
    if not name.strip() or name in {".", ".."}:
        return f"{kind} {shown} is not a name"
    if name != name.strip():
        return f"{kind} {shown} begins or ends with blanks"
    if "/" in name or "\\" in name:
        return f"{kind} {shown} has a slash, which separates directories"
    if _SYSTEM_TABLE in name:
        return f"{kind} {shown} has a $, which Paimon uses in the names of branches and system tables"
    invisible = next((c for c in name if unicodedata.category(c) in _INVISIBLE), None)
    if invisible is not None:
        return f"{kind} {shown} has the invisible character U+{ord(invisible):04X}"
    size = len(name.encode()) + len(suffix)
    if size > _MAX_BYTES:
        return f"{kind} {shown} is too long: its directory would have a name of {size} bytes, at most {_MAX_BYTES} work"
    return None
