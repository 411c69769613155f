"""Table files on S3 and on stores that speak its protocol.

Requests go through obstore, which takes a tenth of the processor time that botocore takes for one. botocore finds out
where the store is and who asks: regions, profiles, roles and certificates, as for every AWS client. Files that are read
in pieces go through pyarrow's S3 file system, which reads pieces side by side.

Publishing creates an object on condition that none has the name (``If-None-Match: *``), which makes it atomic. A store
that ignores the condition would let commits overwrite each other, so the first publish of a process tries it out.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from paimon_table.errors import CommitOutcomeUnknown, ConfigError
from paimon_table.storage.secret import Secret

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs
    from obstore.store import S3Credential, S3Store

    from paimon_table.storage.file_io import FoundFile

_CONFLICT_RETRIES = 5
_CONFLICT_WAIT_S = 0.1
_WRITES_AT_ONCE = 8
_PART_BYTES = 10 << 20
"""A file up to this size is one request; a larger one goes in parts of it."""
_ATTEMPTS = 3
"""Of a request, unless the settings of AWS say otherwise."""
_LOGIN_AGE = timedelta(minutes=5)
"""How long botocore's answer is used before it is asked again; it renews logins 10 minutes before they end."""
_CONNECT_TIME = timedelta(seconds=20)
_SILENT_TIME = timedelta(seconds=60)
"""Without a byte of an answer, until a request has failed."""
_REQUEST_TIME = timedelta(minutes=10)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to reach the store. What is not set comes from the environment, as for every AWS client."""

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
    _aws(settings)
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
        import obstore

        store, key = self._at(path)
        return _asked(path, lambda: bytes(obstore.get(store, key).bytes()))

    def open_input(self, path: str) -> pa.NativeFile:
        return _arrow(self.settings).open_input_file(path.removeprefix("s3://"))

    def write(self, path: str, data: bytes, durable: bool = True) -> None:
        import obstore

        store, key = self._at(path)
        _asked(path, lambda: obstore.put(store, key, data, chunk_size=_PART_BYTES))

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        if len(files) == 1:
            self.write(*files[0])
            return
        with ThreadPoolExecutor(_WRITES_AT_ONCE, thread_name_prefix="tidemark-writes") as threads:
            for _ in threads.map(lambda file: self.write(*file), files):
                pass

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        import obstore
        import pyarrow as pa

        store, key = self._at(path)
        writer = obstore.open_writer(store, key, buffer_size=_PART_BYTES)
        try:
            with translated(path), pa.PythonFile(_Uploading(writer), mode="w") as stream:
                yield stream
            _asked(path, writer.close)
        except BaseException:
            # Closing may have completed the upload. Unreferenced: the caller never learned that the file is complete.
            self.delete(path)
            raise

    def sync(self) -> None:
        """Uploads are durable when they are complete."""

    def publish(self, path: str, data: bytes) -> bool:
        store, key = self._at(path)
        _check_conditional_put(self, path)
        return _put_if_absent(store, key, path, data)

    def exists(self, path: str) -> bool:
        try:
            self.size_bytes(path)
        except FileNotFoundError:
            return False
        return True

    def list_names(self, directory: str) -> list[str]:
        found, below, start = self._children(directory)
        return sorted({path[start:] for path in (*(one["path"] for one in found), *below)} - {""})

    def list_files(self, directory: str) -> list[FoundFile]:
        from paimon_table.storage.file_io import FoundFile  # Arrow comes with it

        found, _, start = self._children(directory)
        return [FoundFile(one["path"][start:], one["size"], _ms(one["last_modified"])) for one in found]

    def delete(self, path: str) -> None:
        self.delete_all([path])

    def delete_all(self, paths: Sequence[str]) -> None:
        """One request per object, a few at a time: not every store takes the request that removes many."""
        import obstore

        keys: dict[str, list[str]] = {}
        for path in paths:
            bucket, key = _split(path)
            keys.setdefault(bucket, []).append(key)
        for bucket, of_bucket in keys.items():
            delete = partial(obstore.delete, _store(self.settings, bucket), of_bucket)
            _asked(paths[0], delete)

    def delete_if_empty(self, directory: str) -> bool:
        """Keys need no directories."""
        return True

    def modified_ms(self, path: str) -> int:
        return _ms(self._head(path)["last_modified"])

    def delete_tree(self, directory: str) -> None:
        import obstore

        store, key = self._at(directory.rstrip("/"))
        found = _asked(directory, lambda: [one["path"] for page in obstore.list(store, key) for one in page])
        _asked(directory, lambda: obstore.delete(store, found))

    def is_link(self, path: str) -> bool:
        """Object stores have none."""
        return False

    def size_bytes(self, path: str) -> int:
        return int(self._head(path)["size"])

    def mkdirs(self, path: str) -> None:
        """Keys need no directories."""

    def _at(self, path: str) -> tuple[S3Store, str]:
        bucket, key = _split(path)
        return _store(self.settings, bucket), key

    def _head(self, path: str) -> Any:
        import obstore

        store, key = self._at(path)
        return _asked(path, lambda: obstore.head(store, key))

    def _children(self, directory: str) -> tuple[Sequence[Any], Sequence[str], int]:
        """The objects and the directories in a directory, and where their names begin in their paths."""
        import obstore

        store, key = self._at(directory.rstrip("/"))
        start = len(key) + 1 if key else 0
        found = _asked(directory, lambda: obstore.list_with_delimiter(store, key or None))
        return [one for one in found["objects"] if len(one["path"]) > start], found["common_prefixes"], start


class _Uploading:
    """What Arrow needs of a file to write into it. Closing does nothing: a failed upload must not be completed."""

    closed = False

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, data: Any) -> int:
        return int(self._writer.write(memoryview(data).cast("B")))

    def flush(self) -> None:
        """Parts are sent when they are full."""

    def close(self) -> None:
        self.closed = True


def _ms(time_of_store: datetime) -> int:
    return int(time_of_store.timestamp() * 1000)


def _split(path: str) -> tuple[str, str]:
    bucket, _, key = path.removeprefix("s3://").partition("/")
    return bucket, key


def _put_if_absent(store: S3Store, key: str, path: str, data: bytes) -> bool:
    """False when the object exists, whoever wrote it: a retried request may have found its own first try."""
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError

    for _ in range(_CONFLICT_RETRIES):
        try:
            _heard(lambda: obstore.put(store, key, data, mode="create", use_multipart=False))
            return True
        except (BaseError, OSError) as error:
            status = _status(error)
            if status == 409:  # another writer is at this key right now
                time.sleep(_CONFLICT_WAIT_S)
            elif isinstance(error, AlreadyExistsError):
                return False
            elif status is not None and 400 <= status < 500:
                raise _os_error(error, path) from error
            else:
                raise CommitOutcomeUnknown(
                    f"{path} may or may not have been created ({_short(error)}); read it before retrying"
                ) from error
    raise CommitOutcomeUnknown(f"other writers keep writing {path}; read it before retrying")


_honouring: set[tuple[S3Settings, str]] = set()
"""The buckets whose store this process has seen refuse an object in the place of another."""


def _check_conditional_put(io: S3FileIO, path: str) -> None:
    """Refuse a store that overwrites an object in spite of the condition; tried out below a table, once per bucket."""
    bucket = _split(path)[0]
    if (io.settings, bucket) in _honouring:
        return
    probe = f"{path.rsplit('/', 2)[0]}/.tidemark-probe-{uuid.uuid4()}"
    store, key = io._at(probe)
    io.write(probe, b"1")
    try:
        if _put_if_absent(store, key, probe, b"2"):
            raise ConfigError(
                f"the store of bucket {bucket!r} ignores If-None-Match, so a commit could overwrite another one; use a "
                "store with conditional writes or another warehouse"
            )
    finally:
        io.delete(probe)
    _honouring.add((io.settings, bucket))


@lru_cache(maxsize=16)
def _aws(settings: S3Settings, region: str | None = None) -> tuple[Any, Any]:
    """botocore's session and client, which know where AWS has a bucket and who may ask for it."""
    try:
        import obstore  # noqa: F401
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
        from botocore.session import get_session
    except ImportError as error:
        raise ConfigError(
            f"tables on S3 need the packages obstore and botocore ({error}); install tidemark-cdc[s3]"
        ) from error
    session = get_session()
    try:
        client = session.create_client(
            "s3",
            endpoint_url=settings.endpoint,
            region_name=region or settings.region or ("us-east-1" if settings.endpoint else None),
            aws_access_key_id=_revealed(settings.access_key),
            aws_secret_access_key=_revealed(settings.secret_key),
            aws_session_token=_revealed(settings.session_token),
            config=Config(connect_timeout=5, read_timeout=5),
        )
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(
            f"cannot create a client for S3 ({error}); check s3.endpoint (a URL such as http://HOST:PORT), s3.region"
            " and the AWS settings of the environment"
        ) from error
    return session, client


@lru_cache(maxsize=64)
def _store(settings: S3Settings, bucket: str) -> S3Store:
    from obstore.store import S3Store

    session, client = _aws(settings)
    if client.meta.endpoint_url.endswith(".amazonaws.com"):
        session, client = _aws(settings, region_of(client, bucket))
    authority = session.get_config_variable("ca_bundle")
    return S3Store(
        bucket,
        endpoint=client.meta.endpoint_url,
        region=client.meta.region_name,
        virtual_hosted_style_request=False,
        disable_bulk_delete=True,
        client_options={
            "allow_http": client.meta.endpoint_url.startswith("http:"),
            "user_agent": "tidemark",
            "connect_timeout": _CONNECT_TIME,
            "read_timeout": _SILENT_TIME,
            "timeout": _REQUEST_TIME,
            **({"root_certificate": Path(authority).read_bytes()} if authority else {}),
        },
        retry_config={"max_retries": int(session.get_config_variable("max_attempts") or _ATTEMPTS) - 1},
        credential_provider=_Login(client._request_signer._credentials, bucket),
    )


def region_of(client: Any, bucket: str) -> str:
    """The region in which AWS has a bucket; the configured one if AWS does not say."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        answer = client.head_bucket(Bucket=bucket)
    except ClientError as error:  # a refusal names the region too
        answer = error.response
    except BotoCoreError:  # the requests for objects will say what is wrong
        answer = {}
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return str(headers.get("x-amz-bucket-region") or client.meta.region_name)


class _Login:
    """Gives obstore the keys that botocore finds, again and again, since those of a role end."""

    def __init__(self, credentials: Any, bucket: str) -> None:
        self._credentials = credentials
        self._bucket = bucket

    def __call__(self) -> S3Credential:
        if self._credentials is None:
            raise PermissionError(
                f"no AWS credentials were found for bucket {self._bucket!r}; set s3.access-key and s3.secret-key, or"
                " credentials of AWS in the environment"
            )
        keys = self._credentials.get_frozen_credentials()
        return {
            "access_key_id": keys.access_key,
            "secret_access_key": keys.secret_key,
            "token": keys.token,
            "expires_at": datetime.now(UTC) + _LOGIN_AGE,
        }


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
    )


def _asked(path: str, ask: Callable[[], _T]) -> _T:
    """The answer of the store; raises what ``translated`` makes of its errors."""
    with translated(path):
        return _heard(ask)


def _heard(ask: Callable[[], _T]) -> _T:
    """The answer of the store. The main thread lets another one wait for it: obstore holds back signals meanwhile."""
    if threading.current_thread() is not threading.main_thread():
        return ask()
    answer: Future[_T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    # A daemon: the process may end although the store does not answer.
    threading.Thread(target=run, name="tidemark-store", daemon=True).start()
    return answer.result()


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Errors of obstore as the OSErrors that FileIO promises."""
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: {_short(error)}") from error
    except (BaseError, ValueError) as error:
        raise _os_error(error, path) from error


_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_PASSING = frozenset(("SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestTimeout"))
"""Codes with which stores ask for patience, whatever the status."""


def _short(error: BaseException) -> str:
    """Its first paragraph; the rest repeats it in the words of the library's data structures."""
    return str(error).split("\n\n", 1)[0].strip()


def _status(error: BaseException) -> int | None:
    """The status of the store's answer; None if there was none."""
    found = _STATUS.search(_short(error))
    return int(found[1]) if found else None


def _os_error(error: BaseException, path: str) -> OSError:
    text = f"{path}: {_short(error)}"
    status, code = _status(error), _CODE.search(text)
    if status == 404:
        return FileNotFoundError(text)
    if status in {401, 403} or "no AWS credentials" in text:
        return PermissionError(text)
    if isinstance(error, ValueError):  # a name that cannot be a key
        return OSError(text)
    if status is None:  # not reached, not answered in time, cut off
        return ConnectionError(text)
    is_passing = status in {408, 429} or status >= 500 or (code is not None and code[1] in _PASSING)
    return ConnectionError(text) if is_passing else OSError(text)
