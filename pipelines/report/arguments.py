"""Arguments that several commands share, and checks of options that all commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup, TyperOption

PipelineFile = Annotated[Path, typer.Argument(metavar="FILE", help="Pipeline file.", show_default=False)]
PipelineFiles = Annotated[list[Path], typer.Argument(metavar="FILE", help="Pipeline files.", show_default=False)]


FAILED = 1
"""The exit code of a command that failed, or found a fault."""

WRONG_REQUEST = 2
"""The exit code if the command or the pipeline file must change."""


class GivenOnce(TyperGroup):
    """Commands that refuse to ignore values: of an option given twice, only the last one would count."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the arguments name. Raises BadParameter if its options are given in a wrong way."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, TyperGroup):
            for option in command.params:
                if isinstance(option, TyperOption):
                    _check_dashes(option, rest)
                    if not (option.multiple or option.is_flag or option.count):
                        _check(option, rest)
        return name, command, rest


def _check_dashes(option: TyperOption, args: list[str]) -> None:
    wrong = next((arg for arg in args if arg.startswith("-") and f"-{arg}" in option.opts), None)
    if wrong is not None:
        raise typer.BadParameter(f"{wrong} has one dash: write -{wrong}")


def _check(option: TyperOption, args: list[str]) -> None:
    count = sum(arg in option.opts or arg.startswith(tuple(f"{o}=" for o in option.opts)) for arg in args)
    if count > 1:
        raise typer.BadParameter(f"{option.opts[0]} is given {count} times and takes one value: call once for each")
