"""Telling base64 decimals from text decimals where no schema says which.

A string of digits whose length is a multiple of four ("1234") may be either; the other values of the column in the
same batch tell. If none does, or if they disagree, such a value goes to quarantine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_table.types import Root
from sources.json_changes.change_rows import ChangeRows, image_column
from sources.json_changes.column_plan import Plan
from sources.values.base64_columns import text_of
from sources.values.encodings import AUTO
from sources.values.json_values import decimal_form
from sources.values.value_forms import ValueForms

_POINT_OR_MINUS = np.zeros(256, np.bool_)
_POINT_OR_MINUS[[ord("."), ord("-")]] = True
_NO_DIGIT = np.ones(256, np.bool_)
_NO_DIGIT[list(b"0123456789")] = False


def column_forms(pieces: Sequence[ChangeRows], plan: Plan, forms: ValueForms) -> list[ValueForms]:
    """The forms for each column of the plan, with ``decimal_format: auto`` settled as far as the values tell."""
    settled = []
    for column in plan:
        form = None
        if forms.decimal_format == "auto" and column.encoding == AUTO and column.type.root is Root.DECIMAL:
            told: set[str] = set()
            for piece in pieces:
                told |= _told_forms(image_column(piece.images, column.name))
            form = f"auto-{told.pop()}" if len(told) == 1 else None
        settled.append(forms if form is None else replace(forms, decimal_format=form))
    return settled


def _told_forms(values: pa.Array | list[Any]) -> set[str]:
    """The forms, of base64 and text, that some value can only have."""
    if isinstance(values, list):
        return {decimal_form(v) for v in values if isinstance(v, str)} - {"ambiguous"}
    if not pa.types.is_string(values.type) or values.null_count == len(values):
        return set()
    offsets, text = text_of(values.drop_null())
    lengths = np.diff(offsets)
    filled = lengths > 0
    starts = offsets[:-1][filled]
    by_length = (lengths[filled] % 4) != 0
    if not len(starts):
        return {"text"}
    is_text = by_length | np.logical_or.reduceat(_POINT_OR_MINUS[text], starts)
    is_base64 = ~is_text & np.logical_or.reduceat(_NO_DIGIT[text], starts)
    told = {"text"} if is_text.any() or not filled.all() else set()
    return told | ({"base64"} if is_base64.any() else set())
