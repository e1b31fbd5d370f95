"""One FedWQ-CP round over four SuperNodes on this machine, against an empty query round.

Run: python benchmarks/flower_round.py    (needs the extra flower)
Both are measured in the same run, by turns. Prints medians and ratios; the round should take at
most 1.2 times an empty one, and what this package computes under 1 % of it.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from fedwqcp.demo.hospitals import write_sites
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.predict import calibration_of
from fedwqcp.federation.server import Server
from fedwqcp.federation.transport import local
from fedwqcp.federation.transport.flower.deployment import new_app
from fedwqcp.federation.transport.settings import round_of
from fedwqcp.readers import load_outputs

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from local_federation import LocalFederation

CLIENT = """
from flwr.app import Message, RecordDict
from fedwqcp.federation.transport.flower import client_app

app = client_app()

@app.query("empty")
def empty(message, context):
    return Message(RecordDict(), reply_to=message)
"""

SERVER = '''
import json, time
from pathlib import Path
from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp
from fedwqcp.federation.transport.flower import Timeouts, calibrate, round_of

app = ServerApp()

class Timed:
    """A grid that notes when questions leave."""
    def __init__(self, grid):
        self.grid, self.pushed = grid, []
    def __getattr__(self, name):
        return getattr(self.grid, name)
    def push_messages(self, messages):
        self.pushed.append(time.perf_counter())
        return self.grid.push_messages(messages)

@app.main()
def main(grid, context):
    config = dict(context.run_config)
    out, repeats = Path(config.pop("records")), 3
    found = {"empty": [], "round": []}
    for _ in range(repeats):
        began = time.perf_counter()
        ids = set(grid.push_messages([
            Message(RecordDict(), dst_node_id=node, message_type="query.empty", ttl=120.0)
            for node in grid.get_node_ids()
        ]))
        while ids:
            ids -= {m.metadata.reply_to_message_id for m in grid.pull_messages(ids)}
            if ids:
                time.sleep(0.25)
        found["empty"].append(time.perf_counter() - began)
        timed = Timed(grid)
        calibrate(timed, round_of(config), timeouts=Timeouts(60.0, 10.0))
        found["round"].append(timed.pushed[1] - timed.pushed[0])
    out.write_text(json.dumps(found))
'''


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        sites = write_sites(root / "sites")
        new_app(root / "app")
        (root / "app" / "app" / "client_app.py").write_text(CLIENT)
        (root / "app" / "app" / "server_app.py").write_text(SERVER)
        out = root / "found.json"
        config = {"agents": ",".join(sites), "n-classes": 2, "records": str(out)}
        with LocalFederation(root / "federation", sites) as federation:
            for name in sites:
                home = root / "sites" / name
                node = {"outputs": home / "cal.npz", "folder": home / "kept"}
                federation.start_site(name, node)
            federation.wait_online(len(sites))
            run = federation.submit(root / "app", config)
            ended = federation.wait(run, 240.0, out.exists)
            if not out.exists():
                raise SystemExit(f"{ended}: {federation.processes.output('superlink')[-2000:]}")
        found = json.loads(out.read_text())
        ours = own_part(root / "sites", sites, config)
    empty, whole = (statistics.median(found[key]) for key in ("empty", "round"))
    print(f"empty query round   {empty:7.2f} s   {[round(s, 2) for s in found['empty']]}")
    print(f"FedWQ-CP round      {whole:7.2f} s   {[round(s, 2) for s in found['round']]}")
    print(f"ratio               {whole / empty:7.2f}     at most 1.2")
    print(f"our part            {ours * 1e3:7.2f} ms  {ours / whole:.3%} of the round, under 1 %")


def own_part(folder: Path, sites: tuple[str, ...], config: dict[str, object]) -> float:
    """Seconds of encoding, checking, aggregating and decoding for all sites together."""
    terms = round_of({**config, "records": ""})
    sides = {
        name: Agent(
            name, terms, calibration_of(terms, load_outputs(folder / name / "cal.npz")), limit=None
        )
        for name in sites
    }
    times = []
    for _ in range(20):
        began = time.perf_counter()
        local.run(Server(terms), sides)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


if __name__ == "__main__":
    main()
