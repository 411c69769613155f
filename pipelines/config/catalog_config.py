"""`catalog` of a pipeline file: which tables there are, and how their storage is reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from paimon_table import JdbcSettings, RestSettings
from pipelines.config.config_values import ConfigModel, Location, OptionText, Text, refused, resolve_location

JDBC_USER, JDBC_PASSWORD, CATALOG_KEY, LOCK_ENABLED = "jdbc.user", "jdbc.password", "catalog-key", "lock.enabled"
JDBC_OPTIONS = (JDBC_USER, JDBC_PASSWORD, CATALOG_KEY, LOCK_ENABLED)
"""The options of Paimon's JDBC catalog, under its names."""

DEFAULT_CATALOG_KEY = "jdbc"
_TYPES_WITH = {"uri": ("jdbc", "rest"), "token": ("rest",), "token_file": ("rest",)}
"""The types of catalogs in which these keys have an effect."""
_SQLITE = "jdbc:sqlite:"
_SIGNING = "DLF signs requests, which Tidemark does not do yet"


def _known_catalog(value: Any) -> Any:
    if value in ("hive", "glue"):
        raise refused(f"catalog type {value} is not supported yet; use filesystem, jdbc or rest")
    return value


def _warehouse(value: str, info: ValidationInfo) -> str:
    return value.strip() if info.data.get("type") == "rest" else resolve_location(value, info)


class Catalog(ConfigModel):
    """The catalog of the Paimon tables: where they are, and who publishes their snapshots."""

    type: Annotated[Literal["filesystem", "jdbc", "rest"], BeforeValidator(_known_catalog)] = Field(
        default="filesystem",
        description="`filesystem`: tables are directories. `jdbc`: the same, and a database has their names. `rest`: a "
        "server with Paimon's REST catalog API owns them.",
    )
    warehouse: Annotated[Text, AfterValidator(_warehouse)] = Field(
        description="Root directory: a path relative to the YAML file, `file:///...` or `s3://...`. With `type: rest` "
        "the name of the warehouse on the server."
    )
    uri: Text | None = Field(
        default=None,
        description="Address of the REST catalog server, `http://` or `https://`. With `type: jdbc` the address of the "
        "database: `jdbc:postgresql://HOST:PORT/DATABASE`, `jdbc:mysql://HOST:PORT/DATABASE` or `jdbc:sqlite:FILE`.",
    )
    token: Text | None = Field(default=None, repr=False, description="Bearer token for the REST catalog server.")
    token_file: Location | None = Field(
        default=None, description="File with the bearer token. Tidemark reads it again for each request."
    )
    options: Mapping[str, OptionText] = Field(
        default_factory=dict,
        repr=False,
        description="Access to the storage, such as `s3.endpoint`, `s3.access-key`, `s3.secret-key`. With `type: "
        "rest` "
        "also `header.NAME`: a header of each request. With `type: jdbc` also `jdbc.user`, `jdbc.password`, "
        f"`catalog-key` (default `{DEFAULT_CATALOG_KEY}`) and `lock.enabled` (default: true on S3).",
    )

    @field_validator("uri")
    @classmethod
    def _address(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None or info.data.get("type") == "filesystem":
            return value
        if info.data.get("type") == "jdbc":
            if (problem := JdbcSettings.address_problem(value)) is not None:
                raise refused(problem)
            file = value.removeprefix(_SQLITE)
            return value if file == value else _SQLITE + resolve_location(file.removeprefix("file:"), info)
        try:
            parts = urlsplit(value)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            is_address &= parts.path.isascii() and value.isprintable() and " " not in value
            (parts.hostname or "").encode("idna")
        except ValueError:
            is_address = False
        if not is_address or parts.query or parts.fragment:
            raise refused("expected the address of a server, such as https://catalog.example.com:8080")
        if parts.username is not None:
            raise refused("logs would show a login in the address; use a bearer token with `token`")
        if (parts.hostname or "").endswith(".aliyuncs.com"):
            raise refused(f"{_SIGNING}; use a REST catalog that takes a bearer token, or type: filesystem")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _checked(self) -> Self:
        for key, types in _TYPES_WITH.items():
            if getattr(self, key) is not None and self.type not in types:
                other = " or ".join(f"`type: {one}`" for one in types)
                raise refused(f"`{key}` has no effect with `type: {self.type}`; set {other}, or remove it", key)
        if self.type == "rest" and self.uri is None:
            raise refused("`type: rest` needs the address of the server; add `uri: http://HOST:PORT`", "type")
        if self.type == "jdbc" and self.uri is None:
            example = "jdbc:postgresql://HOST:PORT/DATABASE"
            raise refused(f"`type: jdbc` needs the address of the database; add `uri: {example}`", "type")
        if self.token is not None and self.token_file is not None:
            raise refused("`token` and `token_file` both set the token; remove one of them", "token_file")
        return self

    @property
    def location(self) -> str | None:
        """The root directory of all tables; None if a server names the location of each table."""
        return None if self.type == "rest" else self.warehouse

    @property
    def address(self) -> str:
        """The owner of the files: the server, or the root directory."""
        return self.location or self.uri or self.warehouse

    @property
    def place(self) -> str:
        """The name of the whole warehouse, unique among warehouses."""
        return self.location or f"{self.warehouse} at {self.uri}"

    @property
    def storage_options(self) -> Mapping[str, str]:
        """The options without those of the catalog itself."""
        return {
            name: text
            for name, text in self.options.items()
            if name not in JDBC_OPTIONS and not RestSettings.is_header(name)
        }


def option_problem(name: str) -> str | None:
    """Why a catalog option that other clients of REST catalogs take has no place here; None for others."""
    if name == "token.provider" or name.startswith("dlf."):
        return f"{_SIGNING}; use `token` or `token_file` with a server that takes a bearer token, and remove this"
    if RestSettings.is_spoiled_header(name):
        return f"'{name}' does not name a header; write header.NAME with letters, digits and dashes"
    if name in ("uri", "token", "warehouse"):
        return f"'{name}' is a key of `catalog` itself; move it there"
    return None
