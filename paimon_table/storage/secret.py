"""A secret that travels by reference: pickles, prints and comparisons use its name, never its text.

The text is in an environment variable of this process, which child processes inherit. Only its user can read the
environment of a process. Code that starts processes on other machines passes on ``secret_variables``.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from paimon_table.errors import ConfigError

_PREFIX = "TIDEMARK_SECRET_"
"""Spark masks properties whose names hold the word, such as ``spark.executorEnv.TIDEMARK_SECRET_...``."""

_variables: dict[str, str] = {}
"""Variable per text. Their names are random: one made from the text could be tried out against guesses."""

_inherited: set[str] = set()
"""Variables with which the processes of the tasks were started."""


@dataclass(frozen=True, slots=True)
class Secret:
    """One secret; ``variable`` is the environment variable that holds it."""

    variable: str

    @staticmethod
    def of(text: str) -> Secret:
        if text not in _variables:
            _variables[text] = f"{_PREFIX}{uuid.uuid4().hex}"
            os.environ[_variables[text]] = text
        return Secret(_variables[text])

    def reveal(self) -> str:
        """The text. Raises ConfigError in a process that was started without it."""
        text = os.environ.get(self.variable)
        if text is None:
            raise ConfigError(
                f"a secret did not reach this process (environment variable {self.variable}): it was"
                " started before the storage was opened; open the storage first, or give the credentials in the"
                " environment as for every AWS client"
            )
        return text

    def __str__(self) -> str:
        return "***"


def note_inherited() -> None:
    """Say that the processes of the tasks have all secrets that are known now: they inherit this environment."""
    _inherited.update(_variables.values())


def for_tasks(text: str) -> Secret | str:
    """The value that a task gets in place of a text: the secret if its process has it, else the text."""
    variable = _variables.get(text)
    return Secret(variable) if variable in _inherited else text


def secret_variables() -> Mapping[str, str]:
    """Names and texts of the variables that other processes of this run need."""
    return {variable: text for text, variable in _variables.items()}
