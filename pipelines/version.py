"""Which Tidemark this is, for people."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

DISTRIBUTION = "tidemark-cdc"
"""The name in package indexes; imports and the command are called `tidemark`."""


def version() -> str:
    """The installed version; a checkout that is not installed has none."""
    try:
        return installed_version(DISTRIBUTION)
    except PackageNotFoundError:
        return "(not installed)"
