"""Close a round of many agents in process and by files: ``benchmarks/many_answers.py 20000``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.server import Server
from fedwqcp.federation.transport.folder import open_round
from fedwqcp.methods import Calibration
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Choice, Round


def main(count: int) -> None:
    """Print the seconds of both."""
    names = tuple(f"a{number:06d}" for number in range(count))
    round = Round("r1", Choice("fedwq-cp"), Choice("lac"), (0.1,), names, count, 10**5)
    plan, cal = Plan.of(round), Calibration(np.linspace(0, 1, 50))
    answers = {name: Agent(name, plan, cal).answer() for name in names}
    begin = time.perf_counter()
    server = Server(plan)
    server.asks()
    for name, answer in answers.items():
        server.receive(answer, name, name)
    server.close_step()
    encode(server.release())
    print(f"{count} answers in process: {time.perf_counter() - begin:.1f} s")
    with tempfile.TemporaryDirectory() as folder:
        open_round(round, Path(folder, "round.json"))
        for name, answer in answers.items():
            Path(folder, f"{name}.json").write_bytes(answer)
        files = [f"{name}.json" for name in names]
        begin = time.perf_counter()
        words = ["-m", "fedwqcp", "server", "close", "round.json", *files]
        subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True)
        print(f"{count} answers by files: {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
