import sys
from abc import abstractmethod
from dataclasses import dataclass
from importlib import metadata
from types import ModuleType

import pytest
from typer.testing import CliRunner

from fedwqcp import methods, scores
from fedwqcp.cli.main import app
from fedwqcp.errors import InputError
from fedwqcp.registry import Registry, Setting, parse_setting, settings_of, typed
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


Foreign.__module__ = "other_scores.margin"  # its package gives it another path


class Unfinished(LAC):
    """A score that leaves a member to others."""

    @abstractmethod
    def missing(self) -> None: ...


@pytest.fixture
def other_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("other_scores")
    module.__dict__.update(Foreign=Foreign, Unfinished=Unfinished, number=7)
    monkeypatch.setitem(sys.modules, "other_scores", module)
    entries = {
        "fedwqcp.scores": [
            metadata.EntryPoint("wrong", "other_scores:number", "fedwqcp.scores"),
            metadata.EntryPoint("unfinished", "other_scores:Unfinished", "fedwqcp.scores"),
            metadata.EntryPoint("broken", "other_scores:missing", "fedwqcp.scores"),
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


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: scores.get("_base"), ""),
        (lambda: scores.get("ordinal_aps"), "'ordinal-aps'"),
        (lambda: scores.get("APS"), "'aps'"),
        (lambda: scores.get("AbsoluteResidual"), "'absolute-residual'"),
        (lambda: methods.get("FedWQCP"), "'fedwq-cp'"),
        (lambda: methods.find("Fed CP-QQ"), "'fedcp-qq'"),
        (lambda: methods.get("Auto"), "'auto'"),
        (lambda: scores.get("raps", penalti=0.1), "'penalty'"),
        (lambda: scores.get("lac", zzz=1), ""),
        (lambda: scores.get("raps", penalty=-1), ""),
        (lambda: scores.get("aps", randomized="no"), ""),
        (lambda: scores.get("aps", precision="half"), ""),
        (lambda: scores.name_of(Foreign()), ""),
    ],
)
def test_wrong_names_and_settings_are_refused(call, meant: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert meant in str(caught.value)


@pytest.mark.parametrize("name", ["fedls-cp", "dp-fedcp", "cphet"])
@pytest.mark.parametrize("target", ["own", "mixture", (0.5, 0.5)])
def test_what_the_round_decides_is_no_setting(name, target) -> None:
    with pytest.raises(InputError):
        methods.get(name, target=target)
    assert "target" not in settings_of(methods.find(name))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("dp-fedcp", {"start": None, "step_size": 1}),
        ("dp-fedcp", {"start": 1}),
        ("private-fedwq-cp", {"bounds": (1, 2.5)}),
        ("fedls-cp", {"n0": None}),
        ("fedcp-qq", {"delta": 0.5}),
        ("cphet", {"clip_weights": 1, "scope": "local"}),
    ],
)
def test_settings_of_the_right_type_reach_the_object(name, settings) -> None:
    made = methods.get(name, **settings)
    assert {key: getattr(made, key) for key in settings} == settings


@pytest.mark.usefixtures("other_distribution")
def test_other_distributions_register_theirs() -> None:
    assert {"foreign", "wrong"} < set(REGISTRY.available())
    assert REGISTRY.find("foreign") is Foreign
    assert REGISTRY.make("foreign", {}) == Foreign()
    assert REGISTRY.name_of(Foreign()) == "foreign"
    for name in ("wrong", "broken", "unfinished"):
        with pytest.raises(InputError):
            scores.get(name)
    listed = CliRunner().invoke(app, ["scores"])
    assert (listed.exit_code, "foreign" in listed.output) == (0, True)


def test_a_file_holds_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    module = REGISTRY.find("lac").__module__
    second = type("Second", (LAC,), {"__module__": module})
    monkeypatch.setattr(sys.modules[module], "Second", second, raising=False)
    with pytest.raises(InputError):
        Registry(Score, "fedwqcp.scores", "score").find("lac")


@pytest.mark.parametrize(
    "value", [True, False, None, 3, -2, 0.5, "exact", (50.0,), (0.2, 0.8), (1.0, 2.0, 3.0)]
)
def test_a_setting_is_read_as_it_is_written(value: Setting) -> None:
    assert parse_setting(typed(value)) == value


@pytest.mark.parametrize("get", [scores.get, methods.get])
@pytest.mark.parametrize("setting", ["name", "self"])
def test_no_setting_of_a_round_is_an_argument_of_ours(get, setting) -> None:
    with pytest.raises(InputError):
        get({scores.get: "lac", methods.get: "fcp"}[get], **{setting: "x"})
