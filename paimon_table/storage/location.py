"""Texts that name a place of files: a path, or a URI."""

from __future__ import annotations

import re

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]|\\\\")

NO_WINDOWS_PATHS = "Windows paths do not work here; write a path such as /data/shop, or a URI"
"""The refusal of a Windows path."""


def is_uri(location: str) -> bool:
    """Whether the text starts with a scheme such as ``file:/`` or ``s3://``."""
    return _URI.match(location) is not None


def is_windows_path(location: str) -> bool:
    """Whether the text is a Windows path, which starts with a drive or a host."""
    return _WINDOWS_PATH.match(location) is not None
