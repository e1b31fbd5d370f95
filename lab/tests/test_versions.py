import numpy as np

import fedwqcp
from fedwqcp_lab import versions


def test_the_code_says_what_numbers_depend_on():
    text = versions.code()
    assert text.startswith(f"fedwqcp {fedwqcp.__version__}")
    assert f"numpy {np.__version__}" in text


def test_a_package_that_is_not_there_is_left_out():
    assert versions._of("no-such-distribution") == ""


def test_a_copy_without_its_repository_can_be_told_its_commit(monkeypatch):
    monkeypatch.setenv("FEDWQCP_COMMIT", "abc123")
    assert versions.code.__wrapped__().startswith(f"fedwqcp {fedwqcp.__version__} (abc123), ")
