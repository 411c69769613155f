"""Container image, Compose file and systemd unit name what is there, and stop pipelines as these want to be stopped."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from pipelines.config.config_file import load_pipeline
from pipelines.config.look_config import Metrics, WebPage

ROOT = Path(__file__).resolve().parents[1]
UNIT = ROOT / "deploy" / "tidemark@.service"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    compose = YAML(typ="safe").load((ROOT / "docker-compose.yml").read_text())
    named = {volume.split(":")[0] for service in compose["services"].values() for volume in service.get("volumes", ())}
    assert {name for name in named if not name.startswith(".")} == set(compose["volumes"]), "each is declared and used"
    return dict(compose["services"])


def test_what_compose_mounts_and_waits_for_is_there(services: dict[str, Any]) -> None:
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (ROOT / source).is_file()
        for needed, how in service.get("depends_on", {}).items():
            assert how["condition"] != "service_healthy" or "healthcheck" in services[needed]


def test_topics_lie_in_the_volume_of_kafka(services: dict[str, Any]) -> None:
    """Any KAFKA_ variable makes the image write its settings from the variables alone, with logs below /tmp."""
    (volume,) = services["kafka"]["volumes"]
    assert services["kafka"]["environment"]["KAFKA_LOG_DIRS"] == volume.partition(":")[2]


def test_the_health_of_tidemark_is_what_its_pipelines_say(services: dict[str, Any]) -> None:
    service = services["tidemark"]
    config = load_pipeline(ROOT / "configs" / "shop.yaml", service["environment"])
    assert config.metrics is not None and config.ui is not None
    assert (config.metrics.host, config.ui.host) == ("0.0.0.0", "0.0.0.0"), "else nobody outside reaches the ports"
    assert {port.rpartition(":")[2] for port in service["ports"]} == {str(config.metrics.port), str(config.ui.port)}
    kind, python, option, code = service["healthcheck"]["test"]
    assert (kind, python, option) == ("CMD", "python", "-c")
    compile(code, "healthcheck", "exec")
    assert f"'http://127.0.0.1:{config.metrics.port}/readyz'" in code


def test_compose_opens_ports_to_this_machine_only(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert ports and all(port.startswith("127.0.0.1:") for port in ports)


def test_the_pipeline_listens_on_this_machine_only_unless_it_is_told_more() -> None:
    config = load_pipeline(ROOT / "configs" / "shop.yaml", {})
    assert config.metrics is not None and config.ui is not None
    assert (config.metrics.host, config.ui.host) == ("127.0.0.1", "127.0.0.1")


def test_the_image_says_which_ports_its_pipelines_use_by_default() -> None:
    (exposed,) = re.findall(r"^EXPOSE (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert exposed.split() == [str(Metrics().port), str(WebPage().port)]


def test_the_image_holds_all_packages_and_runs_as_nobody_special() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    copied = [source for kind, rest in steps if kind == "COPY" for source in rest.split()[:-1]]
    assert [source for source in copied if not (ROOT / source).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {name.rstrip("*") for name in packages} <= set(copied)
    installs = [part for kind, rest in steps if kind == "RUN" for part in rest.split("&&") if "pip install" in part]
    assert len(installs) == 2 and all("--require-hashes" in i or "--no-build-isolation" in i for i in installs)
    kinds = [kind for kind, _ in steps]
    assert ["USER", "tidemark"] in steps and "RUN" not in kinds[kinds.index("USER") :]


def test_the_image_gets_what_it_copies_and_nothing_else() -> None:
    """Docker leaves out what .dockerignore names, the last line that fits decides; a COPY of it ends the build."""
    first, *lines = (ROOT / ".dockerignore").read_text().split()
    assert first == "*"
    given = {line[1:] for line in lines if line.startswith("!")}
    text = (ROOT / "Dockerfile").read_text()
    copied = {source for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE) for source in line.split()[:-1]}
    assert given == copied
    assert [line for line in lines if not line.startswith("!")] == ["**/__pycache__"]


def test_the_image_can_write_to_s3() -> None:
    assert re.search(r"^botocore==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)


def test_systemd_stops_the_driver_and_does_not_repeat_a_wrong_file() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    service = unit["Service"]
    assert (service["KillMode"], service["RestartPreventExitStatus"], service["Restart"]) == (
        "mixed",
        "2",
        "on-failure",
    )
    assert int(service["TimeoutStopSec"]) >= 60
    assert "MemoryDenyWriteExecute" not in service, "the JVM compiles code"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_knows_every_setting_of_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(re.sub(r"/opt/tidemark/\S+/tidemark", shutil.which("true") or "/bin/true", UNIT.read_text()))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    about_it = [line for line in done.stderr.splitlines() if "tidemark" in line]
    assert (done.returncode, about_it) == (0, []), done.stderr
