"""Configuration files of other systems, recognised by their keys: one word instead of a line for each unknown key."""

from __future__ import annotations

from typing import Any

_START = "begin with the example in docs/CONFIGURATION.md"


def foreign_problem(data: Any) -> str | None:
    """The kind of file that it is instead of a pipeline file; None if it may be one."""
    keys = set(data) if isinstance(data, dict) else set()
    if "version" in keys or "checkpoint" in keys or "catalog" in keys:
        return None
    if "sink" in keys and "source" in keys:
        return f"this looks like a pipeline of Flink CDC, not of Tidemark; {_START}"
    if "connector.class" in keys or {"name", "config"} <= keys:
        return f"this looks like a connector of Kafka Connect: give it to Connect, and for Tidemark {_START}"
    if "services" in keys:
        return f"this looks like a Compose file, not a pipeline file; {_START}"
    return None
