"""Certificates of a broker and the stores that hold their authority, made by `openssl` and Java's `keytool`."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.stack.paths import java_command

STORE_PASSWORD = "store password"
TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority of our own below a directory; ``pem`` is its certificate."""

    directory: Path

    @classmethod
    def made_in(cls, directory: Path) -> "Authority":
        directory.mkdir(parents=True)
        authority = cls(directory)
        openssl("req", "-x509", *_new_key(authority.key), "-out", authority.pem, "-days", "3650", "-subj", "/CN=tests")
        return authority

    @property
    def pem(self) -> Path:
        return self.directory / "authority.pem"

    @property
    def key(self) -> Path:
        return self.directory / "authority.key"

    def certify(self, name: str, hosts: str, days: int) -> Path:
        """A PEM file with key and certificate for ``hosts`` (``IP:...,DNS:...``), expired with negative ``days``."""
        key, request, signed, extension = (self.directory / f"{name}.{end}" for end in ("key", "csr", "crt", "ext"))
        extension.write_text(f"subjectAltName={hosts}\n")
        openssl("req", *_new_key(key), "-out", request, "-subj", f"/CN={name}")
        openssl(
            *("x509", "-req", "-in", request, "-CA", self.pem, "-CAkey", self.key, "-CAcreateserial"),
            *("-days", str(days), "-extfile", extension, "-out", signed),
        )
        both = self.directory / f"{name}.pem"
        both.write_text(key.read_text() + signed.read_text())
        return both

    def client_store(self, kind: str, name: str = "client") -> Path:
        """A store of the kind PEM, PKCS12 or JKS, the last two under STORE_PASSWORD, with a key and its certificate."""
        pem, p12 = self.directory / f"{name}.pem", self.directory / f"{name}.pkcs12"
        if not pem.exists():
            self.certify(name, "DNS:client", 30)
        if kind != "PEM" and not p12.exists():
            openssl("pkcs12", "-export", "-in", pem, "-out", p12, "-passout", f"pass:{STORE_PASSWORD}")
        if kind != "JKS":
            return pem if kind == "PEM" else p12
        store = self.directory / f"{name}.jks"
        if not store.exists():
            _run(
                *(_keytool(), "-importkeystore", "-noprompt", "-srckeystore", p12, "-srcstoretype", "PKCS12"),
                *("-srcstorepass", STORE_PASSWORD, "-destkeystore", store, "-deststoretype", "JKS"),
                *("-deststorepass", STORE_PASSWORD),
            )
        return store

    def truststore(self, kind: str) -> Path:
        """A store of the kind JKS or PKCS12 under STORE_PASSWORD that trusts this authority."""
        store = self.directory / f"trust.{kind.lower()}"
        if store.exists():
            return store
        _run(
            *(_keytool(), "-importcert", "-noprompt", "-alias", "authority", "-file", self.pem),
            *("-keystore", store, "-storetype", kind, "-storepass", STORE_PASSWORD),
        )
        return store


def _new_key(file: Path) -> tuple[str | Path, ...]:
    return ("-newkey", "rsa:2048", "-nodes", "-keyout", file)


def _keytool() -> str:
    return str(Path(java_command()).resolve().with_name("keytool"))


def openssl(*arguments: str | Path) -> str:
    """What `openssl` prints."""
    return _run("openssl", *arguments)


def _run(*command: str | Path) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} {command[1]} failed: {done.stdout}{done.stderr}")
    return done.stdout
