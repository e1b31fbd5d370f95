"""A short table of situations, and which of them a record is of."""

from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.federation.advice import advise_on, promised_to_new_site
from fedwqcp.theory import advise

SITES = {name: np.random.default_rng(i).uniform(size=600) for i, name in enumerate("abcd")}


@pytest.mark.parametrize("situation", ["own", "mixture", "new-site", "private", "masked", "risk"])
def test_every_situation_names_a_method_and_says_why_in_two_sentences(situation: str) -> None:
    advice = advise(situation, agents=20)  # type: ignore[arg-type]
    assert advice.method in fw.methods.available()
    fw.methods.get(advice.method, **({"epsilon": 1.0} if situation == "private" else {}))
    assert str(advice).count(". ") <= 2


def test_an_unknown_situation_is_refused() -> None:
    with pytest.raises(InputError):
        advise("other")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"method": "fedwq-cp"}, "own"),  # two numbers an agent do not show that it is safe
        ({"method": fw.methods.get("fedwq-cp", tail=16)}, "safe"),
        ({"target": "mixture"}, "mixture"),
        ({}, "own"),
        ({"method": "fedwq-cp", "secure": (0.0, 1.0)}, "masked"),
        ({"method": fw.methods.get("private-fedwq-cp", epsilon=5.0)}, "private"),
    ],
)
def test_a_record_tells_its_situation(options: dict[str, object], code: str) -> None:
    release = fw.calibrate(SITES, alpha=0.1, **options)  # type: ignore[arg-type]
    assert advise_on(release).code == code


@pytest.mark.parametrize(("alpha", "method"), [(0.1, "max-cp"), (0.2, "new-agent-cp")])
def test_for_a_new_site_the_number_of_agents_decides(alpha: float, method: str) -> None:
    found = advise("new-site", agents=len(SITES), alpha=alpha)
    assert (found.method, found.numbers["agents"]) == (method, 4)


def test_what_a_round_promises_to_a_new_site() -> None:
    found = promised_to_new_site(fw.calibrate(SITES, alpha=0.1), 0.1)
    assert (found["kind"], found["shared"], found["needed"]) == ("agent-floor", False, 9)
    release = fw.calibrate(SITES, method="new-agent-cp", alpha=0.2)
    found = promised_to_new_site(release, 0.2)
    assert (found["kind"], found["infinite"]) == ("new-agent-marginal", False)
