"""Services of the process for the engine: the time, random ids, and control of the garbage collector."""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager


def now_ms() -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


def random_uuid() -> str:
    """A random UUID as text."""
    return str(uuid.uuid4())


@contextmanager
def many_values() -> Iterator[None]:
    """Disables the garbage collector while the block creates very many small values that stay.

    Otherwise the collector would scan the growing number of values repeatedly, which costs more than the work itself.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()
