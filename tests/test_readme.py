"""What README and CONTRIBUTING show is true."""

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_printed_outputs_are_true(name):
    flags = doctest.IGNORE_EXCEPTION_DETAIL if name == "CONTRIBUTING.md" else 0
    failures, tried = doctest.testfile(str(ROOT / name), module_relative=False, optionflags=flags)
    assert tried > 0
    assert failures == 0
