"""Jobs and startup kits that ``fedwqcp nvflare new`` and ``allow`` write."""

from __future__ import annotations

import io
import json
import re
import subprocess
from pathlib import Path
from uuid import uuid4
from zipfile import ZipFile

import pytest
from local_federation import PROGRAMS
from nvflare.apis.fl_context import FLContext
from nvflare.apis.workspace import Workspace
from nvflare.fuel.utils.config_factory import ConfigFactory
from nvflare.private.defs import SysCommandTopic, TrainingTopic
from nvflare.private.fed.app.default_app_validator import DefaultAppValidator
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
from nvflare.private.privacy_manager import PrivacyService

from fedwqcp.errors import InputError
from fedwqcp.federation.site_folder import check_site_folder
from fedwqcp.federation.transport.nvflare import deployment
from fedwqcp.federation.transport.nvflare.deployment import (
    CONTROLLER,
    EXECUTOR,
    allow,
    new_job,
)
from fedwqcp.federation.transport.nvflare.lock import SiteLock
from fedwqcp.federation.transport.settings import nodes_of, round_of, timeouts_of
from fedwqcp.federation.transport.site import load_settings


def test_the_job_is_whole_its_terms_are_sound_and_it_brings_no_code(tmp_path):
    written = new_job(tmp_path / "my-job")
    assert all(path.exists() for path in written)
    assert json.loads((tmp_path / "my-job" / "meta.json").read_text())["name"] == "my-job"
    app = tmp_path / "my-job" / "app"
    for side in ("server", "client"):
        assert DefaultAppValidator(side).validate(str(app)) == ("", {}), "no `byoc` among these"
    server = ConfigFactory.load_config("config_fed_server.json", [str(app / "config")]).to_dict()
    (workflow,) = server["workflows"]
    assert workflow["path"] == CONTROLLER
    terms = workflow["args"]["terms"]
    round = round_of(terms)
    assert (round.agents, round.quorum) == (("st-mary", "lakeside", "north"), 2)
    assert timeouts_of(terms).deadline == 90
    assert nodes_of(terms, str) is None


def test_the_printed_project_gives_kits_for_the_agents_of_the_printed_job(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "how-to" / "nvflare.md"
    (project,) = re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "project.yml").write_text(project)
    command = (PROGRAMS / "nvflare", "provision", "-p", "project.yml", "-w", "kits")
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    kits = tmp_path / "kits" / "my-federation" / "prod_00"
    assert [len(allow(kits / agent)) for agent in ("st-mary", "lakeside", "north")] == [4] * 3
    assert len(allow(kits / "server.example.org")) == 2


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").write_text("x")
    with pytest.raises(InputError):
        new_job(tmp_path / "there")
    with pytest.raises(InputError, match="names the job"):
        new_job(tmp_path / "1 job")


def kit(folder, file):
    """A startup kit as far as it is changed."""
    for name in ("local", "startup"):
        (folder / name).mkdir(parents=True)
    (folder / "startup" / file).write_text("{}")
    held = {
        "class_allow_list": ["nvflare.x"],
        "allow_log_streaming": True,
        "components": [{"id": "resource_manager"}, {"id": "site_log_streamer"}],
    }
    (folder / "local" / "resources.json.default").write_text(json.dumps(held))
    rights = {"project_admin": "any", "lead": {"submit_job": "any", "byoc": "any"}}
    rights |= {"member": {"view": "any"}}
    given = {"format_version": "1.0", "permissions": rights}
    (folder / "local" / "authorization.json.default").write_text(json.dumps(given))
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Sites keep their folders in the home of whoever runs them."""
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_kit_allows_our_classes_alone_and_nobody_to_bring_code(tmp_path):
    site = kit(tmp_path / "site", "fed_client.json")
    kept = tmp_path / ".fedwqcp" / "site"
    names = ["resources.json", "authorization.json", "fedwqcp.toml", "site"]
    assert [path.name for path in allow(site)] == names
    check_site_folder(kept)
    held = json.loads((site / "local" / "resources.json").read_text())
    assert held["class_allow_list"] == [EXECUTOR]
    assert held["class_list_enforcement_mode"] == "enforce"
    assert held["allow_log_streaming"] is False
    assert [part["id"] for part in held["components"]] == ["resource_manager", "app_deployer"]
    rights = json.loads((site / "local" / "authorization.json").read_text())["permissions"]
    for right in ("byoc", "shell_commands"):
        assert {role: may[right] for role, may in rights.items()} == dict.fromkeys(rights, "none")
    assert rights["project_admin"]["submit_job"] == "any"
    assert "submit_job" not in rights["member"]
    assert load_settings(site / "local" / "fedwqcp.toml", site) == {"folder": str(kept)}
    (site / "local" / "fedwqcp.toml").write_text('outputs = "/data/cal.npz"\n')
    assert len(allow(site)) == 2, "a site's own settings stay"
    assert load_settings(site / "local" / "fedwqcp.toml", site)["outputs"] == "/data/cal.npz"
    server = kit(tmp_path / "server", "fed_server.json")
    assert len(allow(server)) == 2
    held = json.loads((server / "local" / "resources.json").read_text())
    assert held["class_allow_list"] == [CONTROLLER]
    with pytest.raises(InputError):
        allow(tmp_path)


def test_an_older_flare_runs_code_of_a_job_and_is_refused(tmp_path, monkeypatch):
    site = kit(tmp_path / "site", "fed_client.json")
    monkeypatch.setattr(deployment, "version", lambda name: "2.8.1")
    with pytest.raises(InputError) as error:
        allow(site)
    assert error.value.field == "nvflare"
    assert not (site / "local" / "resources.json").exists()


def app(*names):
    """What FLARE sends of a job: files below their app's folder, as a ZIP archive."""
    data = io.BytesIO()
    with ZipFile(data, "w") as archive:
        for name in ("config/config_fed_client.json", *names):
            archive.writestr(name, "{}")
    return data.getvalue()


def test_a_locked_site_takes_jobs_of_two_settings_files_in_a_folder_of_their_own(tmp_path):
    site, lock = Workspace(str(kit(tmp_path / "site", "fed_client.json")), "site"), SiteLock()
    PrivacyService.initialize(None)

    def refused(job, data):
        return bool(lock.deploy(site, job, {}, "app", data, FLContext()))

    own = str(uuid4())
    for name in ("local", "startup", "site", "x", f"{own}x"):
        assert refused(name, app())
    more = ("resources.json", "config/resources.json", "config/p/__init__.py", "custom/x.py")
    for name in (*more, "config/config_fed_client.conf", "fedwqcp.toml", "../x"):
        assert refused(own, app(name))
    assert refused(own, b"no archive")
    assert {path.name for path in (tmp_path / "site").iterdir()} == {"local", "startup"}
    assert not refused(own, app("config/config_fed_server.conf", "config/.__nvfl_sig.json"))


def test_a_locked_site_answers_only_commands_that_run_or_stop_jobs():
    SiteLock()
    left = {t for p in ClientRequestProcessors.request_processors for t in p.get_topics()}
    assert {"train.deploy", "train.start_job", "train.abort"} <= left
    files = {SysCommandTopic.SHELL, TrainingTopic.DELETE_RUN}
    assert not left & {*files, TrainingTopic.CONFIGURE_JOB_LOG, SysCommandTopic.CONFIGURE_SITE_LOG}
