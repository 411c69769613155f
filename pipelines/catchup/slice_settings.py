"""The settings of tasks that read records again which the stream has passed."""

from __future__ import annotations

from dataclasses import replace

from pipelines.batch.plan import TaskSettings
from pipelines.batch.step_facts import AllOpen
from pipelines.checkpoint.book import Pause
from sinks.quarantine import Quarantine


def slice_settings(settings: TaskSettings, pause: Pause, opened: AllOpen) -> TaskSettings:
    """Task settings for a pause's slices: with a separate quarantine, because the slice numbers start over."""
    quarantine = settings.quarantine
    if quarantine is not None:
        quarantine = replace(quarantine, path=quarantine.path + pause.aside_name)
    return again_settings(settings, quarantine, opened)


def again_settings(
    settings: TaskSettings, quarantine: Quarantine | None, opened: AllOpen, rebuild: str = ""
) -> TaskSettings:
    """Settings of tasks that read records again which the stream has gone by."""
    return replace(
        settings,
        quarantine=quarantine,
        notes_gaps=False,
        log=opened.log,
        reads_again=opened,
        topic_ids=opened.topic_ids,
        rebuild=rebuild,
    )
