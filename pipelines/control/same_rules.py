"""Whether a command and the process that it asks have the same rules: the pipeline file may have changed in between."""

from __future__ import annotations

import hashlib

from paimon_table.errors import ConfigError
from pipelines.config.config import PipelineConfig
from pipelines.config.row_rules import mask_digests
from pipelines.control.requests import Request

RULES = "rules"
"""Argument of a request: the digest of the rules that the command has read."""


def digest_of_rules(config: PipelineConfig) -> str:
    """What decides how records are read and where they go; equal in two processes with the same pipeline file."""
    rules = (config.source.format, config.source.on_bad_record, config.defaults, config.tables, config.otherwise)
    masks = [mask_digests(rule.columns) for rule in config.tables]
    return hashlib.sha256(repr((rules, masks, config.quarantine, config.catalog.warehouse)).encode()).hexdigest()


def check_rules(config: PipelineConfig, request: Request) -> None:
    """Refuse a request of somebody who has read other rules."""
    if request.text(RULES) != digest_of_rules(config):
        raise ConfigError(
            f"the running pipeline {config.name} has other rules than the file: let it take the file first"
            " (tidemark reload, or a restart), then call again"
        )
