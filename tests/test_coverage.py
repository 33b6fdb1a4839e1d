"""docs/coverage.md: what works for each function, found by running its sample rows. ``--update-golden`` writes it anew."""

import copy
from pathlib import Path

import numpy as np
import oracles
import samples

import functx as fx
import functx.numpy as fnp
from functx.numpy import protocols

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
COLUMNS = ("eager", "jit", "jvp", "vjp", "vmap")
HEAD = """# What is covered

Made from the sample rows of the tests (`pytest tests/test_coverage.py --update-golden`): each entry was run.

- **eager**: on plain arrays the function does what NumPy does. **jit**: so does the compiled one.
- **jvp**, **vjp**: derivatives in both modes, checked against differences to second order; `0` where the function is piecewise
  constant or has no floats to differentiate.
- **vmap**: equal to a loop over examples, along every axis.

Array functions (`np.`) are reached through NumPy itself or through `functx.numpy`; `fnp.` are those that need `functx.numpy`.
"""


def support(row):
    """The columns of one row."""
    f, args = (lambda *a: row.f(fnp, *a)), row.arguments()
    plain = oracles.outcome(lambda *a: row.f(np if not row.name.startswith("fnp") else fnp, *a), *copy.deepcopy(args))
    floats = [isinstance(a, np.ndarray) and a.dtype == np.float64 for a in args]
    ran = {
        "eager": plain,
        "jit": oracles.outcome(oracles.reference_jit(f), *copy.deepcopy(args)),
        "vmap": oracles.outcome(fx.vmap(f), *(np.stack([a, a]) for a in args)),
    }
    marks = {name: "yes" if outcome.error is None else "-" for name, outcome in ran.items()}
    if not row.smooth or not any(floats):
        return {**marks, "jvp": "0", "vjp": "0"}
    tangents = tuple(np.ones_like(a) if flag else None for a, flag in zip(args, floats, strict=True))
    marks["jvp"] = "yes" if oracles.outcome(lambda: fx.jvp(f, copy.deepcopy(args), tangents)).error is None else "-"
    marks["vjp"] = "yes" if oracles.outcome(lambda: fx.vjp(f, *copy.deepcopy(args))).error is None else "-"
    return marks


def table():
    """Name to columns; of several rows the best counts for derivatives, the worst for the rest."""
    out = {}
    for row in samples.SAMPLES:
        marks = support(row)
        have = out.setdefault(row.name, marks)
        for column in COLUMNS:
            better = {"yes": 2, "0": 1, "-": 0}
            pick = max if column in ("jvp", "vjp") else min
            have[column] = pick(have[column], marks[column], key=better.get)
    return out


def not_traced():
    """Functions of NumPy that take arrays and that functx refuses by name."""
    names, rows = [], {row.name for row in samples.SAMPLES}
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft)):
        for name in sorted(set(module.__all__)):
            f = getattr(module, name)
            dispatched = hasattr(f, "_implementation") or isinstance(f, np.ufunc)
            if dispatched and f not in protocols.FUNCTIONS and f"np.{prefix}{f.__name__}" not in rows:
                names.append(f"`{prefix}{name}`")
    return names


def page():
    """The text of docs/coverage.md."""
    rows = [f"| `{name}` | " + " | ".join(marks[c] for c in COLUMNS) + " |" for name, marks in sorted(table().items())]
    head = [f"| name | {' | '.join(COLUMNS)} |", "|---|" + "---|" * len(COLUMNS)]
    missing = "Not traced; calling one on a traced array raises an error that names it: " + ", ".join(not_traced()) + "."
    return "\n".join([HEAD, *head, *rows, "", missing, ""])


def test_the_page_is_true(request):
    text = page()
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "docs/coverage.md is out of date: pytest tests/test_coverage.py --update-golden"


def test_every_function_works_in_every_column():
    gaps = {name: marks for name, marks in table().items() if "-" in marks.values()}
    assert gaps == {}
