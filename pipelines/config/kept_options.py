"""Table options that are only stored: what a file that states them should know, and which names it may mean.

The table engine stores every name of these families for others, whatever follows the prefix. The author of a pipeline
file means a name that exists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from paimon_table.nearest_name import SURE, nearest
from paimon_table.options.names import KEEP_DELETES, SEQUENCE_FIELD
from paimon_table.options.option_facts import is_typed, known_names
from paimon_table.options.option_names import (
    HONOURED,
    KEPT_PREFIXES,
    OWN_PREFIX,
    READER_PREFIXES,
    REFUSED,
    is_kept_for_others,
)
from pipelines.config.kept_values import PARSERS, without_column

_NOT_HERE = (
    (("snapshot.watermark",), "`watermark.idle` of the rule decides when a partition is idle"),
    (("tag.batch",), "Tidemark creates tags for periods of time"),
    (("partition.",), "partitions are not marked"),
    (("parquet.", "orc.", "avro."), "files are written with file.compression and the settings of the table"),
)
"""The requests of these options that Tidemark does not fulfil."""


def misspelt_options(stated: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yields (option, problem) for names under a kept prefix that are almost equal to a known name.

    A file must not set options in which a pipeline stores its own facts.
    """
    for name in stated:
        if name == KEEP_DELETES:
            yield (
                name,
                f"option '{name}' needs a '{SEQUENCE_FIELD}'; with `order_by`, write it as `{{source_position:"
                " {keep_deletes: TIME}}`",
            )
        elif name.startswith(OWN_PREFIX):
            yield name, f"option '{name}' belongs to Tidemark, which stores facts about the table in it; remove it"
    for name in _unknown(stated):
        meant = _meant(name)
        if meant is not None:
            yield name, f"option '{name}' is unknown; did you mean '{meant}'?"


def options_for_others(stated: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yields (option, note) for options that Tidemark stores and does not act on."""
    unknown = set(_unknown(stated))
    for name in stated:
        if name.startswith(OWN_PREFIX):
            continue
        if name in unknown:
            if _meant(name) is None:
                yield name, f"option '{name}' is not known here; Tidemark stores it in the table for other programs"
        elif is_stored_for_others(name) and name not in HONOURED and not name.startswith(READER_PREFIXES):
            reason = next((text for prefixes, text in _NOT_HERE if name.startswith(prefixes)), "")
            about = f" ({reason})" if reason else ""
            yield (
                name,
                f"option '{name}' has no effect on what Tidemark writes{about}; Tidemark stores it for other writers",
            )


def is_stored_for_others(name: str) -> bool:
    """Whether Tidemark stores the option and does not act on it."""
    return is_kept_for_others(name) and not is_typed(name) and name not in REFUSED


def _unknown(stated: Collection[str]) -> Iterator[str]:
    for name in stated:
        if name.startswith(KEPT_PREFIXES) and without_column(name) not in PARSERS and name not in known_names():
            yield name


def _meant(name: str) -> str | None:
    """The option that a name is a misspelling of; one of a newer version looks like none."""
    return nearest(name, {*PARSERS, *known_names()}, at_least=SURE)
