"""The columns of the compared tables: the value of a row, its form in an event, and the merge of a key's events.

A row is a pure function of its key and of the step that wrote it. So the result needs no memory but the steps of each
key, and it does not come from any of the systems. Decimals are text (``decimal.handling.mode=string``) and times
milliseconds, which all systems read without a function of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Fold = Literal["last", "sum", "max", "count"]
Numbers = NDArray[np.int64]
FIRST_MOMENT_MS = 1_700_000_000_000

KEY = "id"
KEY_TYPE = pa.int64()
CENTS = pa.decimal128(10, 2)
MOMENT = pa.timestamp("ms")
SQL_TYPES = {
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.string(): "STRING",
    pa.bool_(): "BOOLEAN",
    CENTS: "DECIMAL(10, 2)",
    MOMENT: "TIMESTAMP(3)",
}
"""As Flink and Tidemark write them."""

_STATES = ("created", "paid", "packed", "shipped", "delivered", "returned")
_CARRIERS = ("river", "rail", "road", "air")


@dataclass(frozen=True, slots=True)
class Column:
    """A column outside the key."""

    name: str
    type: pa.DataType
    values: Callable[[Numbers, Numbers], Any]
    """Of rows with these keys, written by these steps."""
    fold: Fold = "last"
    """The merged value of a key's events. A ``count`` is in no event: each one adds 1."""

    @property
    def sql_type(self) -> str:
        return SQL_TYPES[self.type]

    @property
    def is_sent(self) -> bool:
        """Whether events have it."""
        return self.fold != "count"


@dataclass(frozen=True, slots=True)
class EventKind:
    """The events of one source table. Kinds of one workload fill different columns of the same rows."""

    source_table: str
    columns: tuple[Column, ...]
    text: Callable[[int, int], str]
    """The row of a key and a step in JSON."""


def _cents(steps: Numbers, factor: int) -> list[Decimal]:
    return [Decimal(cents).scaleb(-2) for cents in (steps * factor % 1_000_003).tolist()]


def _cents_text(step: int, factor: int) -> str:
    cents = step * factor % 1_000_003
    return f"{cents // 100}.{cents % 100:02d}"


def _each(text: Callable[[int, int], str]) -> Callable[[Numbers, Numbers], list[str]]:
    return lambda ids, steps: [text(key, step) for key, step in zip(ids.tolist(), steps.tolist(), strict=True)]


def _note(key: int, step: int) -> str:
    noise = (key * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    return f"order {key} step {step} {noise:016x}"


def _address(key: int, _: int) -> str:
    return f"{key % 977} Long Street, Town {key % 313}"


def _order_text(key: int, step: int) -> str:
    moment = FIRST_MOMENT_MS + step
    return (
        f'{{"id":{key},"customer_id":{key % 5000},"status":"{_STATES[step % 6]}",'
        f'"amount":"{_cents_text(step, 7919)}","quantity":{step % 50},"note":"{_note(key, step)}",'
        f'"created_at":{moment - key},"updated_at":{moment},"is_paid":{"true" if step % 2 else "false"},'
        f'"address":"{_address(key, step)}"}}'
    )


ORDERS = EventKind(
    "orders",
    (
        Column("customer_id", pa.int64(), lambda ids, _: ids % 5000),
        Column("status", pa.string(), _each(lambda _, step: _STATES[step % 6])),
        Column("amount", CENTS, lambda _, steps: _cents(steps, 7919)),
        Column("quantity", pa.int32(), lambda _, steps: steps % 50),
        Column("note", pa.string(), _each(_note)),
        Column("created_at", MOMENT, lambda ids, steps: FIRST_MOMENT_MS + steps - ids),
        Column("updated_at", MOMENT, lambda _, steps: FIRST_MOMENT_MS + steps),
        Column("is_paid", pa.bool_(), lambda _, steps: steps % 2 == 1),
        Column("address", pa.string(), _each(_address)),
    ),
    _order_text,
)


def _tracking(key: int, step: int) -> str:
    return f"TM{key * 31 + step:012d}"


def _hub(key: int, step: int) -> str:
    return f"Hub {(key + step) % 89} of region {key % 17}"


def _shipment_text(key: int, step: int) -> str:
    moment = FIRST_MOMENT_MS + step
    return (
        f'{{"id":{key},"carrier":"{_CARRIERS[step % 4]}","tracking":"{_tracking(key, step)}",'
        f'"weight_g":{step % 30_011},"cost":"{_cents_text(step, 6007)}","packages":{step % 7},'
        f'"is_insured":{"true" if step % 3 == 0 else "false"},"hub":"{_hub(key, step)}",'
        f'"shipped_at":{moment - key},"seen_at":{moment}}}'
    )


SHIPMENTS = EventKind(
    "shipments",
    (
        Column("carrier", pa.string(), _each(lambda _, step: _CARRIERS[step % 4])),
        Column("tracking", pa.string(), _each(_tracking)),
        Column("weight_g", pa.int64(), lambda _, steps: steps % 30_011),
        Column("cost", CENTS, lambda _, steps: _cents(steps, 6007)),
        Column("packages", pa.int32(), lambda _, steps: steps % 7),
        Column("is_insured", pa.bool_(), lambda _, steps: steps % 3 == 0),
        Column("hub", pa.string(), _each(_hub)),
        Column("shipped_at", MOMENT, lambda ids, steps: FIRST_MOMENT_MS + steps - ids),
        Column("seen_at", MOMENT, lambda _, steps: FIRST_MOMENT_MS + steps),
    ),
    _shipment_text,
)


def folded(kind: EventKind, folds: dict[str, Fold], count: str) -> EventKind:
    """The kind with other folds by the name of the column, and with a column that counts events."""
    columns: Sequence[Column] = [replace(one, fold=folds.get(one.name, one.fold)) for one in kind.columns]
    counted = Column(count, pa.int64(), lambda ids, _: np.ones(len(ids), np.int64), "count")
    return replace(kind, columns=(*columns, counted))
