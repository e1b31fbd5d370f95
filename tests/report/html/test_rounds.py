import re

import numpy as np
import pytest

import fedwqcp as fw
from command_line import call_json
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import choose_method, choose_score
from fedwqcp.federation.predict import calibration_of
from fedwqcp.federation.record import save as save_release
from fedwqcp.federation.transport import folder as transport
from fedwqcp.readers import load_outputs
from fedwqcp.report import html
from fedwqcp.report.html import load_page, save
from fedwqcp.wire.messages import Round
from fedwqcp.words.coverage import rule
from pages import Read
from worked import drawn

NAMES = ("st-mary", "lakeside", "north")


def words(path, source, **options):
    """Return all that a reader can see."""
    page = save(load_page(source, **options), path / "page.html")
    return " ".join(Read(page.read_text()).words)


@pytest.fixture
def rounds(tmp_path):
    """A closed round of three hospitals, one of which sent what is refused."""
    round = Round(
        "r1",
        choose_method("fedwq-cp"),
        choose_score(fw.APS()),
        (0.1,),
        NAMES,
        2,
        key="k",
        n_classes=3,
    )
    transport.open_round(round, tmp_path / "round.json")
    rng = np.random.default_rng(3)
    for name, rows in zip(NAMES, (300, 60, 40), strict=True):
        for part in ("cal", "test"):
            probs, labels = drawn(rng, rows)
            ids = np.array([f"patient-{name}-{i}" for i in range(rows)])
            np.savez(tmp_path / f"{name}-{part}.npz", probs=probs, labels=labels, ids=ids)
        cal = calibration_of(round, load_outputs(tmp_path / f"{name}-cal.npz"))
        transport.write_answer(Agent(name, round, cal), tmp_path / f"{name}.json")
    (tmp_path / "north.json").write_text("{}")
    answers = [tmp_path / f"{name}.json" for name in NAMES]
    transport.close_round(tmp_path / "round.json", answers, tmp_path / "release.json")
    return tmp_path


def block(page, name, view=0):
    """Return the rows of a table by name."""
    (found,) = (
        b for s in page.views[view].sections for b in s.blocks if getattr(b, "name", "") == name
    )
    return found


def lines(page, name="exchanged"):
    """Return the lines of a table, by its first column."""
    table = block(page, name)
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_the_server_tells_what_it_was_sent_and_no_coverage(rounds):
    said = words(rounds, rounds, title="Our round")
    assert said.startswith("Our round")
    assert not re.search(r"\d\.\d+ coverage", said)
    assert "patient" not in said
    sent = lines(load_page(rounds))
    for name in ("st-mary", "lakeside"):
        assert sent[name]["bytes up"] == f"{(rounds / f'{name}.json').stat().st_size:,}"
        assert sent[name]["status"] == "used"
    assert (sent["st-mary"]["points"], sent["north"]["status"]) == (*("300", "refused"),)
    assert sent["north"]["bytes up"] == "0"  # what is refused is not counted


def test_an_agents_own_report_adds_coverage_and_no_person(rounds):
    test, cal = (rounds / f"st-mary-{part}.npz" for part in ("test", "cal"))
    data = {"outputs": test, "calibration": cal}
    said = words(rounds, rounds / "release.json", agent="st-mary", **data)
    assert re.search(r"truth for 0\.\d{3}", said)
    assert "aps" not in said[: said.index("calibration cases 300")]
    assert "patient" not in said
    assert any(rule(word, 0.9, 0.85) in said for word in ("too low", "watch", "on target"))


def test_the_sizes_of_sets_and_how_often_each_is_right_stand_in_lines_of_ten(tmp_path):
    rng = np.random.default_rng(8)
    probs = rng.dirichlet([1, 1, 1, 1], 400)
    outputs = fw.Outputs(probs, [rng.choice(4, p=p) for p in probs], ids=np.arange(400))
    release = fw.calibrate(dict.fromkeys(NAMES, outputs), method="fedwq-cp", alpha=0.05, key="k")
    table = block(html.rounds.release_page(release, {NAMES[0]: outputs}), "sizes")
    sets = release.predict_set(NAMES[0], outputs)
    sizes, covered = sets.sizes(), sets.cover(outputs.labels)
    assert min(np.bincount(sizes)[1:]) < 10
    total = 0
    for size, share, n, right, _ in table.rows:
        inside = np.isin(sizes, [int(word) for word in re.findall(r"\d+", size)])
        assert float(share) == pytest.approx(100 * inside.mean(), abs=0.0501)
        assert right == f"{covered[inside].mean():.3f}"
        assert int(n) == inside.sum() >= 10
        total += int(n)
    assert total == 400


def test_scripts_get_the_codes_of_what_a_page_notes(rounds):
    cal = rounds / "st-mary-cal.npz"
    facts = call_json(
        *("report", rounds / "release.json", "--agent", "st-mary", "--outputs", cal),
        *("--calibration", cal, "--out", rounds / "page.html"),
    )
    (note,) = facts["notes"]
    assert (note["code"], note["agents"], note["rows"]) == ("calibration-rows", ["st-mary"], 300)


def test_a_release_writes_its_report_from_python(tmp_path):
    rng = np.random.default_rng(5)

    def outputs(n):
        return fw.Outputs(*drawn(rng, n), ids=np.arange(n))

    release = fw.calibrate(
        {name: outputs(80) for name in NAMES}, method="fedwq-cp", alpha=[0.1, 0.4]
    )
    tests = {name: outputs(150) for name in NAMES[:2]}
    page = release.report(tmp_path / "page.html", tests)
    assert page == tmp_path / "page.html"
    said = " ".join(Read(page.read_text()).words)
    for name, test in tests.items():
        for alpha in release.round.alphas:
            found = release.measure(name, test, alpha=alpha)
            assert f"{found.coverage:.3f}" in said
    assert "Every method" not in said  # there is one
    assert release.report(str(tmp_path / "plain.html")).exists()


def class_tables(page):
    """Return the tables of coverage by class, one for each level."""
    return [
        b
        for v in page.views
        for s in v.sections
        for b in s.blocks
        if getattr(b, "name", "") == "classes"
    ]


def test_coverage_by_class_where_labels_are_known(tmp_path):
    names = ("melanoma", "nevus", "wart", "other", "mole")
    labels = np.repeat([0, 1, 2, 3], [30, 12, 4, 3])  # and no mole
    sure = np.full((len(labels), 5), 0.1)
    sure[np.arange(len(labels)), np.where(labels == 1, 0, labels)] = 0.6  # a nevus is missed
    outputs = fw.Outputs(sure, labels)
    release = fw.calibrate(
        {"st-mary": outputs}, method="fedwq-cp", alpha=0.3, score="lac", classes=names
    )
    page = html.rounds.release_page(release, {"st-mary": outputs})
    (table,) = class_tables(page)
    # the small ones have seven people together, so the next larger class joins them
    merged = fw.metrics.Rate(n=19, hits=7)
    assert [row[1:3] for row in table.rows] == [("19", "0.368"), ("30", "1.000")]
    assert f"{merged.low:.3f}" in table.rows[0][3]
    np.savez(tmp_path / "test.npz", probs=sure, labels=labels)
    save_release(release, tmp_path / "release.json")
    own = {"agent": "st-mary", "outputs": tmp_path / "test.npz"}
    assert class_tables(load_page(tmp_path / "release.json", **own)) == [table]
    assert not class_tables(load_page(tmp_path / "release.json"))  # no labels


@pytest.mark.parametrize("by", ["label", "group"])
def test_a_round_by_label_or_group_is_judged_in_each(by):
    """A part at 0.5 hides in a whole that is on target: the verdict names it."""
    rng = np.random.default_rng(0)

    def site(hits, likely=0.91):
        """Of the 60 rows of label or group 1 some fit; all others do."""
        part = np.repeat([0, 1], [1200, 60])
        labels = part if by == "label" else rng.integers(0, 2, len(part))
        sure = np.where((part == 1) & (np.cumsum(part) > hits), 0.2, likely)
        probs = np.column_stack((1 - sure, sure))
        probs[labels == 0] = probs[labels == 0][:, ::-1]
        return fw.Outputs(probs, labels, groups=np.where(part, "old", "young"))

    cals = {name: site(60, likely=0.9) for name in "ab"}
    release = fw.calibrate(cals, method="fedwq-cp", alpha=0.05, score="lac", by=by)
    name = "1" if by == "label" else "old"
    page = html.rounds.release_page(release, {"a": site(30)})
    verdict = page.views[0].verdict
    rate = fw.metrics.Rate(n=60, hits=30)
    assert verdict.tone == "bad"
    assert f"{name}" in verdict.text
    assert f"{rate.low:.3f}" in verdict.text
    page = html.rounds.release_page(release, {"a": site(60), "b": site(30)})
    verdict = page.views[0].verdict
    assert f"b's {name} (0.500" in verdict.text
    assert "a's" not in verdict.text
    table = block(page, "classes" if by == "label" else "groups")
    highs = [float(row[-1].split()[-1]) for row in table.rows]
    assert [tone == "plain" for tone in table.tones] == [high >= 0.95 for high in highs]
    assert "good" not in table.tones


def test_overlapping_groups_are_rows_with_what_is_proved():
    kinds = [{"f", "old"}, {"f"}, set(), {"old"}]

    def site(n):
        probs = np.random.default_rng(n).dirichlet([1, 1], n)
        return fw.Outputs(probs, np.arange(n) % 2, groups=[kinds[row % 4] for row in range(n)])

    release = fw.calibrate({"a": site(24), "b": site(400)}, alpha=0.1, by="group", score="lac")
    assert [release.proved("a", group=name) for name in ("f", "others")] == [0.9, 6 / 7]
    test = site(200)
    (view,) = html.rounds.release_page(release, {"a": test}).views
    (table,) = next(section for section in view.sections if section.key == "groups").blocks
    sets = release.predict_set("a", test)
    found = {rate.group: rate for rate in fw.metrics.by_group(sets, test.labels, test.groups)}
    assert {row[0]: row[1:5] for row in table.rows} == {
        name: (*proved, f"{found[name].n}", f"{found[name].coverage:.3f}")
        for name, proved in {
            "f": ("12", "0.9"),
            "old": ("12", "0.9"),
            "others": ("6", "0.857"),
        }.items()
    }


def test_a_group_of_which_an_agent_has_no_points_proves_nothing_there():
    rng = np.random.default_rng(2)

    def site(*names):
        probs = rng.dirichlet([1, 1], 90)
        labels = [rng.choice(2, p=p) for p in probs]
        return fw.Outputs(probs, labels, groups=[names[row % len(names)] for row in range(90)])

    sites = {"a": site("f"), "b": site("f", "m")}
    release = fw.calibrate(sites, alpha=0.1, by="group", score="lac")
    (view,) = html.rounds.release_page(release, {"a": site("f", "m")}).views
    (table,) = next(section for section in view.sections if section.key == "groups").blocks
    assert {row[0]: row[1:3] for row in table.rows} == {"f": ("90", "0.9"), "m": ("0", "0")}


def server_page(release):
    """Return the verdict of the server's page and its sections by key."""
    (view,) = html.rounds.release_page(release, {}).views
    return view.verdict, {section.key: section for section in view.sections}


def texts(section):
    return " ".join(line for block in section.blocks for line in getattr(block, "lines", ()))


GRID = np.arange(1, 1001) / 1001


def test_the_report_says_how_much_a_threshold_borrows_and_what_it_is_worth():
    rng = np.random.default_rng(0)
    sizes = {"few": 12, "many": 400}
    sites = {
        k: fw.Calibration(rng.random(n), np.arange(n) % 2, n_classes=2) for k, n in sizes.items()
    }
    for method in ("auto", "fedls-cp"):
        release = fw.calibrate(sites, method=method, alpha=0.1, target="own")
        shown = lines(html.rounds.release_page(release, {}))
        assert float(shown["few"]["borrowed"]) > float(shown["many"]["borrowed"])
        assert float(shown["few"]["effective points"]) < float(shown["many"]["effective points"])


def test_the_server_judges_every_group_and_not_the_first_alone():
    """Group f is safe and m is not: what is said of m stands in the verdict and the diagnosis."""
    even = fw.Calibration(np.tile(GRID, 2), groups=["f"] * 1000 + ["m"] * 1000)
    odd = fw.Calibration(np.concatenate([GRID, 5 + GRID]), groups=["f"] * 1000 + ["m"] * 1000)
    method = fw.methods.get("fedwq-cp", tail=16)
    release = fw.calibrate({"a": even, "b": odd}, method=method, alpha=0.1, by="group")
    verdict, sections = server_page(release)
    assert verdict.tone == "bad"
    assert "Group m" in verdict.text
    assert "Group m" in texts(sections["diagnosis"])
    line = lines(html.rounds.release_page(release, {}))["b"]
    assert (line["group"], line["points"]) == ("m", "1,000")
    assert line["sent"] == "5.9"
