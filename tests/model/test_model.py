"""A pipeline lives through histories that Hypothesis draws, and its tables are right whenever it comes to rest."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.model.machine import PipelineMachine

TestPipeline = pytest.mark.slow(PipelineMachine.TestCase)
TestPipeline.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
