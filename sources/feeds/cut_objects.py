"""Cutting an object that most texts repeat out of them, so that it is parsed once and not with every record.

    {"database":"shop",...,"mysqlType":{"id":"bigint(20)",...},"data":[...]}

``,"mysqlType":{`` never stands inside a JSON string without a backslash. The cut part ends at the next brace and must
be a JSON object itself. Then the rest is a JSON object exactly if the whole text is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from sources.json_changes.exact_parse import parse_json
from sources.json_changes.text_parts import slices

NOT_CUT = -1


@dataclass(frozen=True, slots=True)
class CutTexts:
    """Texts without the object, the distinct objects, and which object each text had; ``NOT_CUT`` for unchanged
    texts.
    """

    texts: pa.Array
    objects: tuple[Mapping[str, Any], ...]
    object_of: npt.NDArray[np.int64]


def cut_object(texts: pa.Array, name: str) -> CutTexts:
    """Cut the object ``name`` out of binary texts that have it once and after another member."""
    mark = f',"{name}":{{'.encode()
    object_of = np.full(len(texts), NOT_CUT, np.int64)
    if not texts.get_total_buffer_size():
        return CutTexts(texts, (), object_of)
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    starts = _places(texts.buffers()[2], mark)
    found = np.searchsorted(offsets, starts, side="right") - 1
    lone = (found >= 0) & (found < len(texts)) & (np.diff(found, append=-1) != 0) & (np.diff(found, prepend=-1) != 0)
    found, starts = found[lone], starts[lone]
    if not len(found):
        return CutTexts(texts, (), object_of)
    braces = np.flatnonzero(data[offsets[0] : offsets[-1]] == ord("}")) + offsets[0]
    nth = np.minimum(np.searchsorted(braces, starts), max(len(braces) - 1, 0))
    ends = (braces[nth] if len(braces) else starts) + 1
    inside = (ends > starts) & (ends < offsets[1:][found])
    found, starts, ends = found[inside], starts[inside], ends[inside]
    if not len(found):
        return CutTexts(texts, (), object_of)
    pieces = slices(texts, data, starts + len(mark) - 1, ends).dictionary_encode()
    parsed = [_object(piece) for piece in pieces.dictionary.to_pylist()]
    is_good = np.array([value is not None for value in parsed], np.bool_)
    codes = np.asarray(pieces.indices).astype(np.int64)
    good = is_good[codes]
    found, starts, ends, codes = found[good], starts[good], ends[good], codes[good]
    object_of[found] = codes
    firsts, lasts = offsets[:-1].copy(), offsets[1:].copy()
    cut_starts, cut_ends = lasts.copy(), lasts.copy()
    cut_starts[found], cut_ends[found] = starts, ends
    left = slices(texts, data, firsts, cut_starts)
    right = slices(texts, data, cut_ends, lasts)
    return CutTexts(pc.binary_join_element_wise(left, right, b""), tuple(v or {} for v in parsed), object_of)


def _places(buffer: pa.Buffer, mark: bytes) -> npt.NDArray[np.int64]:
    """Where the mark begins in a buffer of texts; it does not overlap itself."""
    data = buffer.to_pybytes()
    places = []
    place = data.find(mark)
    while place >= 0:
        places.append(place)
        place = data.find(mark, place + len(mark))
    return np.array(places, np.int64)


def _object(piece: bytes) -> Mapping[str, Any] | None:
    try:
        value = parse_json(piece)
    except MalformedRecord:
        return None
    return value if isinstance(value, dict) else None
