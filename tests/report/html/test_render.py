from fedwqcp.report.html.page import (
    Bar,
    Card,
    Cards,
    Page,
    Section,
    Table,
    Text,
    View,
    ViewVerdict,
)
from fedwqcp.report.html.render import to_html
from pages import Read

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}"


def every_block(name):
    """Return a page that has every block, with one name wherever a name can stand."""
    bar = Bar(0.8, 0.9, 1, 0.9, 0)
    card = Card(name, "good", name, "0.9", ((name, name),), name, bar)
    blocks = [
        Text([name], "bad", name),
        Text([name], title=name),
        Cards([card]),
        Table(name, name, (name,), [(name,)], agents=0, bars=[bar]),
    ]
    sections = [Section("all", name, name, blocks)]
    view = View(name, [name, "c"], ViewVerdict("bad", name, name), sections)
    return Page(name, name, [(name, name)], [view, view])


def test_whatever_a_name_says_it_stays_text():
    plain, hostile = Read(to_html(every_block("st-mary"))), Read(to_html(every_block(HOSTILE)))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    assert not any(name.startswith("on") for _, found in hostile.tags for name in found)
    assert HOSTILE in hostile.words
    assert not any("49" in word for word in hostile.words)


def test_the_page_may_load_nothing_and_names_no_address():
    html = to_html(every_block("st-mary"))
    read = Read(html)
    assert html.startswith("<!doctype html>")
    (policy,) = [a["content"] for t, a in read.tags if t == "meta" and "http-equiv" in a]
    assert policy.startswith("default-src 'none'")
    assert "eval" not in policy
    assert all(address.startswith("data:") for address in read.addresses)
