"""How jars are asked for; that they come is shown by every test that starts a server."""

from pathlib import Path

import pytest

from tests.stack.jars import JAR_SETS, ivy_descriptor, ivy_settings


def test_transitive_sets_bring_the_runtime_dependencies() -> None:
    descriptor = ivy_descriptor(JAR_SETS["kafka"])

    assert 'defaultconf="run->master,runtime()"' in descriptor
    assert 'name="connect-runtime"' in descriptor


def test_a_classifier_names_exactly_one_file() -> None:
    assert 'm:classifier="plugin"' in ivy_descriptor(JAR_SETS["debezium-postgres"])


def test_a_mirror_is_used_when_the_environment_names_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEMARK_IVY_SETTINGS", raising=False)
    assert ivy_settings() == ()

    settings = tmp_path / "ivysettings.xml"
    monkeypatch.setenv("TIDEMARK_IVY_SETTINGS", str(settings))
    assert ivy_settings() == ("-settings", str(settings))
