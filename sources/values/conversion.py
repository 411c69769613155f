"""Vectorised conversion of JSON columns into the Arrow arrays of Paimon types.

Each rule converts the plain values of a column at once and names the entries that it is not sure of.
``scalar_conversion``, which defines the meaning, decides those one by one. Columns without a vectorised rule are in
doubt entirely.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.types import BINARIES, CHARACTERS, INTEGERS, MAX_LENGTH, TIMESTAMPS, DataType, Root, arrow_type
from sources.values.base64_columns import (
    LARGEST_DECIMAL_BYTES,
    DecodedBase64,
    binary_array,
    decode_base64,
    text_of,
    unscaled_decimals,
)
from sources.values.decimal_kinds import DecimalKinds, decimal_kinds
from sources.values.encodings import AUTO, Encoding, Kind
from sources.values.json_values import Unconvertible
from sources.values.scalar_conversion import EXTREMES, INFINITE_MILLIS, REAL_DAYS, convert_value, epoch_unit
from sources.values.stored_arrays import stored_array
from sources.values.stored_values import INTEGER_BITS, UNITS
from sources.values.value_forms import ValueForms

Mask = npt.NDArray[np.bool_]
_UNIT_DIGITS = {1000: 3, 1_000_000: 6, 1_000_000_000: 9}
_MS_PER_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class Converted:
    """An array of the target's Arrow type, and why some of its entries (NULL there) could not be converted."""

    values: pa.Array
    problems: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Plain:
    """Result of a vectorised rule: right except where ``doubt`` is true."""

    values: pa.Array
    doubt: Mask | None = None


def convert_column(array: pa.Array, encoding: Encoding, target: DataType, forms: ValueForms) -> Converted:
    """Convert one column of parsed JSON values to ``arrow_type(target)``."""
    if encoding.kind is Kind.TEXT:
        encoding, forms = AUTO, forms.of_texts
    if pa.types.is_null(array.type):
        return Converted(pa.nulls(len(array), arrow_type(target)))
    if pa.types.is_list(array.type) and target.root is Root.ARRAY:
        return _convert_lists(array, encoding.element or AUTO, target, forms)
    plain = _convert_plain(array, encoding, target, forms)
    if plain is None:
        return _decide(None, np.flatnonzero(array.is_valid()), array, encoding, target, forms)
    if plain.doubt is None or not plain.doubt.any():
        return Converted(plain.values)
    return _decide(plain.values, np.flatnonzero(plain.doubt), array, encoding, target, forms)


def convert_values(values: list[Any], encoding: Encoding, target: DataType, forms: ValueForms) -> Converted:
    """Convert JSON values one by one; the exact path."""
    stored: list[Any] = []
    problems: dict[int, str] = {}
    for position, value in enumerate(values):
        try:
            stored.append(convert_value(value, encoding, target, forms))
        except Unconvertible as error:
            stored.append(None)
            problems[position] = str(error)
    return Converted(stored_array(stored, target), problems)


def _decide(
    values: pa.Array | None,
    doubtful: npt.NDArray[np.intp],
    array: pa.Array,
    encoding: Encoding,
    target: DataType,
    forms: ValueForms,
) -> Converted:
    """Put the exact conversions of the doubtful entries into ``values`` (all NULL if None)."""
    doubted = array.take(pa.array(doubtful)).to_pylist(maps_as_pydicts="lossy")
    decided = convert_values(doubted, encoding, target, forms)
    kept = pa.nulls(len(array), arrow_type(target)) if values is None else values
    index = np.arange(len(array))
    index[doubtful] = len(array) + np.arange(len(doubtful))
    merged = pa.concat_arrays([kept, decided.values]).take(pa.array(index))
    return Converted(merged, {int(doubtful[i]): reason for i, reason in decided.problems.items()})


def _convert_plain(array: pa.Array, encoding: Encoding, target: DataType, forms: ValueForms) -> _Plain | None:
    kind = array.type
    if pa.types.is_boolean(kind):
        return _Plain(array) if target.root is Root.BOOLEAN and encoding.kind is Kind.AUTO else None
    if pa.types.is_integer(kind):
        return _from_integers(array, encoding, target, forms)
    if pa.types.is_floating(kind) and encoding.kind is Kind.AUTO:
        return _from_floats(array, target)
    if pa.types.is_string(kind):
        return _from_strings(array, encoding, target, forms)
    if pa.types.is_binary(kind):
        return _from_binaries(array, encoding, target)
    if pa.types.is_decimal(kind) and target.root is Root.DECIMAL and encoding.kind in (Kind.AUTO, Kind.DECIMAL):
        values = _rescaled(array, target)
        return None if values is None else _Plain(values)
    return None


def _rescaled(numbers: pa.Array, target: DataType) -> pa.Array | None:
    """Decimals (or texts of less than 38 digits) in the target's precision and scale; None if one does not fit.

    Arrow does not notice every overflow of 128 bits when it changes the scale, hence the way through 256 bits.
    """
    try:
        return numbers.cast(pa.decimal256(76, target.scale or 0)).cast(arrow_type(target))
    except pa.ArrowInvalid:
        return None


# ---------------------------------------------------------------- numbers


def _numbers(array: pa.Array) -> tuple[npt.NDArray[Any], Mask]:
    """The numbers with 0 for NULL, and which are not NULL."""
    valid = np.asarray(array.is_valid())
    return np.asarray(array if array.null_count == 0 else array.fill_null(0)), valid


def _from_integers(array: pa.Array, encoding: Encoding, target: DataType, forms: ValueForms) -> _Plain | None:
    root = target.root
    if encoding.kind is Kind.UNSIGNED:
        return _from_unsigned(array, target, forms)
    if root in INTEGERS and encoding.kind in (Kind.AUTO, Kind.DATE, Kind.TIME, Kind.TIMESTAMP):
        return _to_integers(array, target)
    if encoding.kind is Kind.DATE or (encoding.kind is Kind.AUTO and root is Root.DATE):
        return _to_dates(array) if root is Root.DATE else None
    if encoding.kind in (Kind.TIME, Kind.AUTO) and root is Root.TIME:
        return _to_times(array, encoding.unit or epoch_unit(target, forms))
    if encoding.kind in (Kind.TIMESTAMP, Kind.AUTO) and root in TIMESTAMPS:
        return _to_timestamps(array, encoding.unit or epoch_unit(target, forms), target, forms)
    if encoding.kind not in (Kind.AUTO, Kind.DECIMAL):
        return None
    if root is Root.DECIMAL:
        return _to_decimals(array, target)
    if root in (Root.FLOAT, Root.DOUBLE) and encoding.kind is Kind.AUTO:
        return _from_floats(array.cast(pa.float64(), safe=False), target)
    if root is Root.VARCHAR and target.length == MAX_LENGTH and encoding.kind is Kind.AUTO:
        return _Plain(array.cast(pa.string()))
    return None


def _from_unsigned(array: pa.Array, target: DataType, forms: ValueForms) -> _Plain | None:
    """As signed numbers, except those with the first bit set, which are doubtful."""
    plain = _from_integers(array, AUTO, target, forms)
    if plain is None:
        return None
    numbers, _ = _numbers(array)
    wrapped = numbers < 0
    return _Plain(plain.values, wrapped if plain.doubt is None else wrapped | plain.doubt)


def _to_integers(array: pa.Array, target: DataType) -> _Plain:
    bits = INTEGER_BITS[target.root]
    if bits == 64:
        return _Plain(array)
    numbers, _ = _numbers(array)
    limit = 1 << (bits - 1)
    return _Plain(array.cast(arrow_type(target), safe=False), (numbers >= limit) | (numbers < -limit))


def _to_dates(array: pa.Array) -> _Plain:
    numbers, _ = _numbers(array)
    doubt = (numbers < REAL_DAYS[0]) | (numbers > REAL_DAYS[1])
    return _Plain(array.cast(pa.int32(), safe=False).view(pa.date32()), doubt)


def _to_times(array: pa.Array, unit: int) -> _Plain:
    numbers, valid = _numbers(array)
    parts = unit // 1000
    millis = numbers // parts
    doubt = valid & ((millis < 0) | (millis >= _MS_PER_DAY) | (numbers % parts != 0))
    times = pa.array(np.where(doubt, 0, millis).astype(np.int32), mask=~valid)
    return _Plain(times.view(pa.time32("ms")), doubt)


def _to_timestamps(array: pa.Array, unit: int, target: DataType, forms: ValueForms) -> _Plain:
    stored = arrow_type(target)
    numbers, valid = _numbers(array)
    doubt = np.zeros(len(numbers), np.bool_)
    finer = _UNIT_DIGITS[unit] - (target.precision or 0)
    if finer > 0:
        doubt |= numbers % 10**finer != 0
    parts = UNITS[stored.unit]
    if forms.infinity != "extreme" or parts != unit or unit == UNITS["ms"]:
        doubt |= (numbers == EXTREMES[0]) | (numbers == EXTREMES[1])
    if unit == UNITS["ms"]:
        doubt |= (numbers == INFINITE_MILLIS[0]) | (numbers == INFINITE_MILLIS[1])
    if parts == unit:
        return _Plain(array.view(stored), doubt & valid)
    if parts < unit:
        scaled = numbers // (unit // parts)
    else:
        factor = parts // unit
        largest = EXTREMES[1] // factor
        doubt |= (numbers > largest) | (numbers < -largest)
        scaled = np.where(doubt, 0, numbers) * factor
    return _Plain(pa.array(scaled, mask=~valid).view(stored), doubt & valid)


def _to_decimals(array: pa.Array, target: DataType) -> _Plain | None:
    precision, scale = target.precision or 0, target.scale or 0
    if scale > 19:
        return None
    numbers, valid = _numbers(array)
    doubt = np.zeros(len(numbers), np.bool_)
    if precision - scale < 19:
        limit = 10 ** (precision - scale)
        doubt = valid & ((numbers >= limit) | (numbers <= -limit))
        numbers = np.where(doubt, 0, numbers)
    wide = pa.array(numbers, mask=~valid).cast(pa.decimal128(19 + scale, scale))
    return _Plain(wide.cast(arrow_type(target)), doubt)


def _from_floats(array: pa.Array, target: DataType) -> _Plain | None:
    if target.root is Root.DOUBLE:
        return _Plain(array)
    if target.root is not Root.FLOAT:
        return None
    narrow = array.cast(pa.float32(), safe=False)
    numbers, valid = _numbers(array)
    overflow = np.isinf(np.asarray(narrow.fill_null(0))) & ~np.isinf(numbers)
    return _Plain(narrow, overflow & valid)


# ---------------------------------------------------------------- strings


def _from_strings(array: pa.Array, encoding: Encoding, target: DataType, forms: ValueForms) -> _Plain | None:
    root = target.root
    if root in CHARACTERS and encoding.kind is Kind.AUTO:
        if target.length == MAX_LENGTH:
            return _Plain(array)
        return _Plain(array, np.asarray(pc.fill_null(pc.greater(pc.utf8_length(array), target.length), False)))
    is_formatted = encoding.kind in (Kind.AUTO, Kind.FORMATTED)
    is_base64 = encoding.kind is Kind.BYTES or (is_formatted and forms.binary_format == "base64")
    if root in BINARIES and is_base64:
        return _to_bytes(array, target)
    if root is Root.BOOLEAN and encoding.kind is Kind.AUTO:
        is_true, is_false = pc.equal(array, "true"), pc.equal(array, "false")
        return _Plain(is_true, ~np.asarray(pc.fill_null(pc.or_(is_true, is_false), True)))
    if encoding.kind is Kind.LATIN1:
        return _characters_to_bytes(array, target) if root in BINARIES else None
    if encoding.kind is Kind.AUTO and (root in INTEGERS or root in (Root.FLOAT, Root.DOUBLE)):
        return _text_numbers(array, target)
    if root is Root.DECIMAL:
        if encoding.kind is Kind.DECIMAL:
            return _base64_decimals(array, encoding.scale, target)
        if encoding.kind is Kind.AUTO and forms.decimal_format == "base64":
            return _base64_decimals(array, target.scale or 0, target)
        if encoding.kind is Kind.AUTO and forms.decimal_format == "text":
            return _text_decimals(array, target)
        if encoding.kind is Kind.AUTO:
            return _told_decimals(array, target, is_of_texts=forms.decimal_format == "auto-text")
    if encoding.kind is Kind.AUTO and root in TIMESTAMPS:
        return _iso_timestamps(array, target)
    if encoding.kind is Kind.AUTO and root is Root.DATE:
        return _iso_dates(array)
    return None


def _iso_dates(array: pa.Array) -> _Plain | None:
    try:
        return _Plain(array.cast(pa.date32()))
    except pa.ArrowInvalid:
        return None


_INTEGER_TEXT = r"^-?\d{1,18}$"
_NUMBER_TEXT = r"^-?\d{1,20}(\.\d{1,20})?([eE][+-]?\d{1,2})?$"


def _text_numbers(array: pa.Array, target: DataType) -> _Plain | None:
    """Integers and fractions in plain notation; long ones and words are in doubt."""
    is_integer = target.root in INTEGERS
    pattern = _INTEGER_TEXT if is_integer else _NUMBER_TEXT
    doubt = ~np.asarray(pc.fill_null(pc.match_substring_regex(array, pattern), True))
    numbers = _hidden(array, doubt).cast(pa.int64() if is_integer else pa.float64())
    plain = _to_integers(numbers, target) if is_integer else _from_floats(numbers, target)
    if plain is None:
        return None
    return _Plain(plain.values, doubt if plain.doubt is None else doubt | plain.doubt)


def _text_decimals(array: pa.Array, target: DataType) -> _Plain | None:
    """Plain notation of moderate length; exponents, long texts and possible base64 are in doubt."""
    unusual = pc.or_(pc.greater(pc.utf8_length(array), 30), pc.match_substring_regex(array, "[A-Za-z+/=]"))
    doubt = np.asarray(pc.fill_null(unusual, False))
    if doubt.any():
        array = _hidden(array, doubt)
    values = _rescaled(array, target)
    return None if values is None else _Plain(values, doubt)


def _told_decimals(array: pa.Array, target: DataType, is_of_texts: bool) -> _Plain | None:
    """Decides the values that can only be text or only base64; the rest is doubtful.

    In a column of texts base64 is doubtful too.
    """
    kinds = decimal_kinds(array)
    if is_of_texts:
        kinds = replace(kinds, base64=np.zeros(len(array), np.bool_))
    if not kinds.base64.any():
        plain = _text_decimals(_hidden(array, ~kinds.text), target)
    elif not kinds.text.any():
        plain = _base64_decimals(_hidden(array, ~kinds.base64), target.scale or 0, target)
    else:
        return _both_decimals(array, kinds, target)
    if plain is None:
        return None
    doubt = np.asarray(array.is_valid()) & ~(kinds.text | kinds.base64)
    return _Plain(plain.values, doubt if plain.doubt is None else doubt | plain.doubt)


def _both_decimals(array: pa.Array, kinds: DecimalKinds, target: DataType) -> _Plain | None:
    texts = _text_decimals(_hidden(array, ~kinds.text), target)
    others = _base64_decimals(_hidden(array, ~kinds.base64), target.scale or 0, target)
    if texts is None or others is None:
        return None
    values = pc.if_else(pa.array(kinds.text), texts.values, others.values)
    doubt = np.asarray(array.is_valid()) & ~(kinds.text | kinds.base64)
    for part in (texts, others):
        doubt = doubt if part.doubt is None else doubt | part.doubt
    return _Plain(values, doubt)


def _hidden(array: pa.Array, hidden: Mask) -> pa.Array:
    """The array with NULL for some entries."""
    return pc.if_else(pa.array(hidden), pa.scalar(None, array.type), array) if hidden.any() else array


def _to_bytes(array: pa.Array, target: DataType) -> _Plain:
    decoded = decode_base64(array)
    doubt = decoded.malformed
    if target.length != MAX_LENGTH:
        doubt = doubt | (decoded.lengths > (target.length or 0))
    return _Plain(binary_array(decoded, array.is_valid()), doubt)


def _characters_to_bytes(array: pa.Array, target: DataType) -> _Plain:
    """One byte of each character: the last byte of its UTF-8 form, with the bits that the first one has."""
    offsets, text = text_of(array)
    heads = text >= 0xC0
    doubt = np.zeros(len(array), np.bool_)
    high = np.flatnonzero(text > 0xC3)
    if len(high):
        doubt[np.searchsorted(offsets, high, side="right") - 1] = True
    data = text.copy()
    data[1:][heads[:-1]] |= (text[:-1][heads[:-1]] & 3) << 6
    ends = np.concatenate(([0], np.cumsum(~heads)))
    stored = ends[offsets].astype(np.int32)
    buffers = [None, pa.py_buffer(stored), pa.py_buffer(data[~heads])]
    values = pa.Array.from_buffers(pa.binary(), len(array), buffers)
    if array.null_count:
        values = pc.if_else(array.is_valid(), values, pa.scalar(None, pa.binary()))
    if target.length != MAX_LENGTH:
        doubt |= np.diff(stored) > (target.length or 0)
    return _Plain(values, doubt & np.asarray(array.is_valid()))


def _base64_decimals(array: pa.Array, scale: int, target: DataType) -> _Plain | None:
    if not 0 <= scale <= (target.scale or 0):
        return None
    return _plain_decimals(decode_base64(array), array.is_valid(), scale, target)


def _plain_decimals(decoded: DecodedBase64, valid: pa.Array, scale: int, target: DataType) -> _Plain | None:
    """Unscaled values of moderate length."""
    out_of_reach = (decoded.lengths == 0) | (decoded.lengths > LARGEST_DECIMAL_BYTES)
    doubt = np.asarray(valid) & (decoded.malformed | out_of_reach)
    numbers = unscaled_decimals(decoded, valid, scale)
    if doubt.any():
        numbers = pc.if_else(pa.array(doubt), pa.scalar(None, numbers.type), numbers)
    values = _rescaled(numbers, target)
    return None if values is None else _Plain(values, doubt)


_LTZ_TEXT = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,%d})?Z$"
_LOCAL_TEXT = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,%d})?$"


def _iso_timestamps(array: pa.Array, target: DataType) -> _Plain | None:
    stored = arrow_type(target)
    doubt = np.zeros(len(array), np.bool_)
    try:
        values = array.cast(stored)
    except pa.ArrowInvalid:
        digits = _UNIT_DIGITS[UNITS[stored.unit]]
        pattern = (_LTZ_TEXT if stored.tz else _LOCAL_TEXT) % digits
        usual = pc.fill_null(pc.match_substring_regex(array, pattern), True)
        try:
            values = pc.if_else(usual, array, pa.scalar(None, pa.string())).cast(stored)
        except pa.ArrowInvalid:
            return None
        doubt = ~np.asarray(usual)
    finer = _UNIT_DIGITS[UNITS[stored.unit]] - (target.precision or 0)
    if finer > 0:
        numbers, _ = _numbers(values.view(pa.int64()))
        doubt = doubt | (numbers % 10**finer != 0)
    return _Plain(values, doubt)


# ---------------------------------------------------------------- bytes


def _from_binaries(array: pa.Array, encoding: Encoding, target: DataType) -> _Plain | None:
    """Bytes of binary formats: the value itself, or the unscaled value of a decimal."""
    if target.root in BINARIES and encoding.kind in (Kind.AUTO, Kind.BYTES):
        lengths = np.asarray(pc.fill_null(pc.binary_length(array), 0))
        return _Plain(array, lengths > (target.length or 0))
    scale = encoding.scale
    if target.root is not Root.DECIMAL or encoding.kind is not Kind.DECIMAL or not 0 <= scale <= (target.scale or 0):
        return None
    offsets, data = text_of(array)
    lengths = np.diff(offsets)
    decoded = DecodedBase64(data, offsets[:-1], lengths, np.zeros(len(lengths), np.bool_))
    return _plain_decimals(decoded, array.is_valid(), scale, target)


# ---------------------------------------------------------------- arrays


def _convert_lists(array: pa.Array, element: Encoding, target: DataType, forms: ValueForms) -> Converted:
    """Convert the elements as one column; a list with a bad element is bad."""
    assert target.element is not None
    offsets = np.asarray(array.offsets).astype(np.int64)
    valid = np.asarray(array.is_valid())
    children = convert_column(array.values, element, target.element, forms)
    problems: dict[int, str] = {}
    bad = dict(children.problems)
    if not target.element.nullable:
        for null in np.flatnonzero(children.values.is_null()):
            bad.setdefault(int(null), f"NULL inside a value whose elements are {target.element}")
    for position in sorted(bad):
        row = int(np.searchsorted(offsets, position, side="right")) - 1
        if 0 <= row < len(array) and valid[row]:
            problems.setdefault(row, bad[position])
    lost = ~valid
    lost[list(problems)] = True
    stored = arrow_type(target)
    positions = pa.array(offsets.astype(np.int32))
    lists = pa.ListArray.from_arrays(positions, children.values, type=stored, mask=pa.array(lost))
    return Converted(lists, problems)
