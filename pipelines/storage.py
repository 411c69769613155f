"""Where the files and the tables of a pipeline lie: its storage and its catalog, as its file says."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from paimon_table import Catalog, FilesystemCatalog
from paimon_table.storage.file_io import FileIO, LocalFileIO, file_io_for
from paimon_table.storage.outages import storage_failure
from pipelines.config.config import PipelineConfig
from sinks.quarantine import Quarantine


def storage_of(config: PipelineConfig, location: str) -> tuple[FileIO, str]:
    """The storage of a location that the pipeline's file names, and the path to use with it."""
    return file_io_for(location, config.catalog.options)


def quarantine_of(config: PipelineConfig) -> tuple[FileIO, str]:
    """Storage and path of the quarantine. It holds whole rows: local directories and files are private."""
    io, path = storage_of(config, config.quarantine)
    return (replace(io, private=True) if isinstance(io, LocalFileIO) else io), path


def quarantine_under(config: PipelineConfig, name: str) -> Quarantine:
    """The quarantine of batches that are numbered by themselves."""
    io, path = quarantine_of(config)
    return Quarantine(io, f"{path}/{name}", takes_bad=config.source.on_bad_record != "fail")


def look_above(what: str, path: str) -> None:
    """Raise unless the next directory above a local path that is not there takes new ones; writes nothing."""
    above = os.path.dirname(path)
    while not os.path.exists(above):
        above = os.path.dirname(above)
    number = 0
    if not os.path.isdir(above):
        number = errno.ENOTDIR
    elif not os.access(above, os.W_OK | os.X_OK):
        number = errno.EACCES
    if number:
        raise storage_failure(OSError(number, os.strerror(number), above), f"{what} ({path}) cannot be made")


def catalog_of(config: PipelineConfig) -> Catalog:
    """The catalog that has the pipeline's tables."""
    return CATALOGS[config.catalog.type](config)


def _filesystem(config: PipelineConfig) -> Catalog:
    return FilesystemCatalog(*storage_of(config, config.catalog.warehouse))


CATALOGS: Mapping[str, Callable[[PipelineConfig], Catalog]] = {"filesystem": _filesystem}
"""By ``catalog.type``; the file is refused with another one."""
