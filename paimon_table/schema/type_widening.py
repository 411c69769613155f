"""Finds the least type that has every value of two types, if there is one.

If a source's column changes its type, the table's column can become the common type without rewriting files.
"""

from __future__ import annotations

from dataclasses import replace

from paimon_table.types import BINARIES, CHARACTERS, INTEGERS, NEW_FIELD, DataField, DataType, Root

_INTEGER_DIGITS = {Root.TINYINT: 3, Root.SMALLINT: 5, Root.INT: 10, Root.BIGINT: 19}
_MAX_DECIMAL_PRECISION = 38


def common_type(old: DataType, new: DataType) -> DataType | None:
    """The least common lossless type; nullable if either is. None if values could be lost."""
    common = _common(old, new)
    return None if common is None else common.with_nullable(old.nullable or new.nullable)


def wider_if_common(old: DataType, new: DataType) -> DataType:
    """The common type, or the old one if there is none: values that do not fit it widen nothing."""
    return common_type(old, new) or old


def _common(old: DataType, new: DataType) -> DataType | None:
    if old.root is new.root:
        return _same_root(old, new)
    pair = {old.root, new.root}
    if pair <= set(INTEGERS):
        return old if INTEGERS.index(old.root) > INTEGERS.index(new.root) else new
    if pair <= CHARACTERS:
        return DataType(Root.VARCHAR, length=max(old.length or 1, new.length or 1))
    if pair <= BINARIES:
        return DataType(Root.VARBINARY, length=max(old.length or 1, new.length or 1))
    if pair == {Root.FLOAT, Root.DOUBLE}:
        return DataType(Root.DOUBLE)
    if Root.DECIMAL in pair and pair & set(INTEGERS):
        decimal, integer = (old, new) if old.root is Root.DECIMAL else (new, old)
        return _decimal(decimal, DataType(Root.DECIMAL, precision=_INTEGER_DIGITS[integer.root], scale=0))
    if Root.DOUBLE in pair and pair & {Root.TINYINT, Root.SMALLINT, Root.INT}:
        return DataType(Root.DOUBLE)
    if Root.FLOAT in pair and pair & {Root.TINYINT, Root.SMALLINT}:
        return DataType(Root.FLOAT)
    return None


def _same_root(old: DataType, new: DataType) -> DataType | None:
    match old.root:
        case Root.DECIMAL:
            return _decimal(old, new)
        case Root.CHAR | Root.BINARY if old.length != new.length:
            varying = Root.VARCHAR if old.root is Root.CHAR else Root.VARBINARY
            return DataType(varying, length=max(old.length or 1, new.length or 1))
        case Root.CHAR | Root.VARCHAR | Root.BINARY | Root.VARBINARY:
            return old if (old.length or 1) >= (new.length or 1) else new
        case Root.TIME | Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return old if (old.precision or 0) >= (new.precision or 0) else new
        case Root.ARRAY | Root.MULTISET:
            element = _optional_common(old.element, new.element)
            return None if element is None else replace(old, element=element)
        case Root.MAP:
            key, value = _optional_common(old.key, new.key), _optional_common(old.value, new.value)
            return None if key is None or value is None else replace(old, key=key, value=value)
        case Root.ROW:
            return _row(old, new)
        case _:
            return old


def _optional_common(old: DataType | None, new: DataType | None) -> DataType | None:
    return None if old is None or new is None else common_type(old, new)


def _decimal(old: DataType, new: DataType) -> DataType | None:
    old_precision, old_scale = old.precision or 0, old.scale or 0
    new_precision, new_scale = new.precision or 0, new.scale or 0
    scale = max(old_scale, new_scale)
    precision = max(old_precision - old_scale, new_precision - new_scale) + scale
    return DataType(Root.DECIMAL, precision=precision, scale=scale) if precision <= _MAX_DECIMAL_PRECISION else None


def _row(old: DataType, new: DataType) -> DataType | None:
    """Fields by name: first the fields of ``old`` with their order and ids, then new fields, which become nullable."""
    by_name = {f.name: f for f in new.fields}
    fields: list[DataField] = []
    for f in old.fields:
        other = by_name.pop(f.name, None)
        merged = f.type.with_nullable(True) if other is None else common_type(f.type, other.type)
        if merged is None:
            return None
        fields.append(replace(f, type=merged))
    fields += [replace(f, id=NEW_FIELD, type=f.type.with_nullable(True)) for f in by_name.values()]
    return replace(old, fields=tuple(fields))
