"""A federation of real processes that tests share, and how its runs are started and read."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager

import numpy as np
from local_federation import LocalFederation

from fedwqcp.federation.certs import make_certs
from fedwqcp.federation.transport.flower.deployment import new_app
from worked import drawn

AGENTS = ("agent-0", "agent-1", "agent-2")
"""Sites that are online from the beginning."""
TIMEOUTS = {"deadline": 60.0, "grace": 3.0}


@contextmanager
def federation_in(root):
    """Three sites online; two more nodes are turned away meanwhile."""
    new_app(root / "my-app")
    make_certs(root / "other", ("impostor",), ("localhost", "127.0.0.1"))
    with LocalFederation(root / "federation", (*AGENTS, "mistrustful")) as running:
        for at, name in enumerate(AGENTS):
            start(running, root, name, 60 + 20 * at, **{"partition-id": at})
        running.start_site("impostor", {}, key=root / "other" / "keys" / "impostor")
        key = root / "federation" / "certs" / "keys" / "mistrustful"
        running.start_site("mistrustful", {}, key=key, ca=root / "other" / "server.pem")
        running.wait_online(len(AGENTS))
        yield running


def start(federation, root, name, n, **config):
    """Start the node of a site that has so many calibration points."""
    home = root / "sites" / name
    home.mkdir(parents=True)
    rng = np.random.default_rng([n, *name.encode()])
    probs, labels = drawn(rng, n)
    np.savez(home / "cal.npz", probs=probs, labels=labels, features=rng.normal(size=(n, 2)))
    here = {"outputs": home / "cal.npz", "folder": home / "kept", "allow-samples": True}
    federation.start_site(name, {**here, "min-class": 1, **config})


def app_with(root, name, **settings):
    """An app whose terms have settings of the method; a run can only replace keys of its app."""
    new_app(root / name)
    with (root / name / "pyproject.toml").open("a") as table:
        for key, value in settings.items():
            table.write(f"method-setting.{key} = {json.dumps(value)}\n")
    return root / name


def nodes(federation, names):
    """Which node each site is, as the operator writes it down."""
    ids = {n: re.search(r"SuperNode ID: (\d+)", federation.processes.output(n)) for n in names}
    return ",".join(f"{name}={found[1]}" for name, found in ids.items())


def submitted(federation, root, name, app="my-app", **config):
    """Start a run with its records in a folder of its own."""
    config = {"agents": ",".join(AGENTS), **TIMEOUTS, **config, "records": root / "records" / name}
    return federation.submit(root / app, config)
