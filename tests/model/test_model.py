"""A pipeline lives through histories that Hypothesis draws, and its tables are right whenever it comes to rest.

The same histories each time, as many as take about a minute: whoever looks for others calls ``python -m tests.model``.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.model.machine import PipelineMachine

TestPipeline = pytest.mark.slow(PipelineMachine.TestCase)
TestPipeline.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    derandomize=True,
    report_multiple_bugs=False,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
