"""Table files on S3 and on stores that speak its protocol.

Writes go through pyarrow's S3 file system, at a third of the processor time that botocore takes for a request. Whole
reads and all publishing go through botocore. It reads an object in one request, and only it can create one on condition
that none has the name (``If-None-Match: *``), which makes publishing atomic. A store that ignores the condition would
let commits overwrite each other, so the first publish of a process tries it out.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from paimon_table.errors import CommitOutcomeUnknown, ConfigError
from paimon_table.storage.secret import Secret

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs

    from paimon_table.storage.file_io import FoundFile

_CONFLICT_RETRIES = 5
_CONFLICT_WAIT_S = 0.1
_DELETES_AT_ONCE = 8
_WRITES_AT_ONCE = 8
_CONNECTIONS = 128
"""Kept open: commits of many tables, each with some files of its own, wait for the store at the same time."""


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to reach the store. Settings that are not stated come from the environment, as for every AWS client."""

    endpoint: str | None = None
    region: str | None = None
    access_key: Secret | None = None
    secret_key: Secret | None = None
    session_token: Secret | None = None
    path_style_access: bool = False


_NAMES = {f"s3.{f.name.replace('_', '-')}": f.name for f in fields(S3Settings)}
_NAMES["s3.path.style.access"] = "path_style_access"
_SECRETS = frozenset({"access_key", "secret_key", "session_token"})


def s3_file_io(options: Mapping[str, str]) -> S3FileIO:
    """S3 storage from the options ``s3.endpoint``, ``s3.access-key`` and so on; ConfigError for unknown names."""
    values: dict[str, Any] = {}
    for name, text in options.items():
        if name not in _NAMES:
            raise ConfigError(f"storage option {name!r} is unknown; known: {', '.join(sorted(_NAMES))}")
        values[_NAMES[name]] = _value(_NAMES[name], text)
    settings = S3Settings(**values)
    _client(settings)
    return S3FileIO(settings)


def _value(field: str, text: str) -> str | bool | Secret:
    if field == "path_style_access":
        return text.strip().lower() == "true"
    return Secret.of(text) if field in _SECRETS else text


def _revealed(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()


@dataclass(frozen=True, slots=True)
class S3FileIO:
    """Objects under ``s3://bucket/key`` paths. Every write is durable when it returns; directories do not exist."""

    settings: S3Settings

    def read(self, path: str) -> bytes:
        bucket, key = _split(path)
        with translated(path):
            data: bytes = _client(self.settings).get_object(Bucket=bucket, Key=key)["Body"].read()
        return data

    def open_input(self, path: str) -> pa.NativeFile:
        return _arrow(self.settings).open_input_file(path.removeprefix("s3://"))

    def write(self, path: str, data: bytes, durable: bool = True) -> None:
        bucket, key = _split(path)
        try:
            with _arrow(self.settings).open_output_stream(path.removeprefix("s3://")) as stream:
                stream.write(data)
            return
        except (OSError, ValueError):  # again, with longer retries and a clear error
            pass
        with translated(path):
            _client(self.settings).put_object(Bucket=bucket, Key=key, Body=data)

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        if len(files) == 1:
            self.write(*files[0])
            return
        with ThreadPoolExecutor(_WRITES_AT_ONCE, thread_name_prefix="tidemark-writes") as threads:
            for _ in threads.map(lambda file: self.write(*file), files):
                pass

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        try:
            with _arrow(self.settings).open_output_stream(path.removeprefix("s3://")) as stream:
                yield stream
        except BaseException:
            # Closing may have completed the upload. Unreferenced: the caller never learned that the file is complete.
            self.delete(path)
            raise

    def sync(self) -> None:
        """Uploads are durable when they are complete."""

    def publish(self, path: str, data: bytes) -> bool:
        bucket, key = _split(path)
        _check_conditional_put(self.settings, bucket, key.rsplit("/", 2)[0])
        return _put_if_absent(self.settings, bucket, key, data)

    def exists(self, path: str) -> bool:
        try:
            self.size_bytes(path)
        except FileNotFoundError:
            return False
        return True

    def list_names(self, directory: str) -> list[str]:
        bucket, prefix = _below(directory)
        names: set[str] = set()
        with translated(directory):
            pages = _client(self.settings).get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=bucket, Prefix=prefix, Delimiter="/"):
                names.update(found["Key"][len(prefix) :] for found in page.get("Contents", ()))
                names.update(found["Prefix"][len(prefix) :].rstrip("/") for found in page.get("CommonPrefixes", ()))
        return sorted(names - {""})

    def list_files(self, directory: str) -> list[FoundFile]:
        bucket, prefix = _below(directory)
        from paimon_table.storage.file_io import FoundFile  # Arrow comes with it

        found: list[FoundFile] = []
        with translated(directory):
            pages = _client(self.settings).get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=bucket, Prefix=prefix, Delimiter="/"):
                found += [
                    FoundFile(one["Key"][len(prefix) :], one["Size"], int(one["LastModified"].timestamp() * 1000))
                    for one in page.get("Contents", ())
                    if one["Key"] != prefix
                ]
        return found

    def delete(self, path: str) -> None:
        bucket, key = _split(path)
        with translated(path):
            _client(self.settings).delete_object(Bucket=bucket, Key=key)

    def delete_all(self, paths: Sequence[str]) -> None:
        """One request per object, a few at a time: not every store takes the request that removes many."""
        if paths:
            with ThreadPoolExecutor(
                min(_DELETES_AT_ONCE, len(paths)), thread_name_prefix="tidemark-deletes"
            ) as threads:
                for _ in threads.map(self.delete, paths):
                    pass

    def delete_if_empty(self, directory: str) -> bool:
        """Keys need no directories."""
        return True

    def modified_ms(self, path: str) -> int:
        bucket, key = _split(path)
        with translated(path):
            return int(_client(self.settings).head_object(Bucket=bucket, Key=key)["LastModified"].timestamp() * 1000)

    def delete_tree(self, directory: str) -> None:
        """One request per object: not every store takes the request that removes many."""
        bucket, prefix = _below(directory)
        with translated(directory):
            client = _client(self.settings)
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                for found in page.get("Contents", ()):
                    client.delete_object(Bucket=bucket, Key=found["Key"])

    def is_link(self, path: str) -> bool:
        """Object stores have none."""
        return False

    def size_bytes(self, path: str) -> int:
        bucket, key = _split(path)
        with translated(path):
            return int(_client(self.settings).head_object(Bucket=bucket, Key=key)["ContentLength"])

    def mkdirs(self, path: str) -> None:
        """Keys need no directories."""


def _split(path: str) -> tuple[str, str]:
    bucket, _, key = path.removeprefix("s3://").partition("/")
    return bucket, key


def _below(directory: str) -> tuple[str, str]:
    """The bucket and the prefix of all keys in a directory, which may be the whole bucket."""
    bucket, key = _split(directory.rstrip("/"))
    return bucket, f"{key}/" if key else ""


def _put_if_absent(settings: S3Settings, bucket: str, key: str, data: bytes) -> bool:
    """False if the object exists, whichever process wrote it: a retried request may have found its own first try."""
    from botocore.exceptions import BotoCoreError, ClientError

    for _ in range(_CONFLICT_RETRIES):
        try:
            _client(settings).put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
            return True
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status == 412:
                return False
            if status == 409:
                time.sleep(_CONFLICT_WAIT_S)
            elif 400 <= status < 500:
                raise _os_error(error, f"s3://{bucket}/{key}") from error
            else:
                raise CommitOutcomeUnknown(
                    f"s3://{bucket}/{key} may or may not have been created ({error}); read it before retrying"
                ) from error
        except BotoCoreError as error:
            raise CommitOutcomeUnknown(
                f"s3://{bucket}/{key} may or may not have been created ({error}); read it before retrying"
            ) from error
    raise CommitOutcomeUnknown(f"other writers keep writing s3://{bucket}/{key}; read it before retrying")


_honouring: set[tuple[S3Settings, str]] = set()
"""The buckets whose store this process has seen refuse an object in the place of another."""


def _check_conditional_put(settings: S3Settings, bucket: str, directory: str) -> None:
    """Refuse a store that overwrites an object in spite of the condition; tried out below a table, once per bucket."""
    if (settings, bucket) in _honouring:
        return
    probe = f"{directory}/.tidemark-probe-{uuid.uuid4()}"
    io = S3FileIO(settings)
    io.write(f"s3://{bucket}/{probe}", b"1")
    try:
        if _put_if_absent(settings, bucket, probe, b"2"):
            raise ConfigError(
                f"the store of bucket {bucket!r} ignores If-None-Match, so a commit could overwrite another one; use a "
                "store with conditional writes or another warehouse"
            )
    finally:
        io.delete(f"s3://{bucket}/{probe}")
    _honouring.add((settings, bucket))


@lru_cache(maxsize=16)
def _client(settings: S3Settings) -> Any:
    try:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
        from botocore.session import get_session
    except ImportError as error:
        raise ConfigError("tables on S3 need the package botocore; install it, or tidemark-cdc[s3]") from error
    style = {"addressing_style": "path" if settings.path_style_access else "auto"}
    try:
        return get_session().create_client(
            "s3",
            endpoint_url=settings.endpoint,
            region_name=settings.region or ("us-east-1" if settings.endpoint else None),
            aws_access_key_id=_revealed(settings.access_key),
            aws_secret_access_key=_revealed(settings.secret_key),
            aws_session_token=_revealed(settings.session_token),
            config=Config(
                s3=style,
                user_agent="tidemark",  # the one of botocore is worked out again for each request
                request_checksum_calculation="when_required",
                retries={"mode": "standard"},
                max_pool_connections=_CONNECTIONS,
            ),
        )
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(
            f"cannot create a client for S3 ({error}); check s3.endpoint (a URL such as http://HOST:PORT), s3.region"
            " and the AWS settings of the environment"
        ) from error


@lru_cache(maxsize=16)
def _arrow(settings: S3Settings) -> pafs.S3FileSystem:
    import pyarrow.fs as pafs

    scheme, _, host = (settings.endpoint or "").rpartition("://")
    return pafs.S3FileSystem(
        access_key=_revealed(settings.access_key),
        secret_key=_revealed(settings.secret_key),
        session_token=_revealed(settings.session_token),
        region=settings.region or ("us-east-1" if settings.endpoint else None),
        endpoint_override=host or None,
        scheme=scheme or "https",
        force_virtual_addressing=False,
        # A file of a few megabytes is one request then, instead of the three of an upload in parts.
        allow_delayed_open=True,
    )


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Errors of the client library as the OSErrors that FileIO promises."""
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError
    from botocore.exceptions import ConnectionError as NotReached

    try:
        yield
    except ClientError as error:
        raise _os_error(error, path) from error
    except (HTTPClientError, NotReached) as error:  # not reached, not answered in time, cut off
        raise ConnectionError(f"{path}: {error}") from error
    except NoCredentialsError as error:
        raise PermissionError(f"{path}: {error}") from error
    except BotoCoreError as error:
        raise OSError(f"{path}: {error}") from error


_THROTTLED = frozenset(("SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestTimeout"))
"""Codes with which stores ask for patience, whatever the status."""


def _os_error(error: Any, path: str) -> OSError:
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    code = error.response.get("Error", {}).get("Code")
    if status == 404:
        return FileNotFoundError(f"{path}: {error}")
    if status in {401, 403}:
        return PermissionError(f"{path}: {error}")
    is_passing = status in {408, 429} or status >= 500 or code in _THROTTLED
    return ConnectionError(f"{path}: {error}") if is_passing else OSError(f"{path}: {error}")
