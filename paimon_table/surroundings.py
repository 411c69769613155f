"""What the engine takes from the process around it unless it is given something else: the time and random ids."""

from __future__ import annotations

import time
import uuid


def now_ms() -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


def random_uuid() -> str:
    """A random UUID as text."""
    return str(uuid.uuid4())
