"""Options and hypothesis profiles shared by all tests, and their own cache of compiled code."""

import os
import shutil
import tempfile

import pytest
from hypothesis import settings

# The same examples on every run: a failure in CI belongs to the change, never to the day's random seed.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
# Looking for what the fixed examples miss: fresh seeds, and the line that reproduces a failure.
settings.register_profile("long", deadline=None, max_examples=2000, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="random-program tests draw many fresh examples instead of a few fixed ones")
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden texts in tests/golden")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if config.getoption("--long") else "ci")
    if not hasattr(config, "workerinput"):  # one cache for all workers of this run, and none that a user has
        os.environ["FUNCTX_CACHE_DIR"] = folder = tempfile.mkdtemp(prefix="functx-cache-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
