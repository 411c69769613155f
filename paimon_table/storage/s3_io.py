"""Table files on S3 and on stores with its protocol.

obstore reads and writes, with a tenth of botocore's processor time per request. botocore lists and deletes, because
obstore refuses keys that are not paths, such as ``directory/``. pyarrow's S3 file system reads files in pieces, several
at a time.

Publishing creates an object only if the name is free (``If-None-Match: *``), which makes it atomic. With a store that
ignores the condition, commits could overwrite each other, so the first publish of a process tests it.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import datetime
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, TypeVar

from paimon_table.errors import CommitOutcomeUnknown, ConfigError
from paimon_table.side_by_side import in_parallel
from paimon_table.storage.s3_clients import S3Settings, arrow_files, aws, store_of
from paimon_table.storage.s3_errors import answer_of, translated
from paimon_table.storage.secret import Secret

if TYPE_CHECKING:
    import pyarrow as pa
    from obstore.store import S3Store

    from paimon_table.storage.file_io import FoundFile

_CONFLICT_RETRIES = 5
_CONFLICT_WAIT_S = 0.1
_WRITES_AT_ONCE = 8
_DELETES_AT_ONCE = 8
_PART_BYTES = 8 << 20
"""A file up to this size is one request; a larger one is sent in parts of this size."""
_PARTS: Mapping[str, Any] = {"chunk_size": _PART_BYTES, "max_concurrency": 2}

_T = TypeVar("_T")

_honouring: set[tuple[S3Settings, str]] = set()
"""The buckets whose store has passed this test in this process."""

_NAMES = {f"s3.{f.name.replace('_', '-')}": f.name for f in fields(S3Settings)}
_NAMES["s3.path.style.access"] = "path_style_access"
_SECRETS = frozenset({"access_key", "secret_key", "session_token"})


def s3_file_io(options: Mapping[str, str]) -> S3FileIO:
    """S3 storage from the options ``s3.endpoint``, ``s3.access-key`` and so on; raises ConfigError for unknown
    names."""
    values: dict[str, Any] = {}
    for name, text in options.items():
        if name not in _NAMES:
            raise ConfigError(f"storage option {name!r} is unknown; known: {', '.join(sorted(_NAMES))}")
        values[_NAMES[name]] = _value(_NAMES[name], text)
    settings = S3Settings(**values)
    aws(settings)
    return S3FileIO(settings)


def _value(field: str, text: str) -> str | bool | Secret:
    if field == "path_style_access":
        return text.strip().lower() == "true"
    return Secret.of(text) if field in _SECRETS else text


@dataclass(frozen=True, slots=True)
class S3FileIO:
    """Objects under ``s3://bucket/key`` paths. Every write is durable when it returns; directories do not exist."""

    settings: S3Settings

    def read(self, path: str) -> bytes:
        import obstore

        store, key = self._at(path)
        return _asked(path, lambda: bytes(obstore.get(store, key).bytes()))

    def open_input(self, path: str) -> pa.NativeFile:
        return arrow_files(self.settings, _split(path)[0]).open_input_file(path.removeprefix("s3://"))

    def write(self, path: str, data: bytes, durable: bool = True) -> None:
        import obstore

        store, key = self._at(path)
        _asked(path, lambda: obstore.put(store, key, data, **_PARTS))

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        for _ in in_parallel(lambda file: self.write(*file), files, _WRITES_AT_ONCE):
            pass

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """Sends nothing before the end of the block. A large file waits on the local disk."""
        import obstore
        import pyarrow as pa

        store, key = self._at(path)
        with SpooledTemporaryFile(max_size=_PART_BYTES, prefix="tidemark-upload-") as file:
            with pa.PythonFile(_LeftOpen(file), mode="w") as stream:
                yield stream
            file.seek(0)
            try:
                _asked(path, lambda: obstore.put(store, key, file, **_PARTS))
            except BaseException:
                # The store may still have the file. Unreferenced: the caller does not know that it is complete.
                with suppress(OSError):
                    self.delete(path)
                raise

    def sync(self) -> None:
        """Nothing to do: complete uploads are durable."""

    def publish(self, path: str, data: bytes) -> bool:
        self._check_conditional_put(path)
        return self._put_if_absent(path, data)

    def exists(self, path: str) -> bool:
        try:
            self.size_bytes(path)
        except FileNotFoundError:
            return False
        return True

    def list_names(self, directory: str) -> list[str]:
        _, prefix = _below(directory)
        names: set[str] = set()
        for page in self._pages(directory, Delimiter="/"):
            names.update(found["Key"][len(prefix) :] for found in page.get("Contents", ()))
            names.update(found["Prefix"][len(prefix) :].rstrip("/") for found in page.get("CommonPrefixes", ()))
        return sorted(names - {""})

    def list_files(self, directory: str) -> list[FoundFile]:
        from paimon_table.storage.file_io import FoundFile  # this import loads Arrow

        _, prefix = _below(directory)
        return [
            FoundFile(one["Key"][len(prefix) :], one["Size"], _ms(one["LastModified"]))
            for page in self._pages(directory, Delimiter="/")
            for one in page.get("Contents", ())
            if one["Key"] != prefix
        ]

    def _pages(self, directory: str, **more: str) -> Iterator[Any]:
        """The pages of a listing, by botocore, because obstore fails if one key is not a path."""
        bucket, prefix = _below(directory)
        with translated(directory):
            pages = aws(self.settings)[1].get_paginator("list_objects_v2")
            yield from pages.paginate(Bucket=bucket, Prefix=prefix, **more)

    def delete(self, path: str) -> None:
        bucket, key = _split(path)
        with translated(path):
            aws(self.settings)[1].delete_object(Bucket=bucket, Key=key)

    def delete_all(self, paths: Sequence[str]) -> None:
        """One request per object, a few at a time: not every store takes the request that removes many."""
        for _ in in_parallel(self.delete, paths, _DELETES_AT_ONCE):
            pass

    def delete_if_empty(self, directory: str) -> bool:
        """Keys need no directories."""
        return True

    def modified_ms(self, path: str) -> int:
        return _ms(self._head(path)["last_modified"])

    def delete_tree(self, directory: str) -> None:
        """One request per object: not every store takes the request that removes many."""
        bucket, _ = _below(directory)
        for page in self._pages(directory):
            for found in page.get("Contents", ()):
                self.delete(f"s3://{bucket}/{found['Key']}")

    def is_link(self, path: str) -> bool:
        """False: object stores have no links."""
        return False

    def size_bytes(self, path: str) -> int:
        return int(self._head(path)["size"])

    def mkdirs(self, path: str) -> None:
        """Keys need no directories."""

    def _at(self, path: str) -> tuple[S3Store, str]:
        bucket, key = _split(path)
        return store_of(self.settings, bucket), key

    def _head(self, path: str) -> Any:
        import obstore

        store, key = self._at(path)
        return _asked(path, lambda: obstore.head(store, key))

    def _check_conditional_put(self, path: str) -> None:
        """Raises an error for a store that ignores the condition; tested below a table, once per bucket."""
        bucket = _split(path)[0]
        if (self.settings, bucket) in _honouring:
            return
        probe = f"{path.rsplit('/', 2)[0]}/.tidemark-probe-{uuid.uuid4()}"
        self.write(probe, b"1")
        try:
            if self._put_if_absent(probe, b"2"):
                raise ConfigError(
                    f"the store of bucket {bucket!r} ignores If-None-Match, so a commit could overwrite another one; "
                    "use a store with conditional writes"
                )
        finally:
            self.delete(probe)
        _honouring.add((self.settings, bucket))

    def _put_if_absent(self, path: str, data: bytes) -> bool:
        """False if the object exists, whoever wrote it: a retried request may find the object of its first try."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        store, key = self._at(path)
        for _ in range(_CONFLICT_RETRIES):
            try:
                _heard(lambda: obstore.put(store, key, data, mode="create", use_multipart=False))
                return True
            except AlreadyExistsError as error:
                if answer_of(error).status != 409:
                    return False
                time.sleep(_CONFLICT_WAIT_S)  # another writer is writing this key
            except (BaseError, OSError) as error:
                answer = answer_of(error)
                if answer.is_refused and not answer.is_repeated:
                    raise answer.os_error(path) from None
                raise CommitOutcomeUnknown(
                    f"{path} may or may not have been created ({answer.text}); read it before retrying"
                ) from None
        raise CommitOutcomeUnknown(f"other writers keep writing {path}; read it before retrying")


class _LeftOpen:
    """A file for Arrow to write; closing it keeps the wrapped file open."""

    closed = False

    def __init__(self, file: SpooledTemporaryFile[bytes]) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        """Nothing to do, because only this process reads the file."""

    def close(self) -> None:
        self.closed = True


def _ms(time_of_store: datetime) -> int:
    return int(time_of_store.timestamp() * 1000)


def _split(path: str) -> tuple[str, str]:
    bucket, _, key = path.removeprefix("s3://").partition("/")
    return bucket, key


def _below(directory: str) -> tuple[str, str]:
    """The bucket and the prefix of all keys in a directory, which may be the whole bucket."""
    bucket, key = _split(directory.rstrip("/"))
    return bucket, f"{key}/" if key else ""


def _asked(path: str, ask: Callable[[], _T]) -> _T:
    """The response of the store; raises the errors of ``translated``."""
    with translated(path):
        return _heard(ask)


def _heard(ask: Callable[[], _T]) -> _T:
    """The response of the store. In the main thread, another thread waits for it, because obstore blocks signals."""
    if threading.current_thread() is not threading.main_thread():
        return ask()
    answer: Future[_T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    # A daemon thread, so that the process can end even if the store does not respond.
    threading.Thread(target=run, name="tidemark-store", daemon=True).start()
    return answer.result()
