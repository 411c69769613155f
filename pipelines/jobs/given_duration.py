"""Durations on the command line: with a unit, as everywhere in the documentation."""

from __future__ import annotations

from paimon_table.errors import ConfigError
from paimon_table.option_values import duration_ms


def given_duration_ms(option: str, text: str) -> int:
    """Milliseconds of a duration such as ``12h``. Raises ConfigError that names ``option``.

    A number without a unit is refused. Table options would take it as milliseconds, and ``--retained 30`` would create
    a tag that expires at once.
    """
    bare = text.strip()
    if bare.isascii() and bare.isdecimal():
        units = ", ".join(f"{bare[:20]}{unit}" for unit in ("d", "h", "min"))
        raise ConfigError(f"{option}: {text!r} has no unit; write for example {units}")
    try:
        return duration_ms(option, text)
    except ConfigError as error:
        raise ConfigError(str(error).replace(f"option {option!r}", option)) from None
