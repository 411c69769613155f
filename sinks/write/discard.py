"""Delete the files of commit messages that will never be committed."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_table import CommitMessage, DataFileMeta
from sinks.exchange.target import Target


def discard(target: Target, messages: Iterable[CommitMessage]) -> None:
    """Delete the files that the writers of ``messages`` created.

    Proof that nothing refers to these files: their names are fresh UUIDs of this attempt, only its messages name them,
    and the caller drops the messages. Files that were live before (an upgrade names them again) are kept.
    """
    for message in messages:
        live = {f.file_name for f in target.live.of(message.bucket).files}
        for file in _created(message):
            if file.file_name not in live:
                target.context.delete_file(message.bucket, file)
        for index in (*message.append_index.after, *message.compact_index.after):
            target.context.io.delete(target.context.paths.index_file(index.file_name))


def _created(message: CommitMessage) -> Iterable[DataFileMeta]:
    yield from message.new_files
    yield from message.changelog_files
    yield from message.compact_changelog
    before = {f.file_name for f in (*message.new_files, *message.compact_before)}
    yield from (f for f in message.compact_after if f.file_name not in before)
