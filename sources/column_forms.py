"""The forms of a table's columns: how the source writes their values.

The JSON of a value is the same with and without an embedded schema. Only the schema shows its meaning: ``"MDk="`` is a
number or four characters. A table stores the form of each column in one option of its schema. So records without a
schema are read like earlier records with one, and a column never holds two forms of the same value.

A form is a short text. Only ``sources.values.form_texts`` knows the meaning of embedded schemas' forms.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from paimon_table.types import CHARACTERS, INTEGERS, TIMESTAMPS, DataType, Root
from sources.position_kinds import FORM_PREFIX, joined_kinds

OPTION = "tidemark.column-forms"
"""The table option that holds them, as a JSON object."""

RAW = "raw"
"""Records without a schema came first: text columns hold the JSON as the source wrote it, and continue to do so."""
VALUE = "value"
"""The schema gives the value no other meaning than JSON does."""
TEXT = "text"
"""The schema says that the value is a text: ``"1234"`` is not base64."""
SEVERAL = "several"
"""Embedded schemas have disagreed: a record without one cannot be read."""
TEXT_DECIMALS = "text decimals"
"""No schema says so, but many values of a DECIMAL column can only be text, and none only base64."""
BASE64_DECIMALS = "base64 decimals"
"""The same with text and base64 exchanged."""
EITHER_DECIMALS = "either decimals"
"""Values of both kinds came."""

_OF_VALUES = frozenset({TEXT_DECIMALS, BASE64_DECIMALS, EITHER_DECIMALS})
_PLAIN = frozenset({VALUE, TEXT})
_NUMBERS = (*INTEGERS, Root.FLOAT, Root.DOUBLE, Root.DECIMAL)
_TIMES = (Root.DATE, Root.TIME, *TIMESTAMPS)


@dataclass(frozen=True, slots=True)
class ColumnForms:
    """The forms of the columns of one table; the form of a missing column is unknown."""

    by_column: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parsed(cls, text: str | None) -> ColumnForms:
        """From the option; empty if the text is not a JSON object of lists of names."""
        try:
            found = json.loads(text or "{}")
        except ValueError:
            return cls()
        if not isinstance(found, dict) or not all(isinstance(names, list) for names in found.values()):
            return cls()
        return cls({str(name): form for form, names in found.items() for name in names})

    @property
    def text(self) -> str:
        """The value of the option: the columns of each form."""
        columns: dict[str, list[str]] = {}
        for name, form in self.by_column.items():
            columns.setdefault(form, []).append(name)
        return json.dumps(columns, ensure_ascii=False, separators=(",", ":"))

    def of(self, column: str) -> str | None:
        return self.by_column.get(column)

    def only(self, columns: Collection[str]) -> ColumnForms:
        """The forms of those columns: one that was dropped and comes again starts over."""
        return ColumnForms({name: form for name, form in self.by_column.items() if name in columns})

    def under(self, names: Mapping[str, str]) -> ColumnForms:
        """The forms of columns under other names, each with its name here."""
        known = ((name, self.by_column.get(here)) for name, here in names.items())
        return ColumnForms({name: form for name, form in known if form is not None})

    def renamed(self, names: Mapping[str, str]) -> ColumnForms:
        """The forms of columns that have other names now."""
        return ColumnForms({names.get(name, name): form for name, form in self.by_column.items()})

    def learnt(self, told: Mapping[str, str], columns: Mapping[str, DataType]) -> ColumnForms:
        """With what records show about ``columns``, which have their types in the table. Idempotent.

        A column changes in one direction only: from no known form to one form to several forms.
        """
        kept = dict(self.by_column)
        for name, form in told.items():
            known = joined_forms(kept.get(name), form)
            if name in columns and (name in kept or _matters(known, columns[name])):
                kept[name] = known
        return ColumnForms(kept)


def joined_forms(known: str | None, told: str) -> str:
    """The form of a column whose stored form is ``known``."""
    if known is None or known == told:
        return told
    if known.startswith(FORM_PREFIX) and told.startswith(FORM_PREFIX):
        return joined_kinds(known, told)
    if told in _OF_VALUES:
        if known in _OF_VALUES:
            return EITHER_DECIMALS
        return told if known in (RAW, VALUE) else known
    if known == RAW or told == RAW or (known in _PLAIN and told in _PLAIN):
        return known
    return told if known in _OF_VALUES else SEVERAL


def told_together(one: str | None, other: str | None) -> str | None:
    """The form that the records of one batch show; records with an embedded schema decide."""
    if one is None or other is None:
        return other if one is None else one
    return other if one == RAW else joined_forms(one, other)


def _matters(form: str, t: DataType) -> bool:
    """Whether values of the type can be taken for something else without the form."""
    if form == RAW:
        return holds(t, *CHARACTERS)
    if form == VALUE:
        return holds(t, *CHARACTERS, *_TIMES)
    return form != TEXT or holds(t, *CHARACTERS, *_NUMBERS)


def holds(t: DataType, *roots: Root) -> bool:
    """Whether values of one of these kinds are or lie in values of the type."""
    return t.root in roots or any(holds(part, *roots) for _, part in t.parts)
