"""Names that people give to the tags, branches and consumers of a table."""

from __future__ import annotations

from paimon_table.errors import ConfigError

_LONGEST_BYTES = 200
"""With the prefix and what a temporary file has around it below the limit of file systems."""


def check_name(kind: str, name: str) -> None:
    """Refuse a name that cannot be part of one file name (ConfigError)."""
    if not name.strip():
        wrong = "is blank"
    elif "/" in name or "\\" in name or not name.isprintable():
        wrong = "has characters that file names do not have (slashes, control characters)"
    elif len(name.encode()) > _LONGEST_BYTES:
        wrong = f"is longer than {_LONGEST_BYTES} bytes"
    else:
        return
    raise ConfigError(f"{kind} {name[:40]!r} {wrong}; choose another name")


def check_branch_name(name: str) -> None:
    """Refuse what Paimon takes for no branch: the main one, and numbers."""
    check_name("branch", name)
    if name == "main" or name.isdigit():
        raise ConfigError(
            f"branch {name!r}: 'main' is the table itself and numbers cannot name branches; choose another name"
        )
