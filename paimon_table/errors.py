"""The error tree. Each class stands for what the caller should do, not for where it happened.

Text of every error: what happened, to which thing, what to do next. What a caller decides by is never in the text
alone: it is the class, its ``action``, or an attribute. Errors keep their attributes when they are pickled.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from enum import Enum
from typing import ClassVar, Self


class Action(Enum):
    """What whoever called may do about an error."""

    FIX_REQUEST = "change the pipeline file, the table options or the command"
    RETRY = "try again, perhaps later: nothing was changed"
    VERIFY = "look whether it has happened, then try again or go on"
    QUARANTINE = "put the records that caused it aside, or stop"
    STOP = "stop: going on would make it worse"

    @property
    def may_pass(self) -> bool:
        """Whether the same call may succeed a second time without anybody's help."""
        return self in (Action.RETRY, Action.VERIFY)

    @property
    def blames_input(self) -> bool:
        """Whether what was asked for or read is at fault, so that all else can go on without it."""
        return self in (Action.FIX_REQUEST, Action.QUARANTINE)


class TidemarkError(Exception):
    """Root of all errors that Tidemark raises on purpose."""

    action: ClassVar[Action]
    """Every class that is raised has one; ``error_classes`` lists them."""

    @property
    def public_text(self) -> str:
        """The text for those who may not see rows."""
        return str(self)

    def told(self, text: str) -> Self:
        """The same error with another text, such as one that also names the place."""
        other = copy.copy(self)
        other.args = (text,)
        return other


class ConfigError(TidemarkError):
    """The request itself is wrong: fix the YAML, the table options or the command (exit code 2).

    ``option`` is the full name of the table option that is to blame, ``column`` the column that the error is about;
    None where there is no such one.
    """

    action = Action.FIX_REQUEST

    def __init__(self, text: str, *, option: str | None = None, column: str | None = None) -> None:
        super().__init__(text)
        self.option = option
        self.column = column


class UnsupportedFeature(ConfigError):
    """The table or the request needs something that Tidemark does not do yet."""


class BucketCountChanged(ConfigError):
    """A partition has another number of buckets than rows were written for: rescale it, or look at the table again.

    The second where somebody else rescales the table right now: its option follows its files at once.
    """


class SchemaChangeRefused(TidemarkError):
    """Events carry a schema change that would lose values; the table was left as it is."""

    action = Action.QUARANTINE

    def __init__(self, text: str, *, column: str | None = None) -> None:
        super().__init__(text)
        self.column = column


class CommitConflict(TidemarkError):
    """Another committer changed the same files; nothing was published: restore the state and retry."""

    action = Action.RETRY


class CommitOutcomeUnknown(TidemarkError):
    """The publish step failed midway: look whether the snapshot exists before retrying."""

    action = Action.VERIFY


class SinkUnavailable(TidemarkError):
    """Storage or source does not answer: retry later."""

    action = Action.RETRY


class Outage(SinkUnavailable):
    """Storage or source does not answer for now: what was tried may be tried again as it is until it goes well."""


class LocalDiskFull(SinkUnavailable):
    """This machine has no room for local files, which all tables need: make room there."""


class MalformedRecord(TidemarkError):
    """A source record cannot be decoded or converted: goes to quarantine.

    ``place`` says where it stands; with it the text may hold some of the record.
    """

    action = Action.QUARANTINE

    def __init__(self, text: str, *, place: str = "") -> None:
        super().__init__(text)
        self.place = place

    @property
    def public_text(self) -> str:
        return (
            f"{self.place}: the record cannot be taken; the log says what is wrong with it" if self.place else str(self)
        )


class LanesDoNotFit(TidemarkError):
    """Keys of the table lie in buckets that another lane owns: plan the batch again with ``lanes`` lanes."""

    action = Action.STOP

    def __init__(self, text: str, *, lanes: int = 1) -> None:
        super().__init__(text)
        self.lanes = lanes


class CorruptFile(TidemarkError):
    """A file of the table contradicts its metadata: stop."""

    action = Action.STOP


class BrokenInvariant(TidemarkError):
    """A rule that the engine relies on does not hold: stop, nothing may be committed."""

    action = Action.STOP


def public_text(error: BaseException) -> str:
    """What an error says to those who may not see rows."""
    return error.public_text if isinstance(error, TidemarkError) else str(error)


def error_classes() -> Mapping[str, type[TidemarkError]]:
    """Every class of the tree below the root by its name, those of loaded modules above this package included."""
    found: dict[str, type[TidemarkError]] = {}
    waiting = [TidemarkError]
    while waiting:
        below = waiting.pop().__subclasses__()
        found.update((kind.__name__, kind) for kind in below)
        waiting += below
    return found
