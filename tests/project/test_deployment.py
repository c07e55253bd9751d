"""Checks conf/docker and conf/kubernetes, as far as possible without a Docker engine and a cluster."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from goworkers_py.brokers.contracts.fleet import Stats
from goworkers_py.cli import main
from goworkers_py.config.loader import load
from goworkers_py.config.options import Config
from goworkers_py.observe.health_report import merged
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.web.probes import pages

CONF = Path(__file__).parents[2] / "conf"
DOCKERFILE = (CONF / "docker/Dockerfile").read_text("utf-8")
PATHS = set(pages(lambda: merged("working", []), lambda: Stats(0, 0, 0, 0, 0, 0, 0, 0, 0, [])))
ENOUGH_S = Config().timeout + 2 * Launcher.after_jobs_s


def parses(words: list[str]) -> None:
    assert words[0] == "pyworkers"
    context = click.Context(main, **main.context_settings)  # click keeps the help option of a command
    command = main.get_command(context, words[1])
    assert command is not None
    command.make_context(words[1], words[2:], parent=context)


def test_the_image_runs_pyworkers_as_its_first_process() -> None:
    forms = re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", DOCKERFILE, re.MULTILINE)
    words = {what: json.loads(form) for what, form in forms}
    entry, arguments = words["ENTRYPOINT"], words["CMD"]
    parses([*entry, *arguments])
    environment = dict(re.findall(r"(PYWORKERS_\w+)=(\S+)", DOCKERFILE))
    config = load(environment=environment)
    assert f"EXPOSE {config.stats_port}\n" in DOCKERFILE
    checked = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", DOCKERFILE)
    assert checked is not None
    assert int(checked[1]) == config.stats_port
    assert checked[2] in PATHS


def test_compose_gives_time_to_drain() -> None:
    services = yaml.safe_load((CONF / "docker/compose.yaml").read_text("utf-8"))["services"]
    worker = services["worker"]
    assert float(worker["stop_grace_period"].removesuffix("s")) >= ENOUGH_S
    assert load(environment=worker["environment"]).broker == "redis://redis:6379/0"
    assert "redis" in services
    assert "noeviction" in services["redis"]["command"]


def kubernetes(name: str) -> dict[str, Any]:
    """The objects of a file, by their kind."""
    return {one["kind"]: one for one in yaml.safe_load_all((CONF / "kubernetes" / name).read_text("utf-8"))}


@pytest.mark.parametrize(("name", "may_come_in"), [("deployment.yaml", "monitoring"), ("pages.yaml", "ingress-nginx")])
def test_a_pod_has_no_rights_and_is_reached_from_one_namespace_only(name: str, may_come_in: str) -> None:
    objects = kubernetes(name)
    pod, account, policy = (
        objects["Deployment"]["spec"]["template"],
        objects["ServiceAccount"],
        objects["NetworkPolicy"],
    )
    assert pod["spec"]["serviceAccountName"] == account["metadata"]["name"]
    assert (pod["spec"]["automountServiceAccountToken"], account["automountServiceAccountToken"]) == (False, False)
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert policy["spec"]["podSelector"]["matchLabels"] == pod["metadata"]["labels"]
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    (rule,) = policy["spec"]["ingress"]
    (peer,) = rule["from"]
    assert peer == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": may_come_in}}}
    ports = [port["containerPort"] for port in container["ports"]]
    assert rule["ports"] == [{"protocol": "TCP", "port": port} for port in ports]


def test_the_pages_are_behind_a_login_and_an_ingress_with_tls(tmp_path: Path) -> None:
    objects = kubernetes("pages.yaml")
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    parses([*container["command"], *container["args"]])
    file = tmp_path / "conf.ini"
    file.write_text(objects["ConfigMap"]["data"]["conf.ini"])
    web = load(file).web
    web.check()
    assert web.trusted_proxies, "or all failed logins are those of the ingress controller"
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert web.access_file == f"{mounts['access']}/access"
    assert [port["containerPort"] for port in container["ports"]] == [web.port]
    (volume,) = [volume for volume in pod["volumes"] if "secret" in volume]
    assert (volume["secret"]["defaultMode"], pod["securityContext"]["fsGroup"]) == (0o440, 10001)
    assert objects["Service"]["spec"]["selector"] == objects["Deployment"]["spec"]["selector"]["matchLabels"]
    ingress = objects["Ingress"]["spec"]
    assert ingress["tls"][0]["hosts"] == [rule["host"] for rule in ingress["rules"]]


def test_the_deployment_probes_existing_pages_and_gives_time_to_drain(tmp_path: Path) -> None:
    objects = kubernetes("deployment.yaml")
    conf, deployment = objects["ConfigMap"], objects["Deployment"]
    pod: dict[str, Any] = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    parses([*container["command"], *container["args"]])
    file = tmp_path / "conf.ini"
    file.write_text(conf["data"]["conf.ini"])
    config = load(file, environment={variable["name"]: "redis://redis" for variable in container["env"]})
    assert pod["spec"]["terminationGracePeriodSeconds"] >= config.timeout + 2 * Launcher.after_jobs_s
    assert config.stats_host == "0.0.0.0"
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"stats": config.stats_port}
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(config.stats_port)
    for probe in ("livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in PATHS
        assert asked["port"] == "stats"
    (volume,) = [volume for volume in pod["spec"]["volumes"] if "configMap" in volume]
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == volume["name"]]
    assert volume["configMap"]["name"] == conf["metadata"]["name"]
    assert container["args"][1] == f"{mount['mountPath']}/conf.ini"
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
