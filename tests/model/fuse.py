"""The end of a process: at a crash point of the product, or before or after any operation that changes storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from typing import Any

import pytest

from paimon_table.storage.file_io import LocalFileIO
from sinks import faults

_CHANGES = ("write", "write_all", "publish", "delete", "delete_all", "delete_tree", "delete_if_empty")
"""Methods of a ``FileIO`` behind which storage is another; each is one step or, with several files, one step too."""


class Killed(BaseException):
    """The process ends here; whatever it does until its frames are gone does not happen."""


class At(StrEnum):
    """Where a process is killed."""

    POINT = "point"
    """At a crash point (``sinks.faults``)."""
    BEFORE = "before"
    """Before an operation on storage."""
    AFTER = "after"
    """After one."""


@dataclass
class Fuse:
    """Kills whoever is ``acting`` at the step that ``light`` names."""

    at: At | None = None
    left: int = 0
    only: str = ""
    is_acting: bool = False
    is_dead: bool = False
    killed_at: str = ""
    """Where somebody was killed last."""

    def light(self, at: At, steps: int, only: str = "") -> None:
        """Kill at the step of this kind behind so many others; of these ``only`` those that are named so count."""
        self.at, self.left, self.only = at, steps, only

    def put_out(self) -> None:
        self.at = None

    @contextmanager
    def acting(self) -> Iterator[None]:
        """A process that may be killed does something; what others do in between is theirs."""
        before, self.is_acting = self.is_acting, True
        try:
            yield
        finally:
            self.is_acting, self.is_dead = before, False

    def passes(self, at: At, what: str) -> None:
        """Whoever acts comes to a step; after its end there are none."""
        if not self.is_acting:
            return
        if self.is_dead:
            raise Killed
        if at is self.at and self.only in ("", what):
            self.left -= 1
            if self.left < 0:
                self.at, self.is_dead, self.killed_at = None, True, f"{at} {what}"
                raise Killed

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let crash points and local storage ask this fuse."""
        patch.setattr(faults, "reached", lambda point, _number: self.passes(At.POINT, point))
        for name in _CHANGES:
            patch.setattr(LocalFileIO, name, self._fused(getattr(LocalFileIO, name), name))

    def _fused(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        @wraps(method)
        def fused(io: LocalFileIO, target: Any, *args: Any, **keys: Any) -> Any:
            what = f"{name} {target}" if isinstance(target, str) else name
            self.passes(At.BEFORE, what)
            done = method(io, target, *args, **keys)
            self.passes(At.AFTER, what)
            return done

        return fused
