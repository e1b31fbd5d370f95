"""What was found in data, a round or sets: a code, names and numbers. `words` makes text of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedwqcp.errors import (
    CalibrationRowsWarning,
    FewPointsWarning,
    FindingWarning,
    InfiniteThresholdWarning,
    LabelMismatchWarning,
    UnseenLabelsWarning,
)


@dataclass(frozen=True)
class Finding:
    """What was found: decisions and ``--json`` read it, people read what `words` says of it.

    Parameters
    ----------
    code : str
        What kind of finding it is.
    agents : tuple of str
        Whom it concerns; empty where that is clear or everybody.
    facts : mapping
        Numbers and names, by name.
    """

    code: str
    agents: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, code: str, *agents: str, **facts: Any) -> Finding:
        """Return a finding of these agents with these facts."""
        return cls(code, agents, facts)

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]

    @property
    def plain(self) -> dict[str, Any]:
        """The finding as one flat object, for ``--json``."""
        whose = {"agents": self.agents} if self.agents else {}
        return {"code": self.code, **whose, **self.facts}


_WARNINGS: dict[str, type[FindingWarning]] = {
    "infinite-threshold": InfiniteThresholdWarning,
    "unseen-labels": UnseenLabelsWarning,
    "proves-less": FewPointsWarning,
    "labels-mismatch": LabelMismatchWarning,
    "calibration-rows": CalibrationRowsWarning,
}


def warning_of(finding: Finding) -> type[FindingWarning]:
    """Return the class of the warning that Python issues of a finding."""
    return _WARNINGS.get(finding.code, FindingWarning)
