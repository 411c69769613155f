"""Converts failures of requests to S3 into the OSErrors of FileIO's contract.

obstore's errors are only texts with the whole response of the store, which may contain a token. So only code and
message are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

NO_LOGIN = "no AWS credentials"
_STATUS = re.compile(r"status code: ((\d{3})[^:<\n]*)")
_CODE, _MESSAGE = re.compile(r"<Code>(.*?)</Code>"), re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_CAUSE = re.compile(r'(?:message|error): "([^"]+)"|(invalid peer certificate: \w+|invalid peer certificate\(\w+\))')
_REPEATED = re.compile(r"after (\d+) retries")
_LOGIN = re.compile(rf"{NO_LOGIN} [^\n]*")
_PASSING = frozenset(
    ("SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestTimeout", "NoSuchUpload")
)
"""Codes of transient failures, with any status: the store is overloaded, or lost the start of an upload."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of the store to a failed request."""

    text: str
    status: int | None
    """None without a response."""
    code: str | None
    is_repeated: bool
    """Whether this was a retry, so that an earlier try may have had an effect."""

    @property
    def is_refused(self) -> bool:
        """Whether the request had no effect."""
        return self.text.startswith(NO_LOGIN) or (self.status is not None and 400 <= self.status < 500)

    def os_error(self, path: str) -> OSError:
        text = f"{path}: {self.text.removesuffix('.')}"
        if self.text.startswith(NO_LOGIN) or self.status in {401, 403}:
            return PermissionError(text)
        if self.status is None or self.status in {408, 429} or self.status >= 500 or self.code in _PASSING:
            return ConnectionError(text)
        return FileNotFoundError(text) if self.status == 404 else OSError(text)


def answer_of(error: BaseException) -> Answer:
    """The response in the text of an obstore error: only its code and message."""
    text = str(error)
    login = _LOGIN.search(text)
    status, code, message = _STATUS.search(text), _CODE.search(text), _MESSAGE.search(text)
    cause = _CAUSE.search(text)
    if login is not None:
        said = login[0].rstrip("' )")
    elif status is not None:
        said = ", ".join([f"status code {status[1].strip()}", *(found[1] for found in (code, message) if found)])
    else:
        said = f"{first_line(error)}{f' ({cause[1] or cause[2]})' if cause else ''}"
    repeated = _REPEATED.search(text)
    return Answer(
        said,
        None if status is None else int(status[2]),
        None if code is None else code[1],
        is_repeated=repeated is not None and int(repeated[1]) > 0,
    )


def first_line(error: BaseException) -> str:
    """Without a full stop: messages continue."""
    return next(iter(str(error).splitlines()), "").removesuffix(".")


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raises errors of obstore and botocore as the OSErrors of FileIO's contract."""
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError
    from botocore.exceptions import ConnectionError as NotReached
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        # Without the error itself, because its text has the whole response, which may contain a token.
        raise answer_of(error).os_error(path) from None
    except ValueError as error:  # a name that cannot be a key
        raise OSError(f"{path}: {first_line(error)}") from error
    except ClientError as error:
        told = error.response.get("Error", {})
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        raise Answer(str(error), status, told.get("Code"), is_repeated=False).os_error(path) from error
    except (HTTPClientError, NotReached) as error:  # not reachable, no response in time, or a broken connection
        raise ConnectionError(f"{path}: {first_line(error)}") from error
    except NoCredentialsError as error:
        raise PermissionError(f"{path}: {NO_LOGIN} were found") from error
    except BotoCoreError as error:
        raise OSError(f"{path}: {first_line(error)}") from error
