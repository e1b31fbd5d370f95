"""The page on privacy shows what its records give."""

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_shows_what_the_records_give():
    page = (ROOT / "docs" / "explanation" / "privacy.md").read_text()
    found = runpy.run_path(str(ROOT / "benchmarks" / "privacy.py"))["tables"]()
    assert [name for name, _ in found] == ["published", "tight", "mean"]
    for name, table in found:
        assert f"<!-- {name} -->\n\n{table}\n\n" in page, f"the table {name!r} differs"


def test_every_setting_has_a_record_that_covers():
    lines = (ROOT / "results" / "privacy" / "records.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    private = [r for r in records if r["kind"] == "agent" and r["epsilon"] is not None]
    assert {r["n"] for r in private} == {50, 200, 1000, 5000}
    assert all(r["coverage"] >= 0.9 for r in private)
    by = {(r["n"], r["epsilon"], r["form"]): r["size"] for r in private}
    assert all(by[n, e, "tight"] <= by[n, e, "published"] for n, e, _ in by)
