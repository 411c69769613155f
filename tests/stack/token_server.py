"""A token endpoint on 127.0.0.1 for logins by OAUTHBEARER, with the key set by which a broker checks its tokens."""

import base64
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.stack.certificates import openssl

CLIENT, SECRET, AUDIENCE = "tide-client", "client secret", "kafka"
_KEY_ID, _LASTS_S = "tests", 3600


@dataclass(frozen=True, slots=True)
class TokenServer:
    """``url`` gives a token to whoever has CLIENT and SECRET; ``keys`` is the file of its public key (JWKS).

    ``url_of_others`` gives tokens that are not meant for the broker.
    """

    url: str
    url_of_others: str
    keys: Path


@contextmanager
def running_token_server(directory: Path) -> Iterator[TokenServer]:
    """Serve tokens for the length of the block."""
    directory.mkdir(parents=True)
    key, keys = directory / "tokens.key", directory / "keys.json"
    openssl("genrsa", "-out", key, "2048")
    modulus = bytes.fromhex(openssl("rsa", "-in", key, "-noout", "-modulus").strip().removeprefix("Modulus="))
    one = {"kty": "RSA", "kid": _KEY_ID, "alg": "RS256", "use": "sig", "n": _text(modulus), "e": "AQAB"}
    keys.write_text(json.dumps({"keys": [one]}))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            asked = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
            is_right = self.headers.get("Authorization") == f"Basic {asked}"
            answer = {"access_token": _token(key, self.path.strip("/")), "token_type": "Bearer", "expires_in": _LASTS_S}
            body = json.dumps(answer if is_right else {"error": "invalid_client"}).encode()
            self.send_response(200 if is_right else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the tests show what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, name="tokens", daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        yield TokenServer(f"{address}/{AUDIENCE}", f"{address}/others", keys)
    finally:
        server.shutdown()
        server.server_close()


def _token(key: Path, audience: str) -> str:
    now_s = int(time.time())
    claims = {"sub": CLIENT, "iss": "tests", "aud": audience, "scope": "all", "iat": now_s, "exp": now_s + _LASTS_S}
    signed = ".".join(_text(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": _KEY_ID}, claims))
    done = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", str(key)], input=signed.encode(), capture_output=True, check=True
    )
    return f"{signed}.{_text(done.stdout)}"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
