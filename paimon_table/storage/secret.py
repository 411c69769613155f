"""A secret by reference: pickles, prints and comparisons use its name, never its text.

The text is in an environment variable of this process, which child processes inherit. Only the user of a process can
read its environment. Code that starts processes on other machines passes ``secret_variables`` to them.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from paimon_table.errors import ConfigError

_PREFIX = "TIDEMARK_SECRET_"
"""Spark masks properties with this word in their names, such as ``spark.executorEnv.TIDEMARK_SECRET_...``."""

_variables: dict[str, str] = {}
"""The variables by text. Their names are random, because a name derived from the text would allow guessing it."""

_inherited: set[str] = set()
"""The variables that the processes of the tasks inherited."""


@dataclass(frozen=True, slots=True)
class Secret:
    """One secret; ``variable`` is the environment variable with its text."""

    variable: str

    @staticmethod
    def of(text: str) -> Secret:
        if text not in _variables:
            _variables[text] = f"{_PREFIX}{uuid.uuid4().hex}"
            os.environ[_variables[text]] = text
        return Secret(_variables[text])

    def reveal(self) -> str:
        """The text. Raises ConfigError in a process that does not have the variable."""
        text = os.environ.get(self.variable)
        if text is None:
            raise ConfigError(
                f"this process lacks a secret (environment variable {self.variable}), because it was started before "
                "the storage was opened. Open the storage first, or set the credentials in the environment, as for "
                "every AWS client"
            )
        return text

    def __str__(self) -> str:
        return "***"


def note_inherited() -> None:
    """Note that the processes of the tasks have all current secrets, because they inherit this environment."""
    _inherited.update(_variables.values())


def for_tasks(text: str) -> Secret | str:
    """The value for a task instead of a text: the secret if the task's process has it, else the text."""
    variable = _variables.get(text)
    return Secret(variable) if variable in _inherited else text


def secret_variables() -> Mapping[str, str]:
    """Names and texts of the variables that other processes of this run need."""
    return {variable: text for text, variable in _variables.items()}
