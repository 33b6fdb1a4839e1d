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


def supported_names():
    """The NumPy functions that accept traced arrays, by the registries."""
    from functx.numpy import creation, protocols, ufuncs

    functions = {f.__name__ for f in protocols.FUNCTIONS}
    operators = {f.__name__ for f in (*ufuncs.UFUNCS, *ufuncs.OPERAND_UFUNCS)} | {"divmod", "matmul"}
    constructors = {name for name, f in vars(creation).items() if hasattr(f, "__wrapped__")}
    return sorted(functions | operators | constructors)


def test_the_list_of_supported_functions_is_complete():
    text = (ROOT / "README.md").read_text()
    listed = text[text.index("any other raises an error that names it:") :].split("\n\n")[1]
    assert listed.replace("`", "").split() == supported_names()
