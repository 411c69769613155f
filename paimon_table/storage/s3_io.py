"""Table files on S3 and on stores that speak its protocol.

Reading and writing goes through obstore, which takes a tenth of the processor time that botocore takes for a request.
botocore finds out where the store is and who asks: regions, profiles, roles and certificates, as for every AWS client.
It also lists and deletes, because obstore refuses keys that are no paths, such as ``directory/``. Files that are read
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from tempfile import SpooledTemporaryFile
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
_DELETES_AT_ONCE = 8
_PART_BYTES = 8 << 20
"""A file up to this size is one request; a larger one goes in parts of it."""
_PARTS: Mapping[str, Any] = {"chunk_size": _PART_BYTES, "max_concurrency": 2}
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ATTEMPTS = 3
"""Of a request, unless the settings of AWS say otherwise."""
_LOGIN_AGE = timedelta(minutes=5)
"""How long botocore's answer is good at most; it renews logins 10 minutes before they end."""
_CONNECT_TIME = timedelta(seconds=20)
_SILENT_TIME = timedelta(minutes=3)
"""Until a request without an answer has failed. It includes the time to send a part."""
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
        _asked(path, lambda: obstore.put(store, key, data, **_PARTS))

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        if len(files) == 1:
            self.write(*files[0])
            return
        with ThreadPoolExecutor(_WRITES_AT_ONCE, thread_name_prefix="tidemark-writes") as threads:
            for _ in threads.map(lambda file: self.write(*file), files):
                pass

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """Nothing is sent before the block ends. A large file waits on the local disk."""
        import obstore
        import pyarrow as pa

        store, key = self._at(path)
        with SpooledTemporaryFile(max_size=_PART_BYTES, prefix="tidemark-upload-") as file:
            with pa.PythonFile(_LeftOpen(file), mode="w") as stream:
                yield stream
            is_small = file.tell() <= _PART_BYTES
            file.seek(0)
            try:
                content = file.read() if is_small else file
                _asked(path, lambda: obstore.put(store, key, content, **_PARTS))
            except BaseException:
                # The store may have the file all the same. Unreferenced: the caller never learned that it is complete.
                with suppress(OSError):
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
        _, prefix = _below(directory)
        names: set[str] = set()
        for page in self._pages(directory, Delimiter="/"):
            names.update(found["Key"][len(prefix) :] for found in page.get("Contents", ()))
            names.update(found["Prefix"][len(prefix) :].rstrip("/") for found in page.get("CommonPrefixes", ()))
        return sorted(names - {""})

    def list_files(self, directory: str) -> list[FoundFile]:
        from paimon_table.storage.file_io import FoundFile  # Arrow comes with it

        _, prefix = _below(directory)
        return [
            FoundFile(one["Key"][len(prefix) :], one["Size"], _ms(one["LastModified"]))
            for page in self._pages(directory, Delimiter="/")
            for one in page.get("Contents", ())
            if one["Key"] != prefix
        ]

    def _pages(self, directory: str, **more: str) -> Iterator[Any]:
        """The pages of a listing. botocore reads them: obstore refuses a listing for one key that is no path."""
        bucket, prefix = _below(directory)
        with translated(directory):
            pages = _aws(self.settings)[1].get_paginator("list_objects_v2")
            yield from pages.paginate(Bucket=bucket, Prefix=prefix, **more)

    def delete(self, path: str) -> None:
        bucket, key = _split(path)
        with translated(path):
            _aws(self.settings)[1].delete_object(Bucket=bucket, Key=key)

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
        return _ms(self._head(path)["last_modified"])

    def delete_tree(self, directory: str) -> None:
        """One request per object: not every store takes the request that removes many."""
        bucket, _ = _below(directory)
        for page in self._pages(directory):
            for found in page.get("Contents", ()):
                self.delete(f"s3://{bucket}/{found['Key']}")

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


class _LeftOpen:
    """What Arrow needs of a file to write into it; closing leaves it open."""

    closed = False

    def __init__(self, file: SpooledTemporaryFile[bytes]) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        """The file is read in this process alone."""

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


def _put_if_absent(store: S3Store, key: str, path: str, data: bytes) -> bool:
    """False when the object exists, whoever wrote it: a retried request may have found its own first try."""
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError

    for _ in range(_CONFLICT_RETRIES):
        try:
            _heard(lambda: obstore.put(store, key, data, mode="create", use_multipart=False))
            return True
        except AlreadyExistsError as error:
            if _answer(error).status != 409:
                return False
            time.sleep(_CONFLICT_WAIT_S)  # another writer is at this key right now
        except (BaseError, OSError) as error:
            answer = _answer(error)
            if answer.is_refused and not answer.is_repeated:
                raise answer.os_error(path) from None
            raise CommitOutcomeUnknown(
                f"{path} may or may not have been created ({answer.text}); read it before retrying"
            ) from None
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
            config=Config(
                user_agent="tidemark",  # the one of botocore is worked out again for each request
                request_checksum_calculation="when_required",
                retries={"mode": "standard"},
                max_pool_connections=_DELETES_AT_ONCE,
            ),
        )
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(
            f"cannot create a client for S3 ({error}); check s3.endpoint (a URL such as http://HOST:PORT), s3.region"
            " and the AWS settings of the environment"
        ) from error
    return session, client


@lru_cache(maxsize=64)
def _store(settings: S3Settings, bucket: str) -> S3Store:
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    if not _BUCKET.fullmatch(bucket):
        raise ConfigError(f"{bucket!r} is no name of a bucket; write s3://BUCKET/PATH")
    session, client = _aws(settings)
    is_aws = ".amazonaws.com" in client.meta.endpoint_url
    if is_aws:
        session, client = _aws(settings, region_of(client, bucket))
    scheme, _, host = client.meta.endpoint_url.partition("://")
    in_host = is_aws and not settings.path_style_access and "." not in bucket
    authority = session.get_config_variable("ca_bundle")
    try:
        return S3Store(
            bucket,
            endpoint=f"{scheme.lower()}://{bucket}.{host}" if in_host else f"{scheme.lower()}://{host}",
            region=client.meta.region_name,
            virtual_hosted_style_request=in_host,
            conditional_put="etag",
            skip_signature=False,
            client_options={
                "allow_http": scheme.lower() == "http",
                "user_agent": "tidemark",
                "connect_timeout": _CONNECT_TIME,
                "read_timeout": _SILENT_TIME,
                "timeout": _REQUEST_TIME,
                **({"root_certificate": Path(authority).read_bytes()} if authority else {}),
            },
            retry_config={"max_retries": int(session.get_config_variable("max_attempts") or _ATTEMPTS) - 1},
            credential_provider=_Login(client._request_signer._credentials, bucket),
        )
    except (BaseError, OSError, ValueError, NotImplementedError) as error:
        raise ConfigError(
            f"cannot create a client for bucket {bucket!r} ({_first_line(error)}); check s3.endpoint, the certificates"
            " (AWS_CA_BUNDLE) and the AWS settings of the environment"
        ) from error


def region_of(client: Any, bucket: str) -> str:
    """The region in which AWS has a bucket; the configured one if it does not say. Raises OSError without an answer."""
    from botocore.exceptions import ClientError

    with translated(f"s3://{bucket}"):
        try:
            answer = client.head_bucket(Bucket=bucket)
        except ClientError as error:  # a refusal names the region too
            answer = error.response
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return str(headers.get("x-amz-bucket-region") or client.meta.region_name)


class _Login:
    """Gives obstore the keys that botocore finds, whenever it asks: those of a role end."""

    def __init__(self, credentials: Any, bucket: str) -> None:
        self._credentials = credentials
        self._bucket = bucket

    def __call__(self) -> S3Credential:
        from botocore.exceptions import BotoCoreError

        try:
            keys = None if self._credentials is None else self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise PermissionError(f"{_NO_LOGIN} for bucket {self._bucket!r}: {error}") from error
        if keys is None:
            raise PermissionError(
                f"{_NO_LOGIN} were found for bucket {self._bucket!r}; set s3.access-key and s3.secret-key, or"
                " credentials of AWS in the environment"
            )
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
    """Errors of obstore and botocore as the OSErrors that FileIO promises."""
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError
    from botocore.exceptions import ConnectionError as NotReached
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        # Without the error itself: its text repeats the whole answer, which may hold a token.
        raise _answer(error).os_error(path) from None
    except ValueError as error:  # a name that cannot be a key
        raise OSError(f"{path}: {_first_line(error)}") from error
    except ClientError as error:
        told = error.response.get("Error", {})
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        raise _Answer(str(error), status, told.get("Code"), is_repeated=False).os_error(path) from error
    except (HTTPClientError, NotReached) as error:  # not reached, not answered in time, cut off
        raise ConnectionError(f"{path}: {error}") from error
    except NoCredentialsError as error:
        raise PermissionError(f"{path}: {error}") from error
    except BotoCoreError as error:
        raise OSError(f"{path}: {error}") from error


_NO_LOGIN = "no AWS credentials"
_STATUS = re.compile(r"status code: ((\d{3})[^:<\n]*)")
_CODE, _MESSAGE = re.compile(r"<Code>(.*?)</Code>"), re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_CAUSE = re.compile(r'(?:message|error): "([^"]+)"|(invalid peer certificate: \w+|invalid peer certificate\(\w+\))')
_REPEATED = re.compile(r"after (\d+) retries")
_LOGIN = re.compile(rf"{_NO_LOGIN} [^\n]*")
_PASSING = frozenset(
    ("SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestTimeout", "NoSuchUpload")
)
"""Codes with which stores ask for patience, or forget the beginning of an upload, whatever the status."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the store has said to a request that failed."""

    text: str
    status: int | None
    """None if it has said nothing."""
    code: str | None
    is_repeated: bool
    """Whether this was not the first try, so an earlier one may have been carried out."""

    @property
    def is_refused(self) -> bool:
        """Whether the request was not carried out."""
        return self.text.startswith(_NO_LOGIN) or (self.status is not None and 400 <= self.status < 500)

    def os_error(self, path: str) -> OSError:
        text = f"{path}: {self.text}"
        if self.text.startswith(_NO_LOGIN) or self.status in {401, 403}:
            return PermissionError(text)
        if self.status is None or self.status in {408, 429} or self.status >= 500 or self.code in _PASSING:
            return ConnectionError(text)
        return FileNotFoundError(text) if self.status == 404 else OSError(text)


def _answer(error: BaseException) -> _Answer:
    """What an error of obstore says, which has it only as text. Nothing but code and message of the answer is taken."""
    text = str(error)
    login = _LOGIN.search(text)
    status, code, message = _STATUS.search(text), _CODE.search(text), _MESSAGE.search(text)
    cause = _CAUSE.search(text)
    if login is not None:
        said = login[0].rstrip("' )")
    elif status is not None:
        said = ", ".join([f"status code {status[1].strip()}", *(found[1] for found in (code, message) if found)])
    else:
        said = f"{_first_line(error)}{f' ({cause[1] or cause[2]})' if cause else ''}"
    repeated = _REPEATED.search(text)
    return _Answer(
        said,
        None if status is None else int(status[2]),
        None if code is None else code[1],
        is_repeated=repeated is not None and int(repeated[1]) > 0,
    )


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")
