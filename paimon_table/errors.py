"""The error tree. Each class stands for what the caller should do, not for where it happened.

Text of every error: what happened, to which thing, what to do next.
"""


class TidemarkError(Exception):
    """Root of all errors that Tidemark raises on purpose."""


class ConfigError(TidemarkError):
    """The request itself is wrong: fix the YAML, the table options or the command (exit code 2)."""


class UnsupportedFeature(ConfigError):
    """The table or the request needs something that Tidemark does not do yet."""


class SchemaChangeRefused(TidemarkError):
    """Events carry a schema change that would lose values; the table was left as it is."""


class CommitConflict(TidemarkError):
    """Another committer changed the same files; nothing was published: restore the state and retry."""


class CommitOutcomeUnknown(TidemarkError):
    """The publish step failed midway: look whether the snapshot exists before retrying."""


class SinkUnavailable(TidemarkError):
    """Storage or source does not answer: retry later."""


class MalformedRecord(TidemarkError):
    """A source record cannot be decoded or converted: goes to quarantine."""


class CorruptFile(TidemarkError):
    """A file of the table contradicts its metadata: stop."""


class BrokenInvariant(TidemarkError):
    """A rule that the engine relies on does not hold: stop, nothing may be committed."""
