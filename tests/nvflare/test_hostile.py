"""A coordinator that was taken over, against a locked site: real processes and mutual TLS.

It submits any job, under any id, and its server process sends any command.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from local_federation import SERVER, FlareFederation, round_ended, wait_until, write_job

pytestmark = [pytest.mark.nvflare, pytest.mark.nightly]
SITE = "st_mary"


class Hostile(FlareFederation):
    """A federation whose server process does what files on a desk ask for."""

    def __init__(self, folder):
        super().__init__(folder, (SITE,))
        self.desk, own = folder / "desk", folder / "hostile"
        for made in (self.desk, own):
            made.mkdir()
        shutil.copy(Path(__file__).with_name("hostile.py"), own / "sitecustomize.py")
        self.env |= {"PYTHONPATH": str(own), "HOSTILE_DESK": str(self.desk)}
        self.processes._env |= self.env
        policies = self.kits / SERVER / "local"
        path = self.kits / SERVER / "startup" / "fed_server.json"  # jobs reach the sites
        path.write_text(json.dumps({**json.loads(path.read_text()), "require_signed_jobs": False}))
        (policies / "authorization.json").unlink()
        held = json.loads((policies / "resources.json").read_text())
        (policies / "resources.json").write_text(json.dumps({**held, "class_allow_list": ["*"]}))

    def command(self, topic, body="", job_id=""):
        """Send the site a command, past every check of the server, and return its reply."""
        name = uuid4().hex
        (self.desk / f"{name}.new").write_text(
            json.dumps({"topic": topic, "body": body, "job_id": job_id})
        )
        (self.desk / f"{name}.new").rename(self.desk / f"{name}.ask")
        told = self.desk / f"{name}.told"
        wait_until(told.exists, 30, "the site's reply", every=0.05)
        return json.loads(told.read_text())[0]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def federation(root, stops_when_terminated):
    home = root / "site"
    home.mkdir()
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1.0, 2.0, 3.0], size=200)
    np.savez(home / "cal.npz", probs=probs, labels=rng.integers(0, 3, 200))
    with Hostile(root / "federation") as running:
        settings = {"outputs": home / "cal.npz", "folder": home / "kept", "privacy-budget": 3.0}
        running.start_site(SITE, settings)
        running.wait_online(1)
        yield running


def job(root, job_id, agents=SITE, deadline=30.0, **meta):
    """A job on private terms, under an id of the coordinator's choice."""
    terms = {"agents": agents, "score": "lac", "n-classes": 3, "method": "private-fedwq-cp"}
    terms |= {"method-setting": {"epsilon": 3.0}, "records": str(root / "records" / job_id)}
    folder = write_job(root / f"job-{job_id}", {**terms, "deadline": deadline})
    given = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**given, "job_id": job_id, **meta}))
    return folder


def with_client(folder, **config):
    """Change what the job's settings name at a site."""
    path = folder / "app" / "config" / "config_fed_client.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return folder


def refused(federation, run, seconds=60):
    """Wait until a job ended without running."""
    log = federation.processes.output
    wait_until(lambda: f"Failed to run the Job ({run})" in log(SERVER), seconds, "the refusal")


def runs(shown):
    """What runs a program that leaves a file."""
    return {"path": "subprocess.Popen", "args": {"args": ["touch", str(shown)]}}


@pytest.mark.parametrize("where", ["executor", "component"])
def test_a_job_whose_metadata_say_byoc_runs_nothing(federation, root, where):
    shown, run = root / f"ran-{where}", str(uuid4())
    folder = job(root, run, byoc=True)
    if where == "executor":
        with_client(folder, executors=[{"tasks": ["*"], "executor": runs(shown)}])
    else:
        with_client(folder, components=[{"id": "x", **runs(shown)}])
    federation.submit(folder)
    said = "'subprocess.Popen' at config path"
    wait_until(lambda: said in federation.processes.output(SITE), 60, "the refusal")
    assert not shown.exists()


def test_settings_that_a_job_brings_are_not_the_sites(federation, root):
    """FLARE 2.9.0 finds them before the site's own, and imports the package that they name."""
    shown = root / "ran-package"
    for run in ("aevil", "zevil", str(uuid4())):
        config = job(root, run) / "app" / "config"
        package = {"nvflare_decomposers": f"{run}.app_{SITE}.config.package"}
        (config / "resources.json").write_text(json.dumps(package))
        (config / "package").mkdir()
        (config / "package" / "__init__.py").write_text(f"open({str(shown)!r}, 'w')")
        federation.submit(config.parent.parent)
        refused(federation, run)
    assert not shown.exists()


@pytest.mark.parametrize("topic", ["train.configure_job_log", "sys.configure_site_log"])
def test_a_command_with_a_log_configuration_runs_nothing(federation, root, topic):
    shown, run = root / f"ran-{topic}", str(uuid4())
    federation.submit(job(root, run, agents=f"{SITE},nobody", deadline=20.0))
    records = root / "records" / run
    launched = f"Launched job {run}"
    wait_until(lambda: launched in federation.processes.output(SITE), 60, "the job at the site")
    handler = {"()": "subprocess.Popen", "args": ["touch", str(shown)]}
    config = {"version": 1, "handlers": {"x": handler}, "root": {"handlers": ["x"]}}
    assert federation.command(topic, json.dumps(config), run) == "invalid_request"
    wait_until(lambda: round_ended(records), 60, "the end of the round")
    assert not shown.exists()


def test_a_command_reads_no_file_of_the_site(federation, root):
    (root / "patients.csv").write_text("miller,0.77123")
    assert federation.command("sys.shell", f"cat {root / 'patients.csv'}") == "invalid_request"


def test_no_job_and_no_command_resets_an_exhausted_budget(federation, root):
    """A job under the name of one of the kit's folders removes it, unless the site is locked."""
    kit, kept = federation.kits / SITE, root / "site" / "kept"

    def answers(run):
        """Whether the site answers one more round; FLARE's own id, or one that it chose."""
        records = root / "records" / run
        federation.submit(job(root, run))
        wait_until(lambda: round_ended(records), 90, "the end of the round")
        return any(records.glob("*/answers/step-0/*"))

    if not (kept / "privacy").exists():
        assert answers(str(uuid4()))
    spent = sorted(path.name for path in (kept / "privacy").iterdir())
    for name in ("local", "startup", "fedwqcp-site", "kept"):
        federation.submit(job(root, name))
        refused(federation, name)
        assert federation.command("train.delete_run", job_id=name) == "invalid_request"
        assert (kit / "local" / "fedwqcp.toml").exists()
    assert not answers(str(uuid4()))
    assert sorted(path.name for path in (kept / "privacy").iterdir()) == spent
    shutil.rmtree(kept)  # by whatever means: the site does not begin anew
    assert not answers(str(uuid4()))
    assert not kept.exists()
