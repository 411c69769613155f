"""Errors of S3 clients as errors of files."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from paimon_table.storage.s3_errors import translated

REFUSED = {
    "Error": {"Code": "InvalidAccessKeyId", "Message": "The key does not exist."},
    "ResponseMetadata": {"HTTPStatusCode": 403},
}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ClientError(REFUSED, "PutObject"), "The key does not exist"),
        (ConnectionClosedError(endpoint_url="http://127.0.0.1:1/"), '"http://127.0.0.1:1/"'),
        (ValueError("an empty segment."), "an empty segment"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_words_of_the_store_end_without_a_full_stop(error: Exception, told: str) -> None:
    with pytest.raises(OSError, match=r"[^.]$") as found, translated("s3://wh/f"):
        raise error

    assert str(found.value).startswith("s3://wh/f: ") and str(found.value).endswith(told)
