"""A small S3 endpoint on localhost: the requests that obstore and pyarrow make, over real HTTP.

Signatures are not checked. ``honours_conditions`` False behaves like stores that ignore If-None-Match.
"""

from __future__ import annotations

import bisect
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

    def __init__(self, honours_conditions: bool = True, page_size: int = 2) -> None:
        """``page_size``: names on a page of a listing; real stores give 1000, tests so few that clients must page."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.honours_conditions = honours_conditions
        self.page_size = page_size
        self.objects: dict[str, bytes] = {}
        self._keys: list[str] = []
        """Those of ``objects``, sorted."""
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.upload_ids = itertools.count()
        self.requests: list[str] = []
        self.fail_next_put: int | None = None
        """Status with which the next conditional put is answered after it has been carried out."""
        self.is_unreachable = False
        self.delay_s = 0.0
        """How much later each request is answered, as by a store that is far away."""
        self.answers_with: int | None = None
        """Status of the answer to every request, which is not carried out."""
        self.refused_method: str | None = None
        """The only method that is answered so."""
        self.detail = ""
        """More text of such an answer."""
        self.lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Broken connections are part of the tests; everything else would be a client's empty reply without a cause."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def store(self, key: str, data: bytes) -> None:
        """Create or replace an object; the caller holds the lock."""
        if key not in self.objects:
            bisect.insort(self._keys, key)
        self.objects[key] = data

    def remove(self, key: str) -> None:
        """Delete an object if it is there; the caller holds the lock."""
        if self.objects.pop(key, None) is not None:
            del self._keys[bisect.bisect_left(self._keys, key)]

    def names(self, prefix: str, delimiter: str, after: str) -> Iterator[tuple[str, bool]]:
        """The keys that begin with ``prefix``, behind ``after``, each up to its next ``delimiter``, and if it has one.

        Each name is found by bisection, so keys that share one cost nothing. The caller holds the lock.
        """
        at = max(prefix, after)
        while True:
            place = bisect.bisect_left(self._keys, at)
            if place == len(self._keys) or not self._keys[place].startswith(prefix):
                return
            below, found, _ = self._keys[place][len(prefix) :].partition(delimiter or "\0")
            name = prefix + below + found
            if name != after:
                yield name, bool(found)
            at = name + (chr(sys.maxunicode) if found else "\0")


@contextmanager
def s3_server(honours_conditions: bool = True, page_size: int = 2) -> Iterator[S3Server]:
    server = S3Server(honours_conditions, page_size)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
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
    disable_nagle_algorithm = True
    server: S3Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _target(self) -> tuple[str, dict[str, str]]:
        if self.server.is_unreachable:
            self.connection.close()
            raise ConnectionAbortedError
        if self.server.delay_s:
            time.sleep(self.server.delay_s)
        if self.server.answers_with is not None and self.server.refused_method in {None, self.command}:
            self._body()
            text = f"<Error><Code>Refused</Code><Message>not now</Message>{self.server.detail}</Error>"
            self._answer(self.server.answers_with, text.encode(), Connection="close")
            self.wfile.flush()
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
                self.server.store(key, data)
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
                self.server.store(key, b"".join(parts[n] for n in sorted(parts)))
                text = '<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>'
        self._answer(200, text.encode())

    def do_DELETE(self) -> None:
        key, _ = self._target()
        with self.server.lock:
            self.server.remove(key)
        self._answer(204)

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        """A page of a listing; all objects were written just now."""
        inside, prefix, most = f"{bucket}/", query.get("prefix", ""), self.server.page_size
        after = inside + query.get("continuation-token", "")
        with self.server.lock:
            names = self.server.names(inside + prefix, query.get("delimiter", ""), after)
            found = list(itertools.islice(names, most + 1))
            sizes = [len(self.server.objects.get(name, b"")) for name, _ in found]
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        text = f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
        text += f"<IsTruncated>{str(len(found) > most).lower()}</IsTruncated>"
        if len(found) > most:
            text += f"<NextContinuationToken>{escape(found[most - 1][0].removeprefix(inside))}</NextContinuationToken>"
        for (name, is_prefix), size in zip(found[:most], sizes, strict=False):
            key = escape(name.removeprefix(inside))
            if is_prefix:
                text += f"<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>"
            else:
                text += f"<Contents><Key>{key}</Key><LastModified>{now}</LastModified><Size>{size}</Size></Contents>"
        self._answer(200, (text + "</ListBucketResult>").encode())
