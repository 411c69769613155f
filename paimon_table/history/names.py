"""Names that users give to the tags, branches and consumers of a table."""

from __future__ import annotations

from paimon_table.errors import ConfigError

_LONGEST_BYTES = 200
"""The longest name. With the prefix and the additions of a temporary file it stays below the limit of file systems."""


def check_name(kind: str, name: str) -> None:
    """Raises ConfigError for a name that cannot be part of a file name."""
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
    """Raises ConfigError for names that Paimon does not accept for a branch: 'main' and numbers."""
    check_name("branch", name)
    if name == "main" or name.isdigit():
        raise ConfigError(
            f"branch {name!r}: 'main' is the table itself and numbers cannot name branches; choose another name"
        )
