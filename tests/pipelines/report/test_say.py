"""What commands print of names and values that anybody may have written."""

from __future__ import annotations

import pytest

from pipelines.report.say import say


def test_lines_stay_and_what_a_terminal_acts_on_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    say("would drop:\n  dt=\x1b[2J\u202ea")
    say("caf\u00e9\r", err=True)

    assert capsys.readouterr() == ("would drop:\n  dt=\\x1b[2J\\u202ea\n", "caf\u00e9\\r\n")
