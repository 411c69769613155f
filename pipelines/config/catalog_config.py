"""`catalog` of a pipeline file: which tables there are, and how their storage is reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from paimon_table import RestSettings
from pipelines.config.config_values import ConfigModel, Location, OptionText, Text, refused, resolve_location

_OF_REST = ("uri", "token", "token_file")
_SIGNING = "DLF signs requests, which Tidemark does not do yet"


def _known_catalog(value: Any) -> Any:
    if value in ("hive", "jdbc", "glue"):
        raise refused(f"catalog type {value} is not supported yet; use filesystem or rest")
    return value


def _warehouse(value: str, info: ValidationInfo) -> str:
    return value.strip() if info.data.get("type") == "rest" else resolve_location(value, info)


class Catalog(ConfigModel):
    """The catalog of the Paimon tables: where they are, and who publishes their snapshots."""

    type: Annotated[Literal["filesystem", "rest"], BeforeValidator(_known_catalog)] = Field(
        default="filesystem",
        description="`filesystem`: tables are directories. `rest`: a server with Paimon's REST catalog API owns them.",
    )
    warehouse: Annotated[Text, AfterValidator(_warehouse)] = Field(
        description="Root directory: a path relative to the YAML file, `file:///...` or `s3://...`. With `type: rest` "
        "the name of the warehouse on the server."
    )
    uri: Text | None = Field(default=None, description="Address of the REST catalog server, `http://` or `https://`.")
    token: Text | None = Field(default=None, repr=False, description="Bearer token for the REST catalog server.")
    token_file: Location | None = Field(
        default=None, description="File with the bearer token. Tidemark reads it again for each request."
    )
    options: Mapping[str, OptionText] = Field(
        default_factory=dict,
        repr=False,
        description="Access to the storage, such as `s3.endpoint`, `s3.access-key`, `s3.secret-key`. With `type: "
        "rest` "
        "also `header.NAME`: a header of each request.",
    )

    @field_validator("uri")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is None:
            return None
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
        if self.type == "filesystem":
            for key in _OF_REST:
                if getattr(self, key) is not None:
                    raise refused(f"`{key}` has no effect with `type: filesystem`; set `type: rest`, or remove it", key)
        elif self.uri is None:
            raise refused("`type: rest` needs the address of the server; add `uri: http://HOST:PORT`", "type")
        if self.token is not None and self.token_file is not None:
            raise refused("`token` and `token_file` both set the token; remove one of them", "token_file")
        return self

    @property
    def location(self) -> str | None:
        """The root directory of all tables; None if a server names the location of each table."""
        return self.warehouse if self.type == "filesystem" else None

    @property
    def address(self) -> str:
        """The owner of the tables: the server, or the root directory."""
        return self.uri or self.warehouse

    @property
    def place(self) -> str:
        """The name of the whole warehouse, unique among warehouses."""
        return self.warehouse if self.type == "filesystem" else f"{self.warehouse} at {self.uri}"


def option_problem(name: str) -> str | None:
    """Why a catalog option that other clients of REST catalogs take has no place here; None for others."""
    if name == "token.provider" or name.startswith("dlf."):
        return f"{_SIGNING}; use `token` or `token_file` with a server that takes a bearer token, and remove this"
    if RestSettings.is_spoiled_header(name):
        return f"'{name}' does not name a header; write header.NAME with letters, digits and dashes"
    if name in ("uri", "token", "warehouse"):
        return f"'{name}' is a key of `catalog` itself; move it there"
    return None
