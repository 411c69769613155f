"""The Kubernetes manifests fit each other, the image and the product: names, labels, ports, paths, commands."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.main import get_command

from pipelines.cli import app
from pipelines.config.config_file import load_pipeline
from tests.support.command import tidemark
from tests.support.waiting import seconds

ROOT = Path(__file__).resolve().parents[1]
KUBERNETES = ROOT / "deploy" / "kubernetes"
BASE = KUBERNETES / "base"
OVERLAYS = ("volume", "s3")
NEEDED = {"volume": {"tidemark-shop"}, "s3": {"tidemark-shop", "tidemark-s3"}}
"""The Secrets that an overlay refers to."""


@cache
def documents(file: Path) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all(file.read_text()))


def one(file: str) -> dict[str, Any]:
    (document,) = documents(KUBERNETES / file)
    return document


def pod_of(file: str) -> dict[str, Any]:
    return dict(one(file)["spec"]["template"]["spec"])


def container_of(file: str) -> dict[str, Any]:
    (container,) = pod_of(file)["containers"]
    return dict(container)


def settings(overlay: str) -> dict[str, str]:
    """What the ConfigMap and the Secrets of an overlay give to the environment."""
    literals: list[str] = []
    for file in ("base/kustomization.yaml", f"overlays/{overlay}/kustomization.yaml"):
        for made in one(file).get("configMapGenerator", ()):
            literals += made.get("literals", ())
    given = dict(literal.split("=", 1) for literal in literals)
    for secret in documents(KUBERNETES / "secret.example.yaml"):
        if secret["metadata"]["name"] in NEEDED[overlay]:
            given |= secret["stringData"]
    return given


def labels_of(deployment: str, kustomization: str) -> dict[str, str]:
    """The labels of the pods, those included that kustomize adds."""
    (added,) = one(kustomization)["labels"]
    assert added["includeSelectors"]
    return {**added["pairs"], **one(deployment)["spec"]["template"]["metadata"]["labels"]}


def referred(kustomization: dict[str, Any]) -> Iterator[str]:
    yield from kustomization.get("resources", ())
    yield from kustomization.get("components", ())
    yield from (patch["path"] for patch in kustomization.get("patches", ()))
    for made in kustomization.get("configMapGenerator", ()):
        yield from made.get("files", ())


def test_every_file_is_part_of_a_kustomization_or_an_example() -> None:
    named = set()
    for file in KUBERNETES.rglob("kustomization.yaml"):
        (kustomization,) = documents(file)
        assert kustomization["kind"] in ("Kustomization", "Component")
        named |= {(file.parent / path).resolve() for path in referred(kustomization)}
    assert [path for path in named if not path.exists()] == []
    others = {p for p in KUBERNETES.rglob("*.yaml") if p.name != "kustomization.yaml" and ".example." not in p.name}
    assert others == {path for path in named if path.is_file()}


@pytest.mark.parametrize("file", ["base/deployment.yaml", "compact/compact.yaml"])
def test_pods_are_selected_run_as_the_user_of_the_image_and_write_only_to_volumes(file: str) -> None:
    spec = one(file)["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    pod, container = pod_of(file), container_of(file)
    uid = re.search(r"--uid (\d+)", (ROOT / "Dockerfile").read_text())
    assert uid is not None
    security = pod["securityContext"]
    assert {security[key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {int(uid[1])}
    assert security["runAsNonRoot"] and container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert mounts.keys() == volumes.keys()
    assert container["workingDir"] == mounts["tmp"] == "/tmp"
    assert [v["emptyDir"]["medium"] for v in volumes.values() if "emptyDir" in v] == ["Memory"], "others are not sticky"


def test_one_process_works_on_the_checkpoint_and_has_time_to_stop() -> None:
    spec = one("base/deployment.yaml")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    unit = (ROOT / "deploy" / "tidemark@.service").read_text()
    assert f"TimeoutStopSec={pod_of('base/deployment.yaml')['terminationGracePeriodSeconds']}\n" in unit
    assert "lifecycle" not in container_of("base/deployment.yaml"), "SIGTERM alone stops it"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_pipeline_file_is_valid_in_the_environment_of_the_pod(
    overlay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settings(overlay)
    asked = set(re.findall(r"\$\{env:(\w+)", (BASE / "shop.yaml").read_text()))
    assert asked <= given.keys()
    (secret,) = (s for s in documents(KUBERNETES / "secret.example.yaml") if s["metadata"]["name"] == "tidemark-shop")
    assert secret["stringData"].keys() <= asked, "no secret is asked for in vain"
    for name in asked:
        monkeypatch.setenv(name, given[name])
    done = tidemark("validate", BASE / "shop.yaml")
    assert (done.returncode, "warning" in done.stdout + done.stderr) == (0, False), done.stdout + done.stderr


def test_the_pods_get_what_the_overlays_make() -> None:
    made = {entry["name"] for entry in one("base/kustomization.yaml")["configMapGenerator"]}
    container = container_of("base/deployment.yaml")
    (pipelines,) = (v["configMap"]["name"] for v in pod_of("base/deployment.yaml")["volumes"] if "configMap" in v)
    maps = {pipelines}
    secrets = set()
    for source in container["envFrom"] + container_of("compact/compact.yaml")["envFrom"]:
        maps |= {source["configMapRef"]["name"]} if "configMapRef" in source else set()
        secrets |= {source["secretRef"]["name"]} if "secretRef" in source else set()
    (added,) = YAML(typ="safe").load((KUBERNETES / "overlays" / "s3" / "keys.yaml").read_text())
    secrets.add(added["value"]["secretRef"]["name"])
    assert maps == made
    assert secrets == {secret["metadata"]["name"] for secret in documents(KUBERNETES / "secret.example.yaml")}


def test_the_paths_are_those_of_the_image_and_of_the_pipeline_file() -> None:
    container = container_of("base/deployment.yaml")
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert f"VOLUME {mounts['data']}\n" in (ROOT / "Dockerfile").read_text()
    (files,) = (m["files"] for m in one("base/kustomization.yaml")["configMapGenerator"] if "files" in m)
    assert container["args"] == ["run", *(f"{mounts['pipelines']}/{name}" for name in files)]
    config = load_pipeline(BASE / "shop.yaml", settings("volume"))
    for place in (config.checkpoint, config.catalog.warehouse):
        assert place.removeprefix("file://").startswith(f"{mounts['data']}/")
    assert container["env"] == [{"name": "SPARK_LOCAL_DIRS", "value": mounts["scratch"]}]
    (claim,) = (
        v["persistentVolumeClaim"]["claimName"]
        for v in pod_of("base/deployment.yaml")["volumes"]
        if "persistentVolumeClaim" in v
    )
    assert claim == one("base/volume.yaml")["metadata"]["name"] == one("overlays/volume/size.yaml")["metadata"]["name"]


def test_probes_and_prometheus_ask_where_the_product_answers() -> None:
    container = container_of("base/deployment.yaml")
    config = load_pipeline(BASE / "shop.yaml", settings("volume"))
    assert config.metrics is not None and config.metrics.host == "0.0.0.0"
    assert container["ports"] == [{"name": "metrics", "containerPort": config.metrics.port}]
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
    assert probes == [{"path": path, "port": "metrics"} for path in ("/healthz", "/healthz", "/readyz")]
    service = one("base/service.yaml")
    notes = {name.removeprefix("prometheus.io/"): value for name, value in service["metadata"]["annotations"].items()}
    assert notes == {"scrape": "true", "path": "/metrics", "port": str(config.metrics.port)}
    assert service["spec"]["ports"] == [{"name": "metrics", "port": config.metrics.port, "targetPort": "metrics"}]
    (endpoint,) = one("podmonitor.example.yaml")["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("metrics", "/metrics")
    routes = (ROOT / "pipelines" / "http" / "metrics_app.py").read_text()
    assert all(f'Route("{path}"' in routes for path in ("/metrics", "/healthz", "/readyz"))


def test_selectors_find_the_pod_of_the_pipeline_and_not_that_of_compaction() -> None:
    pipeline = labels_of("base/deployment.yaml", "base/kustomization.yaml").items()
    compaction = labels_of("compact/compact.yaml", "compact/kustomization.yaml").items()
    near = pod_of("overlays/volume/same-node.yaml")["affinity"]["podAffinity"]
    (term,) = near["requiredDuringSchedulingIgnoredDuringExecution"]
    for selector in (
        one("base/service.yaml")["spec"]["selector"],
        one("podmonitor.example.yaml")["spec"]["selector"]["matchLabels"],
        term["labelSelector"]["matchLabels"],
    ):
        assert selector.items() <= pipeline and not selector.items() <= compaction


def test_the_commands_of_the_pods_are_commands_of_the_product() -> None:
    command = get_command(app)
    for file in ("base/deployment.yaml", "compact/compact.yaml"):
        name, *rest = container_of(file)["args"]
        found = command.get_command(command.make_context("tidemark", [name]), name)  # type: ignore[attr-defined]
        assert found is not None and found.make_context(name, list(rest)) is not None
    (variable,) = re.findall(r"\$\((\w+)\)", " ".join(container_of("compact/compact.yaml")["args"]))
    assert all(variable in settings(overlay) for overlay in OVERLAYS)


def test_the_memory_of_the_pod_is_enough_for_its_session() -> None:
    config = load_pipeline(BASE / "shop.yaml", settings("volume"))
    cores = int(re.sub(r"\D", "", config.spark.master or ""))
    driver = int(config.spark.properties["spark.driver.memory"].removesuffix("g"))
    resources = container_of("base/deployment.yaml")["resources"]
    assert int(resources["requests"]["cpu"]) == cores
    assert int(resources["requests"]["memory"].removesuffix("Gi")) >= driver + cores + 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_builds_the_overlays(overlay: str) -> None:
    built = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES / "overlays" / overlay)],
        capture_output=True,
        text=True,
        timeout=seconds(60),
        check=False,
    )
    assert built.returncode == 0, built.stderr
    objects = list(YAML(typ="safe").load_all(built.stdout))
    kinds = sorted(o["kind"] for o in objects)
    assert kinds == ["ConfigMap", "ConfigMap", "Deployment", "Deployment", "PersistentVolumeClaim", "Service"]
    deployments = [o["spec"] for o in objects if o["kind"] == "Deployment"]
    maps = {o["metadata"]["name"]: o["data"] for o in objects if o["kind"] == "ConfigMap"}
    for spec in deployments:
        assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
        (container,) = spec["template"]["spec"]["containers"]
        assert container["image"].startswith("registry.example.com/tidemark:"), "both run the image of the overlay"
        sources = container["envFrom"]
        warehouse = maps[sources[0]["configMapRef"]["name"]]["TIDEMARK_WAREHOUSE"]
        assert warehouse.startswith("s3://" if overlay == "s3" else "/data/")
        assert ("tidemark-s3" in {s.get("secretRef", {}).get("name") for s in sources}) == (overlay == "s3")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_the_kustomization_of_the_cookbook_gives_the_pod_its_pipeline() -> None:
    place = ROOT / "examples" / "kubernetes"
    built = subprocess.run(
        ["kubectl", "kustomize", str(place)], capture_output=True, text=True, timeout=seconds(60), check=False
    )
    assert built.returncode == 0, built.stderr
    objects = list(YAML(typ="safe").load_all(built.stdout))
    maps = {o["metadata"]["name"]: o["data"] for o in objects if o["kind"] == "ConfigMap"}
    (pod,) = (o["spec"]["template"]["spec"] for o in objects if o["kind"] == "Deployment")
    (container,) = pod["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    (pipelines,) = (v["configMap"]["name"] for v in pod["volumes"] if v["name"] == "pipelines")
    command, file = container["args"]
    assert (command, file) == ("run", f"{mounted['pipelines']}/shop.yaml")
    assert maps[pipelines] == {"shop.yaml": (place / "shop.yaml").read_text()}
    given = maps[container["envFrom"][0]["configMapRef"]["name"]]
    secrets = {key: "given" for s in documents(KUBERNETES / "secret.example.yaml") for key in s["stringData"]}
    assert {*re.findall(r"\$\{env:(\w+)", maps[pipelines]["shop.yaml"])} <= {*given, *secrets}
