"""Pages are tested where Jinja is there."""

import pytest

pytest.importorskip("jinja2", reason="needs fedwqcp[report]")
