"""Which table a command is about: a path with storage options, or a name in a pipeline's catalog.

With ``--config FILE`` the pipeline file gives the table's path and its storage options, so that credentials are in one
place. The commands themselves get a path and options in both cases.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from paimon_table.errors import ConfigError

_CONFIG = "tidemark.config"

_READING = frozenset(("show", "scan", "changes", "snapshots", "schemas", "files", "list"))
"""Commands that change nothing."""


def _noted(context: typer.Context, value: Path | None) -> Path | None:
    """Load the pipeline file before the other arguments are processed."""
    if value is not None:
        from pipelines.config.config_file import load_pipeline

        context.meta[_CONFIG] = load_pipeline(value)
    return value


def _located(context: typer.Context, value: str) -> str:
    """The path of the table that the command line names."""
    config = context.meta.get(_CONFIG)
    if config is None:
        return value
    from paimon_table import TableName
    from pipelines.storage import catalog_of

    if "/" in value or value.count(".") != 1 or not all(value.split(".")):
        raise ConfigError(f"{value}: with --config, name the table as DATABASE.TABLE, such as lake.orders")
    if config.catalog.type == "rest" and context.command.name not in _READING:
        raise ConfigError(
            f"`{context.command_path}` changes only the files of a table, and the REST catalog of pipeline "
            f"{config.name} ({config.catalog.place}) would not notice: nothing was changed. Use an engine that "
            "writes through the catalog, such as Spark or Flink with Paimon"
        )
    catalog = catalog_of(config)
    name = TableName.of(value)
    if catalog.find(name) is None:
        from paimon_table.nearest_name import did_you_mean

        known = did_you_mean(value, map(str, catalog.names()))
        raise ConfigError(f"the catalog of pipeline {config.name} has no table {value}; {known}")
    return catalog.files(name).paths.root


def _with_storage(context: typer.Context, value: list[str] | None) -> list[str] | None:
    """The storage options: options on the command line win over options in the pipeline file."""
    config = context.meta.get(_CONFIG)
    path = context.params.get("path") or ("" if config is None else config.catalog.warehouse)
    if config is None or not path.startswith(("s3:", "s3a:")):
        return value
    told = (f"{name}={text}" for name, text in config.catalog.options.items() if name.startswith("s3."))
    return [*told, *(value or ())]


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Pipeline file: PATH is then DATABASE.TABLE in its catalog, with its storage options.",
        show_default=False,
        is_eager=True,
        callback=_noted,
    ),
]
TablePath = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        help="Directory of the table: a path, file:// or s3:// URI; with --config its name, DATABASE.TABLE.",
        callback=_located,
    ),
]
Storage = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="NAME=VALUE",
        help="Storage option, such as s3.endpoint=...; repeatable.",
        callback=_with_storage,
    ),
]


def table_command(app: typer.Typer, work: str, name: str | None = None) -> Callable[[Callable[..., None]], None]:
    """Register a command about one table; name, parameters and help come from the decorated function.

    A call imports the module ``work`` and calls the function of the same name there. It passes the values in their
    order, and then the storage options.
    """

    def register(declared: Callable[..., None]) -> None:
        hints = get_type_hints(declared, include_extras=True)
        own = [p.replace(annotation=hints[p.name]) for p in signature(declared).parameters.values()]

        def command(**values: Any) -> None:
            function = getattr(import_module(work), declared.__name__)
            function(*(values[parameter.name] for parameter in own), values["option"])

        kind = Parameter.POSITIONAL_OR_KEYWORD
        shared = [Parameter(n, kind, default=None, annotation=a) for n, a in _OF_ALL.items()]
        command.__name__, command.__doc__ = declared.__name__, declared.__doc__
        command.__signature__ = Signature([*own, *shared])  # type: ignore[attr-defined]
        app.command(name)(command)

    return register


_OF_ALL = {"_config": Config, "option": Storage}
