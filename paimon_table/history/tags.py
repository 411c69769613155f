"""Tags: snapshots that stay readable under a name when they expire.

Implements Paimon's ``tag/tag-NAME``: the text of the snapshot's file. A tag with a limited life also has its creation
time (local) and duration.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from paimon_table.errors import ConfigError, CorruptFile
from paimon_table.history.names import check_name
from paimon_table.json_text import pretty
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.snapshot import Snapshot, from_json
from paimon_table.storage.file_io import FileIO

_CREATED = "tagCreateTime"
_RETAINED = "tagTimeRetained"


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag and the snapshot that it keeps; ``created`` and ``retained`` are None for an unlimited tag."""

    name: str
    snapshot: Snapshot
    created: datetime | None = None
    """Local time of the machine that created it, without a zone."""
    retained: timedelta | None = None

    def is_over(self, now: datetime) -> bool:
        """Whether its time has passed."""
        return self.created is not None and self.retained is not None and self.created + self.retained < now


@dataclass(frozen=True, slots=True)
class TagStore:
    """The ``tag/`` directory of a table or of a branch."""

    io: FileIO
    paths: TablePaths

    def names(self) -> list[str]:
        return [n.removeprefix("tag-") for n in self.io.list_names(self.paths.tag_dir) if n.startswith("tag-")]

    def find(self, name: str) -> Tag | None:
        """Read a tag; None if it does not exist. Raises CorruptFile if its file is not readable."""
        path = self.paths.tag_file(name)
        try:
            text = self.io.read(path)
        except FileNotFoundError:
            return None
        snapshot = from_json(text, path)
        try:
            document = json.loads(text)
            created, seconds = document.get(_CREATED), document.get(_RETAINED)
            return Tag(
                name,
                snapshot,
                None if created is None else _moment(created),
                None if seconds is None else timedelta(seconds=float(seconds)),
            )
        except (ValueError, TypeError, OverflowError) as error:
            raise CorruptFile(f"{path} is not readable as a tag ({error!r}); delete it or restore it") from error

    def read(self, name: str) -> Tag:
        """Read a tag; raises ConfigError if it does not exist."""
        tag = self.find(name)
        if tag is None:
            names = ", ".join(sorted(self.names())) or "none"
            raise ConfigError(f"{self.paths.root} has no tag {name!r}; it has: {names}")
        return tag

    def snapshot_text(self, tag: Tag) -> bytes:
        """The file of the snapshot that a tag keeps."""
        text = self.io.read(self.paths.tag_file(tag.name))
        if tag.created is None and tag.retained is None:
            return text
        return pretty({k: v for k, v in json.loads(text).items() if k not in {_CREATED, _RETAINED}}).encode()

    def all(self) -> list[Tag]:
        """All tags by the id of their snapshot; leaves out tags deleted at the same time."""
        found = [tag for name in self.names() if (tag := self.find(name)) is not None]
        return sorted(found, key=lambda tag: (tag.snapshot.id, tag.name))

    def check_new(self, name: str) -> None:
        """Raises ConfigError for a name that a new tag cannot have."""
        check_name("tag", name)
        if name in self.names():
            raise ConfigError(f"{self.paths.root} already has a tag {name!r}; delete it first, or choose another name")

    def create(self, name: str, snapshot_text: bytes, now: datetime, retained_ms: int | None) -> bool:
        """Tag the snapshot whose file has this text; False if the name is taken.

        Raises ConfigError, and creates no tag, if the snapshot has expired: the expiry may not have seen the tag.
        """
        check_name("tag", name)
        text = snapshot_text
        if retained_ms is not None:
            seconds = retained_ms / 1000
            moment = [now.year, now.month, now.day, now.hour, now.minute, now.second, now.microsecond * 1000]
            text = pretty({**json.loads(snapshot_text), _CREATED: moment, _RETAINED: seconds}).encode()
        path = self.paths.snapshot_file(from_json(snapshot_text, name).id)
        if not self.io.publish(self.paths.tag_file(name), text):
            return False
        # An expiry looks for new tags after removing its snapshots (``removal``), so at least one of both detects the
        # other.
        if not self.io.exists(path):
            self.io.delete(self.paths.tag_file(name))
            raise ConfigError(f"{path} expired while it was tagged; choose a later snapshot")
        return True


def _moment(parts: list[int]) -> datetime:
    year, month, day, hour, minute, *rest = parts
    second, nanos = (*rest, 0, 0)[:2]
    return datetime(year, month, day, hour, minute, second, nanos // 1000)


def create_tag(
    tags: TagStore, name: str, snapshot_path: str, *, now: Callable[[], datetime], retained_ms: int | None
) -> None:
    """Tag the snapshot of this file; raises ConfigError if the tag exists or the snapshot has expired."""
    tags.check_new(name)
    try:
        text = tags.io.read(snapshot_path)
    except FileNotFoundError:
        raise ConfigError(f"{snapshot_path} has expired or never existed; choose another snapshot") from None
    from_json(text, snapshot_path)
    if not tags.create(name, text, now(), retained_ms):
        raise ConfigError(f"{tags.paths.root} already has a tag {name!r}; delete it first, or choose another name")
