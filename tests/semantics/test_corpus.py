"""Every case of the corpus, in every mode that applies to it."""

from pathlib import Path

import pytest

from paimon_table.errors import UnsupportedFeature
from tests.semantics.case import OWN_CASES, Case, Mode, load_cases
from tests.semantics.runner import claims_support, run_case
from tests.support.order import Share


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    directory = Path(metafunc.config.getoption("cases", default=None) or OWN_CASES)
    cases = load_cases(directory)
    if not cases:
        raise pytest.UsageError(f"{directory} holds no cases (*.yaml); pass another --cases")
    share: Share | None = metafunc.config.getoption("--share")
    runs = [
        pytest.param(case, mode, id=f"{case.id}-{mode}", marks=_marks(case, mode))
        for case in cases
        if share is None or share.has(case.id)
        for mode in case.modes
    ]
    metafunc.parametrize(("case", "mode"), runs)


def _marks(case: Case, mode: Mode) -> list[pytest.MarkDecorator]:
    """If other modes restore writers from files too, and another one compacts when it is due, FRESH adds little."""
    return [pytest.mark.slow] if mode is Mode.FRESH and Mode.COMPACT_BETWEEN in case.modes else []


def test_case(case: Case, mode: Mode, tmp_path: Path) -> None:
    try:
        run_case(case, mode, tmp_path)
    except UnsupportedFeature as unsupported:
        assert not claims_support(case), f"{case.id} uses supported features only, yet was refused: {unsupported}"
        pytest.skip(f"{case.id}: {unsupported}")
