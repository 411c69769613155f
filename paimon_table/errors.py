"""The error tree. A class tells the caller what to do, not where the error happened.

The text of every error states what happened, to which thing, and what to do next. A caller never decides by the text,
but by the class, its ``action``, or an attribute. Pickled errors keep their attributes.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from enum import Enum
from typing import ClassVar, Self

WHERE_MORE = "for more, see the log, `tidemark status` or the web page with its token"


class Action(Enum):
    """What the caller can do about an error."""

    FIX_REQUEST = "change the pipeline file, the table options or the command"
    RETRY = "try again, perhaps later: nothing was changed"
    VERIFY = "check whether it happened, then try again or continue"
    QUARANTINE = "quarantine the records that caused it, or stop"
    STOP = "stop: continuing would make it worse"

    @property
    def may_pass(self) -> bool:
        """Whether a repeated call may succeed without any other action."""
        return self in (Action.RETRY, Action.VERIFY)

    @property
    def blames_input(self) -> bool:
        """Whether the request or the read data is at fault, so that other work can continue."""
        return self in (Action.FIX_REQUEST, Action.QUARANTINE)


class TidemarkError(Exception):
    """Root of all errors that Tidemark raises on purpose."""

    action: ClassVar[Action]
    """Every raised class has an action; ``error_classes`` lists the classes."""

    public_words: ClassVar[str] = "it failed"
    """The kind of error, for people who may not see rows: the text may contain values, keys or partitions."""

    is_public: ClassVar[bool] = False
    """Whether texts of the class contain only names and numbers, so that everybody may see them."""

    _public: str | None = None

    @property
    def public_text(self) -> str:
        """The text for people who may not see rows: by default only the kind of error."""
        if self._public is not None:
            return self._public
        return str(self) if self.is_public else f"{self.public_words}; {WHERE_MORE}"

    def without_values(self, text: str | None = None) -> Self:
        """The same error, marked as having only names and numbers in its text, or in ``text``."""
        self._public = str(self) if text is None else text
        return self

    def told(self, text: str) -> Self:
        """The same error with another text, such as one that also names the place."""
        other = copy.copy(self)
        other.args = (text,)
        return other


class ConfigError(TidemarkError):
    """The request itself is wrong: fix the YAML, the table options or the command (exit code 2).

    ``option`` is the full name of the table option at fault, ``column`` the column at fault; None if there is none.
    """

    action = Action.FIX_REQUEST
    public_words = "the request or the configuration is wrong"

    def __init__(self, text: str, *, option: str | None = None, column: str | None = None) -> None:
        super().__init__(text)
        self.option = option
        self.column = column


class UnsupportedFeature(ConfigError):
    """The table or the request needs a feature that Tidemark does not have."""

    public_words = "the table or the request needs a feature that Tidemark does not have"


class BucketCountChanged(ConfigError):
    """Rows were written for another number of buckets than their partition has: rescale it, or load the table again.

    Load it again if another process is rescaling the table: the option changes right after the files.
    """


class SchemaChangeRefused(TidemarkError):
    """Events have a schema change that would lose values; the table is unchanged."""

    action = Action.QUARANTINE
    public_words = "events have a schema change that would lose values"

    def __init__(self, text: str, *, column: str | None = None) -> None:
        super().__init__(text)
        self.column = column


class CommitConflict(TidemarkError):
    """Another committer changed the same files; nothing was published: restore the state and retry."""

    action = Action.RETRY
    public_words = "another writer changed the same files"


class RolledBack(CommitConflict):
    """A rollback of the table removed commits of this writer, which starts over from the table's state."""

    public_words = "the table was rolled back while a pipeline wrote it"


class CommitOutcomeUnknown(TidemarkError):
    """The publish step failed midway: check whether the snapshot exists before retrying."""

    action = Action.VERIFY
    public_words = "the outcome of a commit is unknown"


class SinkUnavailable(TidemarkError):
    """Storage or source does not answer: retry later."""

    action = Action.RETRY
    public_words = "storage or source refused a request"


class Outage(SinkUnavailable):
    """Storage or source does not answer at the moment: the step may be retried until it succeeds."""

    public_words = "storage or source does not answer"


class MachineFailure(SinkUnavailable):
    """The machine lacks what all tables need: disk space (local or of the warehouse), open files, memory."""


class MalformedRecord(TidemarkError):
    """A source record cannot be decoded or converted: quarantine it.

    ``place`` is the place of the record; the text may then contain parts of the record. ``columns`` are the NOT NULL
    columns for which it has no value.
    """

    action = Action.QUARANTINE

    public_words = "a record cannot be stored"

    def __init__(self, text: str, *, place: str = "", columns: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.place = place
        self.columns = columns

    @property
    def public_text(self) -> str:
        return f"{self.place}: the record cannot be stored; {WHERE_MORE}" if self.place else super().public_text


class LanesDoNotFit(TidemarkError):
    """Keys are in buckets of another lane: plan the batch again with ``lanes`` lanes."""

    action = Action.STOP
    public_words = "keys of the table are in buckets of other lanes"

    def __init__(self, text: str, *, lanes: int = 1) -> None:
        super().__init__(text)
        self.lanes = lanes


class CorruptFile(TidemarkError):
    """A file of the table contradicts its metadata: stop."""

    action = Action.STOP
    public_words = "a file of the table contradicts its metadata"


class BrokenInvariant(TidemarkError):
    """An invariant of the engine is broken: stop, commit nothing."""

    action = Action.STOP
    public_words = "an invariant of the engine is broken"


def public_text(error: BaseException) -> str:
    """The text of an error for people who may not see rows."""
    if isinstance(error, TidemarkError):
        return error.public_text
    if isinstance(error, OSError) and error.errno:  # its text has paths, which contain partitions
        return f"{os.strerror(error.errno)}; {WHERE_MORE}"
    return f"unexpected {type(error).__name__}; {WHERE_MORE}"


def error_classes() -> Mapping[str, type[TidemarkError]]:
    """Every class below the root by name, including classes of loaded modules above this package."""
    found: dict[str, type[TidemarkError]] = {}
    waiting = [TidemarkError]
    while waiting:
        below = waiting.pop().__subclasses__()
        found.update((kind.__name__, kind) for kind in below)
        waiting += below
    return found
