"""Arguments that several commands take, and the rule of all: an option that takes one value is given once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup, TyperOption

PipelineFile = Annotated[Path, typer.Argument(metavar="FILE", help="Pipeline file.", show_default=False)]
PipelineFiles = Annotated[list[Path], typer.Argument(metavar="FILE", help="Pipeline files.", show_default=False)]


FAILED = 1
"""The exit code of a command that failed, or found a fault."""


class GivenOnce(TyperGroup):
    """Commands that refuse an option which is given twice: the value that counts would be the last, in silence."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the arguments name, once its options are checked."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, TyperGroup):
            for option in command.params:
                if isinstance(option, TyperOption) and not (option.multiple or option.is_flag or option.count):
                    _check(option, rest)
        return name, command, rest


def _check(option: TyperOption, args: list[str]) -> None:
    count = sum(arg in option.opts or arg.startswith(tuple(f"{o}=" for o in option.opts)) for arg in args)
    if count > 1:
        raise typer.BadParameter(f"{option.opts[0]} is given {count} times and takes one value: call once for each")
