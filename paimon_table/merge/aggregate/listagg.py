"""listagg: texts joined by a delimiter, in order; blank texts are left out. With ``distinct`` each token occurs once.

Blank means white space as in Java, which excludes no-break spaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.merge.aggregate.column_function import ColumnFunction, SimpleAccumulator
from paimon_table.merge.aggregate.function import Accumulator, Mask
from paimon_table.merge.aggregate.segments import choose
from paimon_table.options.field_options import FieldOptions
from paimon_table.options.names import DISTINCT, LIST_AGG_DELIMITER
from paimon_table.rows.words import Indices
from paimon_table.types import MAX_LENGTH, DataField, Root

_BLANKS = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a"
    "\u2028\u2029\u205f\u3000"
)


@dataclass(frozen=True, slots=True)
class ListAgg(ColumnFunction):
    """Cannot retract."""

    delimiter: str
    distinct: bool

    name: ClassVar[str] = "listagg"
    can_retract: ClassVar[bool] = False
    accumulates: ClassVar[bool] = True
    settings: ClassVar[tuple[str, ...]] = (LIST_AGG_DELIMITER, DISTINCT)

    @classmethod
    def bound(cls, field: DataField, options: FieldOptions) -> Self:
        is_string = field.type.root is Root.VARCHAR and field.type.length == MAX_LENGTH
        cls.check(is_string, field, options, "STRING (VARCHAR without length)")
        return cls(field.name, field.type, options.list_agg_delimiter, options.distinct)

    @property
    def keeps_single(self) -> bool:
        return False

    def accumulator(self) -> Accumulator:
        return SimpleAccumulator(self._joined, self._retract)

    def reduce(self, values: pa.Array, starts: Indices, is_retract: Mask | None) -> pa.Array | None:
        self.refuse_retracts(is_retract)
        if self.distinct:
            return None
        kept = pc.fill_null(pc.not_equal(pc.utf8_trim(values, _BLANKS), ""), False).to_numpy(zero_copy_only=False)
        chosen = choose(values, starts, None, kept)
        offsets = np.append(chosen.starts, len(chosen.values)).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), chosen.values)
        return chosen.spread(pc.binary_join(lists, self.delimiter))

    def _joined(self, accumulated: str | None, value: str | None) -> str | None:
        if value is None or not value.strip(_BLANKS):
            return accumulated
        if accumulated is None or not accumulated.strip(_BLANKS):
            return value
        if not self.distinct:
            return f"{accumulated}{self.delimiter}{value}"
        delimiter = self.delimiter or " "
        seen = set(accumulated.split(delimiter))
        added = [accumulated]
        for token in value.split(delimiter):
            if token.strip(_BLANKS) and token not in seen:
                seen.add(token)
                added.append(token)
        return self.delimiter.join(added)

    def _retract(self, accumulated: Any, value: Any) -> Any:
        self.refuse_retract()
