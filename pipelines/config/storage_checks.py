"""Checks of the places of a pipeline: checkpoint, warehouse and quarantine, and the options of their storage."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import PurePath

from paimon_table import RestSettings
from paimon_table.catalog.table_name import DATABASE_SUFFIX
from paimon_table.nearest_name import did_you_mean
from paimon_table.storage.location import is_uri
from paimon_table.storage.s3_clients import S3Settings
from pipelines.config.catalog_config import JDBC_OPTIONS, LOCK_ENABLED, option_problem
from pipelines.config.config import PipelineConfig
from pipelines.config.config_errors import problem_at
from pipelines.config.yaml_file import KeyPath, Problem, YamlFile

_SCHEMES = ("file", "s3", "s3a")
_STORAGE_OPTIONS = ("s3.path.style.access", *(f"s3.{f.name.replace('_', '-')}" for f in fields(S3Settings)))

_PAIR = {"s3.access-key": "s3.secret-key", "s3.secret-key": "s3.access-key"}


def storage_problems(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    """Locations that Tidemark cannot reach, storage options that nothing would look at."""
    locations: dict[KeyPath, str | None] = {
        ("checkpoint",): config.checkpoint,
        ("catalog", "warehouse"): config.catalog.location,
        ("source", "quarantine"): config.source.quarantine,
    }
    schemes = {
        path: location.partition(":")[0] for path, location in locations.items() if location and is_uri(location)
    }
    for path, scheme in schemes.items():
        if scheme not in _SCHEMES:
            known = ", ".join(f"{name}://" for name in _SCHEMES)
            yield problem_at(file, path, f"storage {scheme}:// is not supported yet; use a path, or one of {known}")
    for path, location in locations.items():
        if location and (slip := _slip(location)) is not None:
            yield problem_at(file, path, slip)
    for path, location in locations.items():
        found = _file_in_the_way(location) if location else None
        if found is not None:
            yield problem_at(file, path, f"{found} is a file; name a directory")
    if (missing := _missing_file_system(schemes.get(("checkpoint",)), config.spark.properties)) is not None:
        yield problem_at(file, ("checkpoint",), missing)
    if (overlap := _overlap(config.checkpoint, config.catalog.location)) is not None:
        yield problem_at(file, ("checkpoint",), overlap)
    if config.source.quarantine is not None and not _is_in_use(config.source.quarantine):
        for text in _quarantine_overlaps(config):
            yield problem_at(file, ("source", "quarantine"), f"{text}; choose a separate directory outside of both")
    is_rest, is_jdbc = config.catalog.type == "rest", config.catalog.type == "jdbc"
    for name, value in config.catalog.options.items():
        path = ("catalog", "options", name)
        if is_rest and (foreign := option_problem(name)) is not None:
            text = foreign
        elif is_rest and RestSettings.is_header(name):
            continue
        elif name == LOCK_ENABLED and is_jdbc and value.lower() not in ("true", "false"):
            text = f"'{name}' is '{value}'; write true or false"
        elif name in JDBC_OPTIONS and is_jdbc:
            continue
        elif name in JDBC_OPTIONS:
            text = f"'{name}' has no effect with `type: {config.catalog.type}`; set `type: jdbc`, or remove it"
        elif name not in _STORAGE_OPTIONS:
            known_here = (*_STORAGE_OPTIONS, *(JDBC_OPTIONS if is_jdbc else ()))
            text = f"unknown storage option '{name}'; {did_you_mean(name, known_here)}"
        elif not is_rest and not {"s3", "s3a"} & set(schemes.values()):
            text = f"'{name}' has no effect: neither the warehouse nor the checkpoint is on S3; remove it"
        elif (wrong := _refused_by_s3(name, config.catalog.options)) is not None:
            text = wrong
        else:
            continue
        yield problem_at(file, path, text, said_of=path[:-1])


def _refused_by_s3(name: str, options: Mapping[str, str]) -> str | None:
    """Why no client of S3 accepts an option; None if it may."""
    if name == "s3.endpoint" and not re.match(r"https?://[^/]", options[name].strip(), re.IGNORECASE):
        return f"'{name}' is not an address; write http://HOST:PORT or https://HOST:PORT"
    other = _PAIR.get(name)
    if other is not None and other not in options:
        return f"'{name}' needs '{other}'; set both, or remove it"
    return None


def _slip(location: str) -> str | None:
    """Why a text is another place than its author means; None if it may be the right one."""
    if re.match(r"s3a?:(?!//[^/])", location):
        return "the bucket is missing; write s3://BUCKET/PATH"
    variable = re.search(r"(?:^|/)\$([A-Z_][A-Z0-9_]*)(?=/|$)", location)
    return None if variable is None else f"${variable[1]} is not a reference here; write ${{env:{variable[1]}}}"


def _file_in_the_way(location: str) -> str | None:
    """The file that exists at the path of a local directory, or of one above it."""
    path = PurePath(location.removeprefix("file://"))
    if is_uri(location) and not location.startswith("file://"):
        return None
    return next((str(part) for part in (path, *path.parents) if os.path.isfile(part)), None)


def _missing_file_system(scheme: str | None, properties: Mapping[str, str]) -> str | None:
    """Why Spark, which writes the checkpoint through its own file systems, cannot write there.

    A cluster may have a file system that the pipeline file does not show; the file states that by naming its class.
    """
    by_jar = scheme == "s3a" and any(
        "hadoop-aws" in properties.get(f"spark.{name}", "") for name in ("jars", "jars.packages")
    )
    if scheme not in ("s3", "s3a") or by_jar or f"spark.hadoop.fs.{scheme}.impl" in properties:
        return None
    return (
        f"Spark has no file system for {scheme}://. Keep the checkpoint on a local disk or a volume (if it is "
        "lost, the tables store the positions to continue from). Or configure one in Spark: s3a:// with "
        "hadoop-aws in spark.jars.packages, or the"
        f" class that the cluster has in spark.hadoop.fs.{scheme}.impl"
    )


def _overlap(checkpoint: str, warehouse: str | None) -> str | None:
    """Why the two locations cannot be so near."""
    if warehouse is None:
        return None
    state, tables = _directory(checkpoint), _directory(warehouse)
    if state == tables:
        return "is also the directory of the warehouse; choose a separate directory"
    if tables.startswith(state):
        return "contains the warehouse, which would move with it; use separate directories"
    if state.startswith(tables) and state.removeprefix(tables).split("/")[0].endswith(DATABASE_SUFFIX):
        return "is in a database of the warehouse; choose a directory outside of DATABASE.db"
    if state.startswith(tables) and _may_be_new(checkpoint):
        return (
            "is in the warehouse: removing, restoring or copying tables there affects the checkpoint too; choose a "
            "directory outside of the warehouse"
        )
    return None


def place_warnings(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    """A checkpoint in use, in a place that Tidemark would refuse for a new one."""
    state, tables = config.checkpoint, config.catalog.location
    is_inside = tables is not None and _directory(state).startswith(_directory(tables))
    if is_inside and _overlap(state, tables) is None:
        text = (
            "is in the warehouse: removing, restoring or copying tables there affects the checkpoint too."
            " Stop the pipeline, move the directory out of the warehouse, and set the new path"
        )
        yield problem_at(file, ("checkpoint",), text)
    if config.source.quarantine is not None and _is_in_use(config.source.quarantine):
        for text in _quarantine_overlaps(config):
            remedy = "stop the pipeline, move the quarantine's files to a separate directory, and set its path"
            yield problem_at(file, ("source", "quarantine"), f"{text}; {remedy}")


def _quarantine_overlaps(config: PipelineConfig) -> Iterator[str]:
    """Why the quarantine cannot be so near to the tables and the checkpoint."""
    bad = _directory(config.quarantine)
    for other, what in ((config.catalog.location, "warehouse"), (config.checkpoint, "checkpoint")):
        if other is None:
            continue
        place = _directory(other)
        if bad == place:
            yield f"is also the directory of the {what}"
        elif bad.startswith(place):
            yield f"is in the {what}: removing, restoring or copying that affects the quarantine too"
        elif place.startswith(bad):
            yield f"contains the {what}, which would be removed with it"


def _is_in_use(quarantine: str) -> bool:
    """Whether a local quarantine holds files already. Others cannot be checked here and count as used."""
    path = quarantine.removeprefix("file://")
    return is_uri(path) or bool(glob.glob(os.path.join(glob.escape(path), "batch-*")))


def _directory(location: str) -> str:
    """A location as the prefix that the locations of its subdirectories begin with."""
    return re.sub(r"^file:(//)?|^s3a?(?=:)", "", location).rstrip("/") + "/"


def _may_be_new(checkpoint: str) -> bool:
    """Whether a local checkpoint has not been written yet. Others cannot be checked here and do not count as new."""
    path = checkpoint.removeprefix("file://")
    return not is_uri(path) and not os.path.exists(os.path.join(path, "metadata"))
