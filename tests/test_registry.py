import sys
from dataclasses import dataclass
from importlib import metadata
from types import ModuleType

import pytest

from fedwqcp import scores
from fedwqcp.errors import InputError
from fedwqcp.registry import Registry
from fedwqcp.scores import Score
from fedwqcp.scores.lac import LAC

REGISTRY: Registry[Score] = Registry(Score, "fedwqcp.scores", "score")
BUILT_IN = {
    "absolute-residual", "aps", "cqr", "custom", "lac", "normalized-residual", "ordinal-aps",
    "raps", "saps",
}  # fmt: skip


@dataclass(frozen=True)
class Foreign(LAC):
    """A score of another distribution."""


Foreign.__module__ = "other_scores"


@pytest.fixture
def other_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("other_scores")
    module.__dict__.update(Foreign=Foreign, number=7)
    monkeypatch.setitem(sys.modules, "other_scores", module)
    entries = {
        "fedwqcp.scores": [
            metadata.EntryPoint("wrong", "other_scores:number", "fedwqcp.scores"),
            metadata.EntryPoint("foreign", "other_scores:Foreign", "fedwqcp.scores"),
        ]
    }
    monkeypatch.setattr(metadata, "entry_points", lambda group: entries.get(group, []))


def test_every_file_is_found() -> None:
    assert set(scores.available()) >= BUILT_IN
    assert list(scores.available()) == sorted(scores.available())
    assert not any(name.startswith(("_", "-")) for name in scores.available())


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_names_and_objects_lead_to_each_other(name: str) -> None:
    made = scores.get(name)
    assert scores.name_of(made) == name
    assert type(made) is REGISTRY.find(name)


def test_settings_reach_the_object() -> None:
    assert scores.get("raps", penalty=0.5, k_reg=2).penalty == 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scores.get("app"), "unknown score 'app'; known: absolute-residual, aps, "),
        (lambda: scores.get("_base"), "unknown score '_base'"),
        (lambda: scores.get("ordinal_aps"), "unknown score 'ordinal_aps'"),
        (
            lambda: scores.get("raps", penalti=0.1),
            "score 'raps' has no setting 'penalti'; did you mean 'penalty'?; known: penalty, ",
        ),
        (lambda: scores.get("lac", zzz=1), "score 'lac' has no setting 'zzz'; known: none"),
        (lambda: scores.get("raps", penalty=-1), "penalty must be a finite number of at least 0"),
        (lambda: scores.name_of(Foreign()), "score Foreign is not registered; put its file into"),
    ],
)
def test_wrong_names_and_settings_are_refused(call, message: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert message in str(caught.value)


@pytest.mark.usefixtures("other_distribution")
def test_other_distributions_register_theirs() -> None:
    assert {"foreign", "wrong"} < set(REGISTRY.available())
    assert REGISTRY.find("foreign") is Foreign
    assert REGISTRY.make("foreign", {}) == Foreign()
    assert REGISTRY.name_of(Foreign()) == "foreign"
    with pytest.raises(InputError, match="score 'wrong' must be a Score class"):
        REGISTRY.find("wrong")


def test_a_file_holds_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    module = REGISTRY.find("lac").__module__
    second = type("Second", (LAC,), {"__module__": module})
    monkeypatch.setattr(sys.modules[module], "Second", second, raising=False)
    with pytest.raises(InputError, match=r"scores\.lac must define one Score, got 2"):
        REGISTRY.find("lac")
