"""JSON texts with types from the source, for the types of new columns."""

from __future__ import annotations

from typing import ClassVar

from paimon_table.types import MAX_LENGTH, DataType, Root


class TypedText(str):
    """A text in place of a value of ``type``."""

    __slots__ = ()
    type: ClassVar[DataType]


class InstantText(TypedText):
    """An ISO 8601 timestamp in UTC, to the millisecond."""

    __slots__ = ()
    type = DataType(Root.TIMESTAMP_LTZ, precision=3)


class BytesText(TypedText):
    """Base64 of bytes."""

    __slots__ = ()
    type = DataType(Root.VARBINARY, length=MAX_LENGTH)


class DoubleText(TypedText):
    """The word for a floating point number that JSON has not."""

    __slots__ = ()
    type = DataType(Root.DOUBLE)
