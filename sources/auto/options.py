"""The options of ``auto``."""

from __future__ import annotations

from dataclasses import dataclass

from sources.avro.registry_settings import RegistrySettings, settings_problem
from sources.format_options import option_group


@dataclass(frozen=True, slots=True)
class AutoOptions:
    """The registry for the schemas of binary records."""

    registry: RegistrySettings | None = option_group(  # noqa: RUF009  a field
        RegistrySettings,
        "The registry with the schemas that binary records name, if there are such records.",
        settings_problem,
        is_needed=False,
    )
