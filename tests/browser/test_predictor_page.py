"""The offline page of a predictor: what a person does with it, in headless Chromium."""

from __future__ import annotations

import pytest

import fedwqcp as fw
from command_line import call_json
from serve.cases import released


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    call_json("agent", "page", folder / "sets.html")
    release, _, new = released("three-levels")
    own = release.predictor("köln", model="net 3.1", valid_until="2031-05-31")
    own.save(folder / "köln.json")
    released("cqr")[0].predictor("köln", valid_until="2020-01-31").save(folder / "old.json")
    released("fed-crc")[0].predictor("köln").save(folder / "several.json")
    (folder / "none.json").write_text('{"kind": "predictor", "version": 7}')
    return folder, own, new


@pytest.fixture(params=[1280, 360], ids=["desktop", "phone"])
def tab(request, chromium, site):
    opened = chromium.new_page(viewport={"width": request.param, "height": 900})
    asked, failed = [], []
    opened.on("request", lambda one: asked.append(one.url))
    opened.on("pageerror", lambda one: failed.append(str(one)))
    opened.goto((site[0] / "sets.html").as_uri())
    yield opened
    assert len(asked) == 1, "the page itself"
    assert not failed
    opened.close()


def test_a_person_reads_the_set_in_words(tab, site, axe):
    folder, own, new = site
    tab.set_input_files("#file", folder / "köln.json")
    tab.wait_for_selector("#form:not([hidden])")
    about = tab.inner_text("#about")
    for part in ("köln", "net 3.1", "2031-05-31", own.promise):
        assert part in about
    assert tab.inner_text("#columns") == "id, melanoma, nävus, other"
    lines = [
        ", ".join([str(id), *map(repr, p)])
        for id, p in zip(new.ids, new.values.tolist(), strict=True)
    ]
    for alpha in (0.1, 0.3):
        tab.select_option("#level", str(alpha))
        tab.fill("#rows", "\n".join([*lines, "x, 0.5, 0.5"]))
        tab.click("button")
        *shown, wrong = tab.locator("#sets li").all_inner_texts()
        sets = own.predict_set(new.values, ids=new.ids, alpha=alpha)
        for row, text in enumerate(shown):
            held = text.partition(": ")[2].partition(".")[0].split(" or ")
            whole = {0: ["no class"], 3: ["every class"]}
            assert held == whole.get(len(sets[row]), [*sets.names(row)])
        assert "3" in wrong
    tab.evaluate(axe)
    assert tab.evaluate("axe.run().then((found) => found.violations.map((one) => one.id))") == []
    wide = tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert wide, "nothing hangs over the edge"
    tab.screenshot(path=f"build/sets-{tab.viewport_size['width']}.png")  # to look at


def test_a_predictor_past_its_date_and_one_of_another_version_say_so(tab, site):
    tab.set_input_files("#file", site[0] / "old.json")
    tab.wait_for_selector("#about .bad")
    assert "2020-01-31" in tab.inner_text("#about .bad")
    tab.fill("#rows", "1, 2.5\n1\n1, 2, 3\n1,")
    tab.click("button")
    assert [tab.locator(f"#sets li{bad}").count() for bad in ("", ".bad")] == [4, 3]
    assert not tab.is_visible("#some"), "no interval is empty by choice"
    tab.set_input_files("#file", site[0] / "none.json")
    tab.wait_for_selector("#form[hidden]", state="attached")
    assert tab.locator("#about .bad").count() == 1


def test_labels_that_occur_together_are_no_alternatives(tab, site):
    own = fw.load(site[0] / "several.json")
    tab.set_input_files("#file", site[0] / "several.json")
    tab.wait_for_selector("#form:not([hidden])")
    tab.fill("#rows", "0.99, 0.98, 0.97, 0.01")
    tab.click("button")
    held = [f"class {label}" for label in own.predict_set([[0.99, 0.98, 0.97, 0.01]])[0]]
    assert tab.inner_text("#sets li").startswith(", ".join(held))
    assert not tab.is_visible("#some")
