"""A small S3 endpoint on localhost: the requests that botocore and pyarrow make, over real HTTP.

Signatures are not checked. ``honours_conditions`` False behaves like stores that ignore If-None-Match.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase, BytesIO
from typing import BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class S3Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, honours_conditions: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.honours_conditions = honours_conditions
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.upload_ids = itertools.count()
        self.requests: list[str] = []
        self.fail_next_put: int | None = None
        """Status with which the next conditional put is answered after it has been carried out."""
        self.is_unreachable = False
        self.delay_s = 0.0
        """How much later each request is answered, as by a store that is far away."""
        self.refuses_keys = False
        self.lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Broken connections are part of the tests; everything else would be a client's empty reply without a cause."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def s3_server(honours_conditions: bool = True) -> Iterator[S3Server]:
    server = S3Server(honours_conditions)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _unchunked(stream: BinaryIO | BufferedIOBase) -> bytes:
    """The content of HTTP chunks or of the same framing that AWS clients put inside; up to the empty chunk."""
    content = b""
    while length := int(stream.readline().split(b";")[0], 16):
        content += stream.read(length)
        stream.readline()
    return content


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: S3Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _target(self) -> tuple[str, dict[str, str]]:
        if self.server.is_unreachable:
            self.connection.close()
            raise ConnectionAbortedError
        if self.server.delay_s:
            time.sleep(self.server.delay_s)
        if self.server.refuses_keys:
            self._error(403, "InvalidAccessKeyId")
            raise ConnectionAbortedError
        parts = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
        self.server.requests.append(f"{self.command} {parts.path}")
        return unquote(parts.path).lstrip("/"), query

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = _unchunked(self.rfile)
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return _unchunked(BytesIO(data)) if self.headers.get("Content-Encoding") == "aws-chunked" else data

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _error(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def do_GET(self) -> None:
        key, query = self._target()
        if query.get("list-type") == "2":
            return self._list(key.rstrip("/"), query)
        data = self.server.objects.get(key)
        if data is None:
            return self._error(404, "NoSuchKey")
        wanted = self.headers.get("Range")
        if wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) if last else len(data) - 1, len(data) - 1)
            return self._answer(206, data[start : end + 1], Content_Range=f"bytes {start}-{end}/{len(data)}")
        return self._answer(200, data, ETag='"x"')

    def do_HEAD(self) -> None:
        key, _ = self._target()
        data = self.server.objects.get(key)
        if data is None:
            return self._answer(404)
        modified = formatdate(usegmt=True)
        return self._answer(200, Content_Length=str(len(data)), ETag='"x"', Last_Modified=modified)

    def do_PUT(self) -> None:
        key, query = self._target()
        data = self._body()
        etag = f'"{hashlib.md5(data).hexdigest()}"'
        with self.server.lock:
            if "partNumber" in query:
                self.server.uploads[query["uploadId"]][int(query["partNumber"])] = data
                return self._answer(200, ETag=etag)
            conditional = self.headers.get("If-None-Match") == "*"
            if conditional and self.server.honours_conditions and key in self.server.objects:
                return self._error(412, "PreconditionFailed")
            status, self.server.fail_next_put = (self.server.fail_next_put if conditional else None), None
            if status != 409:
                self.server.objects[key] = data
            if status is not None:
                return self._error(status, "InternalError" if status >= 500 else "ConditionalRequestConflict")
        return self._answer(200, ETag=etag)

    def do_POST(self) -> None:
        key, query = self._target()
        self._body()
        with self.server.lock:
            if "uploads" in query:
                upload = str(next(self.server.upload_ids))
                self.server.uploads[upload] = {}
                text = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            else:
                parts = self.server.uploads.pop(query["uploadId"])
                self.server.objects[key] = b"".join(parts[n] for n in sorted(parts))
                text = '<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>'
        self._answer(200, text.encode())

    def do_DELETE(self) -> None:
        key, _ = self._target()
        with self.server.lock:
            self.server.objects.pop(key, None)
        self._answer(204)

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        """At most two keys a page, so that clients must page."""
        prefix = query.get("prefix", "")
        keys = sorted(
            k.removeprefix(f"{bucket}/") for k in [*self.server.objects] if k.startswith(f"{bucket}/{prefix}")
        )
        found: dict[str, bool] = {}
        for key in keys:
            below, slash, _ = key[len(prefix) :].partition(query.get("delimiter") or "\0")
            found.setdefault(prefix + below + slash, bool(slash))
        after = query.get("continuation-token", "")
        names = [name for name in found if name > after]
        page, more = names[:2], len(names) > 2
        text = f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
        text += f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        if more:
            text += f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>"
        for name in page:
            tag = "CommonPrefixes" if found[name] else "Contents"
            inner = f"<Prefix>{escape(name)}</Prefix>" if found[name] else self._content(bucket, name)
            text += f"<{tag}>{inner}</{tag}>"
        self._answer(200, (text + "</ListBucketResult>").encode())

    def _content(self, bucket: str, key: str) -> str:
        """All objects were written just now."""
        size = len(self.server.objects.get(f"{bucket}/{key}", b""))
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f"<Key>{escape(key)}</Key><LastModified>{now}</LastModified><Size>{size}</Size>"
