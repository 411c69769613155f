"""Debezium JSON events of about 700 bytes for the throughput benchmark, made fast and from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

TOPIC = "bench.public.orders"
COLUMN_TYPES = {
    "id": "BIGINT",
    "customer_id": "BIGINT",
    "status": "STRING",
    "amount": "DECIMAL(10, 2)",
    "quantity": "INT",
    "note": "STRING",
    "created_at": "TIMESTAMP(6)",
    "updated_at": "TIMESTAMP(6)",
    "is_paid": "BOOLEAN",
    "address": "STRING",
}

_AMOUNTS = ("AfQ=", "A+g=", "JxA=", "D0I=", "AYag", "Ew==", "ZA==", "B1vN")
_STATES = ("created", "paid", "packed", "shipped", "delivered", "returned")


def _row(key: int, step: int, rng: random.Random) -> str:
    note = f"order {key} step {step} {rng.getrandbits(64):016x}"
    moment = 1_700_000_000_000_000 + step * 1000
    return (
        f'{{"id":{key},"customer_id":{key % 5000},"status":"{_STATES[step % 6]}","amount":"{_AMOUNTS[step % 8]}",'
        f'"quantity":{step % 50},"note":"{note}","created_at":{moment - key},"updated_at":{moment},'
        f'"is_paid":{"true" if step % 2 else "false"},"address":"{key % 977} Long Street, Town {key % 313}"}}'
    )


def _source(step: int) -> str:
    return (
        '{"version":"3.7.0.Final","connector":"postgresql","name":"bench","ts_ms":1700000000000,"snapshot":"false",'
        f'"db":"bench","sequence":"[\\"{step + 1000}\\",\\"{step + 1001}\\"]","ts_us":1700000000000000,'
        '"ts_ns":1700000000000000000,"schema":"public","table":"orders",'
        f'"txId":{step},"lsn":{step + 1001},"xmin":null}}'
    )


def events(count: int, keys: int, seed: int = 7, first_step: int = 0, apart: int = 1) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) records: 20 % inserts (replacing deleted keys first), 70 % updates, 10 % deletes without tombstones.

    An insert of a key that exists is written as an update of it, so the table stays within ``keys`` rows. Keys are
    multiples of ``apart``.
    """
    rng = random.Random(seed)
    for step in range(first_step, first_step + count):
        key = rng.randrange(keys) * apart
        dice = rng.random()
        op = "c" if dice < 0.2 else "u" if dice < 0.9 else "d"
        row = _row(key, step, rng)
        before, after = (row, "null") if op == "d" else ("null", row)
        value = (
            f'{{"before":{before},"after":{after},"source":{_source(step)},"transaction":null,"op":"{op}",'
            f'"ts_ms":1700000000123,"ts_us":1700000000123456,"ts_ns":1700000000123456789}}'
        )
        yield b'{"id":%d}' % key, value.encode()
