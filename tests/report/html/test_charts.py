"""Names beside marks do not cover each other."""

from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.report.html.charts import LINE, MOST, place_names, push_apart

places = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 360)), max_size=6)


def mark(agent, coverage, size=2.0, method="m"):
    return {"method": method, "agent": agent, "coverage": coverage, "size": size}


@given(places)
def test_near_names_stand_a_line_apart_inside_the_picture(where):
    down = push_apart(where, 0.2, 360)
    assert all(0 <= y <= 360 for y in down)
    near = [
        abs(down[a] - down[b])
        for a in range(len(where))
        for b in range(a)
        if abs(where[a][0] - where[b][0]) < 0.2
    ]
    assert all(gap > LINE - 2 for gap in near)


def test_names_that_are_clear_stay_beside_their_marks():
    assert push_apart([(0.1, 50.0), (0.9, 50.0), (0.1, 200.0)], 0.2, 360) == [50.0, 50.0, 200.0]


def test_two_marks_at_one_place_get_two_names():
    rows = place_names([mark("a", 0.8), mark("b", 0.8), mark("a", 0.8, method="n")], 0.5, 100)
    places = {(row["method"], row["name"]): row["at"] for row in rows}
    # 0.5 of coverage over 100 pixels: a line of 14 pixels is 0.07
    assert places == {("m", "a"): 0.835, ("m", "b"): 0.765, ("n", "a"): 0.8}


def test_of_many_agents_the_ends_are_named():
    rows = place_names([mark(str(at), at / 100) for at in range(60, 90)], 0.5, 360)
    names = [row["name"] for row in rows if row["name"]]
    assert names == ["89", "88", "87", "86", "85", "84", "65", "64", "63", "62", "61", "60"]
    assert len(rows) == 30
    assert len(names) == MOST
