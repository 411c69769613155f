"""Storage and catalog of a pipeline, as its file states them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from paimon_table import (
    Catalog,
    FilesystemCatalog,
    JdbcCatalog,
    JdbcDatabase,
    JdbcSettings,
    RestCatalog,
    RestClient,
    RestSettings,
)
from paimon_table.errors import ConfigError
from paimon_table.side_by_side import is_store
from paimon_table.storage.file_io import FileIO, LocalFileIO, file_io_for
from paimon_table.storage.outages import storage_failure
from pipelines.config.catalog_config import CATALOG_KEY, DEFAULT_CATALOG_KEY, JDBC_PASSWORD, JDBC_USER, LOCK_ENABLED
from pipelines.config.catalog_config import Catalog as CatalogConfig
from pipelines.config.config import PipelineConfig
from sinks.quarantine import Quarantine


def storage_of(config: PipelineConfig, location: str) -> tuple[FileIO, str]:
    """The storage of a location in the pipeline's file, and the path in it."""
    return file_io_for(location, config.catalog.storage_options)


def quarantine_of(config: PipelineConfig) -> tuple[FileIO, str]:
    """Storage and path of the quarantine. It has whole rows: local directories and files are private."""
    io, path = storage_of(config, config.quarantine)
    return (replace(io, private=True) if isinstance(io, LocalFileIO) else io), path


def quarantine_under(config: PipelineConfig, name: str) -> Quarantine:
    """The quarantine of batches that are numbered by themselves."""
    io, path = quarantine_of(config)
    return Quarantine(io, f"{path}/{name}", takes_bad=config.source.on_bad_record != "fail")


def look_above(what: str, path: str) -> None:
    """Raise unless the nearest existing directory above a local path can take new ones; writes nothing."""
    above = os.path.dirname(path)
    while not os.path.exists(above):
        above = os.path.dirname(above)
    number = 0
    if not os.path.isdir(above):
        number = errno.ENOTDIR
    elif not os.access(above, os.W_OK | os.X_OK):
        number = errno.EACCES
    if number:
        raise storage_failure(OSError(number, os.strerror(number), above), f"{what} ({path}) cannot be created")


def hold_secrets(config: PipelineConfig) -> None:
    """Add the credentials of the tables' storage to ``secret_variables``, including those that a server sends later."""
    location = config.catalog.location
    if location is None and any(name.startswith("s3.") for name in config.catalog.options):
        location = "s3://any"
    if location is not None:
        storage_of(config, location)


def catalog_of(config: PipelineConfig) -> Catalog:
    """The catalog that has the pipeline's tables."""
    return CATALOGS[config.catalog.type](config)


def _filesystem(config: PipelineConfig) -> Catalog:
    return FilesystemCatalog(*storage_of(config, config.catalog.warehouse))


def _jdbc(config: PipelineConfig) -> Catalog:
    told = config.catalog
    assert told.uri is not None, "the model asks for it"
    database = JdbcDatabase(JdbcSettings(told.uri, told.options.get(JDBC_USER), told.options.get(JDBC_PASSWORD)))
    files = FilesystemCatalog(*storage_of(config, told.warehouse))
    locks = told.options.get(LOCK_ENABLED, str(is_store(told.warehouse))).lower() == "true"
    return JdbcCatalog(database, files, told.options.get(CATALOG_KEY, DEFAULT_CATALOG_KEY), locks)


def _rest(config: PipelineConfig) -> Catalog:
    told = config.catalog
    assert told.uri is not None, "the model asks for it"
    settings = RestSettings(told.uri, told.warehouse, _token(told), told.options)
    return RestCatalog(RestClient(settings), partial(storage_of, config))


def _token(told: CatalogConfig) -> Callable[[], str | None]:
    """Returns a function that gives the token for each request: the file may get a new one while the pipeline runs."""
    place = told.token_file
    if place is None:
        return lambda: told.token

    def read() -> str:
        try:
            token = Path(place.removeprefix("file://")).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigError(f"catalog.token_file {place} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            raise ConfigError(f"catalog.token_file {place} is not text; write the bearer token into it") from None
        if not token:
            raise ConfigError(f"catalog.token_file {place} is empty; write the bearer token into it")
        return token

    return read


CATALOGS: Mapping[str, Callable[[PipelineConfig], Catalog]] = {
    "filesystem": _filesystem,
    "jdbc": _jdbc,
    "rest": _rest,
}
"""By ``catalog.type``; the file is refused with any other."""
