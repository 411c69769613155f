"""The clients of a store on S3.

As for every AWS client, botocore finds the region of a bucket, profiles, roles and certificates. The other clients get
these facts from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paimon_table.errors import ConfigError
from paimon_table.storage.s3_errors import NO_LOGIN, first_line, translated
from paimon_table.storage.secret import Secret

if TYPE_CHECKING:
    import pyarrow.fs as pafs
    from obstore.store import S3Credential, S3Store

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_AWS = re.compile(r"https?://s3[.-].*amazonaws\.com(\.cn)?$")
"""AWS itself: neither a private endpoint nor another store."""
_CONNECTIONS = 128
"""The number of open connections: commits of many tables, each with some files, delete at the same time."""
_ATTEMPTS = 3
"""The timeout of a request, unless the AWS settings have another one."""
_LOGIN_AGE = timedelta(minutes=5)
"""The longest use of botocore's credentials, which it renews 10 minutes before they end."""
_CONNECT_TIME = timedelta(seconds=20)
_SILENT_TIME = timedelta(minutes=3)
"""The time until a request without a response fails. It includes the time to send a part."""
_REQUEST_TIME = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class S3Settings:
    """The access to the store. As for every AWS client, unset values come from the environment."""

    endpoint: str | None = None
    region: str | None = None
    access_key: Secret | None = None
    secret_key: Secret | None = None
    session_token: Secret | None = None
    path_style_access: bool = False


@lru_cache(maxsize=16)
def aws(settings: S3Settings, region: str | None = None) -> tuple[Any, Any]:
    """botocore's session and client, which have the region of a bucket and the credentials."""
    try:
        import obstore  # noqa: F401
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
        from botocore.session import get_session
    except ImportError as error:
        raise ConfigError(
            f"tables on S3 need the packages obstore and botocore ({error}); install tidemark-cdc[s3]"
        ) from error
    style = {"addressing_style": "path" if settings.path_style_access else "auto"}
    session = get_session()
    try:
        session.register_component("data_loader", _models(session.get_config_variable("data_path")))
        client = session.create_client(
            "s3",
            endpoint_url=settings.endpoint,
            region_name=region or settings.region or ("us-east-1" if settings.endpoint else None),
            aws_access_key_id=_revealed(settings.access_key),
            aws_secret_access_key=_revealed(settings.secret_key),
            aws_session_token=_revealed(settings.session_token),
            config=Config(
                s3=style,
                user_agent="tidemark",  # botocore would compute its own again for each request
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
    return session, client


@lru_cache(maxsize=1)
def _models(data_path: str | None) -> Any:
    """botocore's loader of its models of AWS. They are large: each session would read and keep its own copy."""
    from botocore.loaders import create_loader

    return create_loader(data_path)


@lru_cache(maxsize=64)
def store_of(settings: S3Settings, bucket: str) -> S3Store:
    """The client that reads and writes the objects of a bucket."""
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    session, client, is_aws = _place(settings, bucket)
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
            f"cannot create a client for bucket {bucket!r} ({first_line(error)}); check s3.endpoint, the certificates"
            " (AWS_CA_BUNDLE) and the AWS settings of the environment"
        ) from error


@lru_cache(maxsize=64)
def arrow_files(settings: S3Settings, bucket: str) -> pafs.S3FileSystem:
    """The client that reads objects in pieces."""
    import pyarrow.fs as pafs

    _, client, is_aws = _place(settings, bucket)
    scheme, _, host = client.meta.endpoint_url.partition("://")
    return pafs.S3FileSystem(
        access_key=_revealed(settings.access_key),
        secret_key=_revealed(settings.secret_key),
        session_token=_revealed(settings.session_token),
        region=client.meta.region_name,
        endpoint_override=None if is_aws else host,
        scheme=scheme.lower(),
        force_virtual_addressing=False,
    )


def _place(settings: S3Settings, bucket: str) -> tuple[Any, Any, bool]:
    """botocore's session and client for the region of a bucket, and whether the store is AWS itself."""
    if not _BUCKET.fullmatch(bucket):
        raise ConfigError(f"{bucket!r} is not a valid bucket name; write s3://BUCKET/PATH")
    session, client = aws(settings)
    if not _AWS.match(client.meta.endpoint_url):
        return session, client, False
    return *aws(settings, region_of(client, bucket)), True


def region_of(client: Any, bucket: str) -> str:
    """The region of a bucket in AWS; the configured one if AWS does not return it. Raises OSError without a
    response."""
    from botocore.exceptions import ClientError

    with translated(f"s3://{bucket}"):
        try:
            answer = client.head_bucket(Bucket=bucket)
        except ClientError as error:  # a refusal names the region too
            answer = error.response
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return str(headers.get("x-amz-bucket-region") or client.meta.region_name)


class _Login:
    """Gives obstore the current keys of botocore at each request, because the keys of a role expire."""

    def __init__(self, credentials: Any, bucket: str) -> None:
        self._credentials = credentials
        self._bucket = bucket

    def __call__(self) -> S3Credential:
        from botocore.exceptions import BotoCoreError

        try:
            keys = None if self._credentials is None else self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise PermissionError(f"{NO_LOGIN} for bucket {self._bucket!r}: {error}") from error
        if keys is None:
            raise PermissionError(f"{NO_LOGIN} were found")
        return {
            "access_key_id": keys.access_key,
            "secret_access_key": keys.secret_key,
            "token": keys.token,
            "expires_at": datetime.now(UTC) + _LOGIN_AGE,
        }


def _revealed(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()
