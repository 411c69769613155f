"""Storage of table files: one small interface, its local implementation, and the choice by URI.

Implements the atomic publish of Paimon's commit protocol: a snapshot or schema file appears completely or not at all,
and never replaces another one.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from paimon_table.errors import CommitOutcomeUnknown, ConfigError
from paimon_table.storage.disk_syncs import DiskSyncs, sync_path
from paimon_table.storage.location import NO_WINDOWS_PATHS, is_windows_path

_SYNCS = DiskSyncs()
_DURABLE_DIRECTORIES: set[str] = set()
"""Directories whose names this process has made durable."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file in a directory."""

    name: str
    size_bytes: int
    modified_ms: int
    """The time of its last write, by the clock of the storage."""


class FileIO(Protocol):
    """Storage of one table. Paths are absolute local paths or URIs; implementations can be pickled.

    A missing file raises FileNotFoundError; other failures of the storage raise OSError. Writing a file creates its
    parent directories.
    """

    def read(self, path: str) -> bytes:
        """The content of the file."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random access, as the parquet reader needs it."""
        ...

    def write(self, path: str, data: bytes, durable: bool = True) -> None:
        """Write a whole file, replacing an older one atomically; readers never see a partial file.

        If ``durable``, the file survives a power failure after the return; hint files do not need that.
        """
        ...

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Write several new files durably; cheaper than one ``write`` each, not atomic as a whole."""
        ...

    def open_output(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """Stream into a new file; complete at the end of the block, removed if the block raises, durable after
        ``sync``."""
        ...

    def sync(self) -> None:
        """Wait until all files that this thread streamed are durable."""
        ...

    def publish(self, path: str, data: bytes) -> bool:
        """Create the file with this content if no file has the name, durably and atomically.

        False if a file of another writer exists. Raises CommitOutcomeUnknown if the file may or may not have been
        created.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def list_names(self, directory: str) -> list[str]:
        """Names of the files and directories in a directory, sorted; a missing directory is empty."""
        ...

    def list_files(self, directory: str) -> list[FoundFile]:
        """The files in a directory by name, without directories and links; a missing directory is empty."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file; a missing one is not an error."""
        ...

    def delete_all(self, paths: Sequence[str]) -> None:
        """Remove files, in any order; missing ones are not an error."""
        ...

    def delete_tree(self, directory: str) -> None:
        """Remove a directory with all of its content; a missing one is not an error. Not atomic."""
        ...

    def delete_if_empty(self, directory: str) -> bool:
        """Remove a directory if it is empty; returns whether it no longer exists."""
        ...

    def modified_ms(self, path: str) -> int:
        """The time of the file's last write, in milliseconds since 1970 by the clock of the storage."""
        ...

    def is_link(self, path: str) -> bool:
        """Whether the path is a symbolic link, which ``delete_tree`` does not follow."""
        ...

    def size_bytes(self, path: str) -> int: ...

    def mkdirs(self, path: str) -> None: ...


@dataclass(frozen=True, slots=True)
class LocalFileIO:
    """Files of a local or mounted POSIX file system; publishing is safe across processes and needs hard links."""

    private: bool = False
    """Whether created files and directories are readable only by their owner."""
    closed_to_writers: bool = False
    """Whether only their owner may write created files and directories, whatever the umask."""

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.memory_map(path, "r") if os.path.getsize(path) else pa.OSFile(path, "rb")

    def write(self, path: str, data: bytes, durable: bool = True) -> None:
        temporary = self._write_temporary(path, data, durable)
        os.replace(temporary, path)
        if durable:
            sync_path(os.path.dirname(path))

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        for path, data in files:
            _SYNCS.add_open(self._written(path, data), os.path.dirname(path))
        _SYNCS.wait()

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        self.mkdirs(os.path.dirname(path))
        try:
            with naming_file(path), pa.OSFile(path, "wb") as stream:
                yield stream
            _SYNCS.add(path)
        except BaseException:
            # Unreferenced: the name is new, and the caller does not know that the file is complete.
            self.delete(path)
            raise

    def sync(self) -> None:
        _SYNCS.wait()

    def publish(self, path: str, data: bytes) -> bool:
        temporary = self._write_temporary(path, data, durable=True)
        try:
            created = _link(temporary, path)
        finally:
            with suppress(OSError):
                os.unlink(temporary)
        if created:
            try:
                sync_path(os.path.dirname(path))
            except OSError as error:
                raise CommitOutcomeUnknown(
                    f"{path} was created but its directory could not be synced ({error}); read it before retrying"
                ) from error
        return created

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list_names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def list_files(self, directory: str) -> list[FoundFile]:
        found = []
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):  # removed since the listing
                        if entry.is_file(follow_symlinks=False):
                            status = entry.stat(follow_symlinks=False)
                            found.append(FoundFile(entry.name, status.st_size, status.st_mtime_ns // 1_000_000))
        except FileNotFoundError:
            return []
        return sorted(found, key=lambda file: file.name)

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def delete_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_tree(self, directory: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):
            shutil.rmtree(directory)

    def delete_if_empty(self, directory: str) -> bool:
        with suppress(OSError):
            os.rmdir(directory)
        return not os.path.isdir(directory)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def size_bytes(self, path: str) -> int:
        return os.path.getsize(path)

    def mkdirs(self, path: str) -> None:
        """Create missing directories and sync the parent of each, so that they survive a power failure.

        The first call in a process also syncs existing directories, because a killed process may have created them
        without a sync.
        """
        is_there = os.path.isdir(path)
        if is_there and path in _DURABLE_DIRECTORIES:
            return
        parent = os.path.dirname(path)
        if parent == path:
            return
        self.mkdirs(parent)
        if not is_there:
            with suppress(FileExistsError):
                os.mkdir(path, 0o700 if self.private else 0o755 if self.closed_to_writers else 0o777)
            sync_path(parent)
        else:
            # Directories above the table may be unreadable, or on file systems that cannot sync directories.
            with suppress(OSError):
                sync_path(parent)
        _DURABLE_DIRECTORIES.add(path)

    def _write_temporary(self, path: str, data: bytes, durable: bool) -> str:
        """Write a hidden file next to it, with a name in Java's form, which the clean-up of orphans recognises."""
        directory, name = os.path.split(path)
        temporary = os.path.join(directory, f".{name}.{uuid.uuid4()}.tmp")
        self._write_new(temporary, data, durable)
        return temporary

    def _write_new(self, path: str, data: bytes, durable: bool) -> None:
        descriptor = self._written(path, data)
        try:
            if durable:
                with naming_file(path):
                    os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _written(self, path: str, data: bytes) -> int:
        """A new file with this content, still open."""
        directory = os.path.dirname(path)
        if directory not in _DURABLE_DIRECTORIES:
            self.mkdirs(directory)
        try:
            descriptor = self._created(path)
        except FileNotFoundError:  # another process has removed the directory
            self.mkdirs(directory)
            descriptor = self._created(path)
        try:
            left = memoryview(data)
            while left:
                with naming_file(path):
                    left = left[os.write(descriptor, left) :]
        except BaseException:
            os.close(descriptor)
            self.delete(path)  # unreferenced: this call has just created it
            raise
        return descriptor

    def _created(self, path: str) -> int:
        mode = 0o600 if self.private else 0o644 if self.closed_to_writers else 0o666
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)


_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Add the file to the error of a write without space; the system names a file only in errors of opening it."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:  # a failed read of the source has another file
            error.filename = error.filename or path
        raise


def _link(temporary: str, path: str) -> bool:
    """Give the file its final name; False if the name is taken."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if os.path.exists(path):
            # A network file system may report EEXIST for a link that its own lost first try created.
            return os.path.samefile(temporary, path)
        if error.errno in {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}:
            raise ConfigError(
                f"the file system of {path} does not support hard links ({error.strerror}), so a commit could "
                "overwrite another one. Move the warehouse to a file system that supports them"
            ) from error
        raise
    return True


def file_io_for(uri: str, options: Mapping[str, str] | None = None) -> tuple[FileIO, str]:
    """The storage of a path or URI and the path to use with it.

    ``file:`` URIs and plain paths are local (made absolute); ``s3://bucket/key`` and ``s3a://`` go to S3 with
    ``options`` (see ``s3_io``). Raises ConfigError for other schemes and for Windows paths.
    """
    if is_windows_path(uri):
        raise ConfigError(f"{uri}: {NO_WINDOWS_PATHS}")
    parts = urlsplit(uri)
    if parts.scheme in {"s3", "s3a"}:
        from paimon_table.storage.s3_io import s3_file_io

        names = [name for name in parts.path.split("/") if name]
        if {".", ".."} & {*names}:
            raise ConfigError(f"{uri!r}: a path on S3 has no '.' or '..'; write the whole path")
        return s3_file_io(options or {}), "/".join((f"s3://{parts.netloc}", *names))
    if parts.scheme == "file":
        if parts.netloc not in {"", "localhost"}:
            raise ConfigError(f"{uri!r} contains the host {parts.netloc!r}; write file:///path with three slashes")
        return LocalFileIO(), os.path.abspath(unquote(parts.path))
    if "://" in uri:
        raise ConfigError(f"{uri!r}: scheme {parts.scheme!r} is not supported; use file:// or s3://")
    return LocalFileIO(), os.path.abspath(uri)


_MOST_DIGITS = 18
"""The most digits of numbers in file names, far above any real number."""


def numbers_of(names: Iterable[str], prefix: str) -> list[int]:
    """The numbers in names of the form ``prefix`` and a number, sorted; ignores other names."""
    ends = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    digits = (end for end in ends if end.isascii() and end.isdigit() and len(end) <= _MOST_DIGITS)
    return [int(end) for end in digits if end == "0" or not end.startswith("0")]
