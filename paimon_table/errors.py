"""The error tree. Each class stands for the action of the caller, not for the place of the error.

Text of every error: what happened, to which thing, what to do next. A caller never decides by the text: it uses the
class, its ``action``, or an attribute. Errors keep their attributes when they are pickled.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from enum import Enum
from typing import ClassVar, Self

WHERE_MORE = "the log, `tidemark status` and the web page with its token say more"


class Action(Enum):
    """What the caller may do about an error."""

    FIX_REQUEST = "change the pipeline file, the table options or the command"
    RETRY = "try again, perhaps later: nothing was changed"
    VERIFY = "check whether it happened, then try again or continue"
    QUARANTINE = "quarantine the records that caused it, or stop"
    STOP = "stop: continuing would make it worse"

    @property
    def may_pass(self) -> bool:
        """Whether the same call may succeed a second time without anybody's help."""
        return self in (Action.RETRY, Action.VERIFY)

    @property
    def blames_input(self) -> bool:
        """Whether the request or the read data is at fault, so that all other work can continue without it."""
        return self in (Action.FIX_REQUEST, Action.QUARANTINE)


class TidemarkError(Exception):
    """Root of all errors that Tidemark raises on purpose."""

    action: ClassVar[Action]
    """Every class that is raised has one; ``error_classes`` lists them."""

    public_words: ClassVar[str] = "it failed"
    """What kind of error it is, for those who may not see rows: its text may hold values, keys or partitions."""

    is_public: ClassVar[bool] = False
    """Whether texts of the class hold names and numbers alone, so that everybody may see them."""

    _public: str | None = None

    @property
    def public_text(self) -> str:
        """The text for those who may not see rows: by default the kind of error alone."""
        if self._public is not None:
            return self._public
        return str(self) if self.is_public else f"{self.public_words}; {WHERE_MORE}"

    def without_values(self, text: str | None = None) -> Self:
        """The same error, whose text holds names and numbers alone; or ``text`` in its place."""
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
    public_words = "what is asked for does not fit"

    def __init__(self, text: str, *, option: str | None = None, column: str | None = None) -> None:
        super().__init__(text)
        self.option = option
        self.column = column


class UnsupportedFeature(ConfigError):
    """The table or the request needs something that Tidemark does not do yet."""

    public_words = "the table or the request needs something that Tidemark does not do yet"


class BucketCountChanged(ConfigError):
    """A partition has another number of buckets than rows were written for: rescale it, or look at the table again.

    The second if another process rescales the table right now: its option follows its files at once.
    """


class SchemaChangeRefused(TidemarkError):
    """Events carry a schema change that would lose values; the table was left as it is."""

    action = Action.QUARANTINE
    public_words = "events carry a schema change that would lose values"

    def __init__(self, text: str, *, column: str | None = None) -> None:
        super().__init__(text)
        self.column = column


class CommitConflict(TidemarkError):
    """Another committer changed the same files; nothing was published: restore the state and retry."""

    action = Action.RETRY
    public_words = "another writer changed the same files"


class RolledBack(CommitConflict):
    """The table was rolled back behind commits of this writer, which starts over from the table's state."""

    public_words = "the table was rolled back while it was written"


class CommitOutcomeUnknown(TidemarkError):
    """The publish step failed midway: look whether the snapshot exists before retrying."""

    action = Action.VERIFY
    public_words = "the outcome of a commit is unknown"


class SinkUnavailable(TidemarkError):
    """Storage or source does not answer: retry later."""

    action = Action.RETRY
    public_words = "storage or source refused a request"


class Outage(SinkUnavailable):
    """Storage or source does not answer for now: the same step may be retried until it succeeds."""

    public_words = "storage or source does not answer"


class LocalDiskFull(SinkUnavailable):
    """This machine has no room for local files, which all tables need: make room there."""


class MalformedRecord(TidemarkError):
    """A source record cannot be decoded or converted: goes to quarantine.

    ``place`` says where it stands; with it the text may hold some of the record. ``columns`` are those that are NOT
    NULL, and for which it has no value.
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
    """Keys of the table are in buckets that another lane owns: plan the batch again with ``lanes`` lanes."""

    action = Action.STOP
    public_words = "keys of the table are in buckets of others"

    def __init__(self, text: str, *, lanes: int = 1) -> None:
        super().__init__(text)
        self.lanes = lanes


class CorruptFile(TidemarkError):
    """A file of the table contradicts its metadata: stop."""

    action = Action.STOP
    public_words = "a file of the table contradicts its metadata"


class BrokenInvariant(TidemarkError):
    """A rule that the engine relies on does not hold: stop, nothing may be committed."""

    action = Action.STOP
    public_words = "a rule that the engine relies on does not hold"


def public_text(error: BaseException) -> str:
    """The text of an error for people who may not see rows."""
    if isinstance(error, TidemarkError):
        return error.public_text
    if isinstance(error, OSError) and error.errno:  # its text has paths, and these have partitions
        return f"{os.strerror(error.errno)}; {WHERE_MORE}"
    return f"unexpected {type(error).__name__}; {WHERE_MORE}"


def error_classes() -> Mapping[str, type[TidemarkError]]:
    """Every class of the tree below the root by its name, including classes of loaded modules above this package."""
    found: dict[str, type[TidemarkError]] = {}
    waiting = [TidemarkError]
    while waiting:
        below = waiting.pop().__subclasses__()
        found.update((kind.__name__, kind) for kind in below)
        waiting += below
    return found
