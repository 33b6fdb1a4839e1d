"""explain: what became of a function, as one readable report. It looks at compiled entries and decides nothing."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from functx import config, trees
from functx.backend import CompiledStep
from functx.errors import MissingDependencyError
from functx.ir import Eqn, Graph, InRole, OutRole
from functx.memory_plan import MemoryPlan
from functx.pretty import graph_digest
from functx.runtime import native
from functx.source import function_source, hides_frames
from functx.transforms.entries import Entry, Key
from functx.transforms.halves import Residual, residuals_of
from functx.transforms.jit import JitOptions, jit
from functx.transforms.misses import shown
from functx.transforms.partition import cost_of
from functx.transforms.planning import Region
from functx.util import unique

WIDTH = 140
MAX_NAMES, MAX_LINES = 8, 4  # primitives and lines that are told of one kernel


@dataclass(frozen=True)
class RegionReport:
    """One reverse pass: what its backward side reads of the forward side.

    Attributes:
      residuals: each value, saved or computed again, and why.
      saved_bytes: what is kept for the backward side alone.
      again_flops: the work of computing the others again.
      is_small: so little lies between the sides that all of it is kept.
    """

    residuals: tuple[Residual, ...]
    saved_bytes: int
    again_flops: int
    is_small: bool


@dataclass(frozen=True)
class Explanation:
    """What :func:`explain` found. ``str()`` of it is the report; ``rich.print`` shows it in colours.

    Attributes:
      function: its name and line.
      arguments: the part of the cache key that its arguments make up; what else the entry relies on.
      options: of jit, and the backend.
      traced_equations: the size of the graph as it was traced.
      graph: the graph that was compiled.
      digest: of its content, by which compiled code is cached.
      steps: the program, where the backend tells it.
      fallbacks: primitives that run through their reference implementation.
      regions: one for every reverse pass.
      memory: None where the backend does not tell it.
      updates: the inputs that are updated: in place, or by a copy after the call.
    """

    function: str
    arguments: tuple[str, ...]
    options: str
    traced_equations: int
    graph: Graph
    digest: str
    steps: tuple[CompiledStep, ...]
    fallbacks: tuple[str, ...]
    regions: tuple[RegionReport, ...]
    memory: MemoryPlan | None
    updates: tuple[str, ...]

    def __rich__(self) -> Any:
        from rich.console import Group

        return Group(*_sections(self))

    def __str__(self) -> str:
        from rich.console import Console

        file = io.StringIO()
        Console(file=file, width=WIDTH, no_color=True, force_terminal=False, force_jupyter=False).print(self)
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines())

    __repr__ = __str__


def explain(f: Callable[..., Any]) -> Callable[..., Explanation]:
    """Tell what becomes of ``f``: its graph, the kernels and library calls, what backward passes keep, and the memory.

    Args:
      f: a jitted function, or one that :func:`functx.jit` can compile.

    Returns:
      A function with f's arguments that gives an :class:`Explanation`. It compiles f for them; nothing is run.

    Raises:
      MissingDependencyError: rich, which lays the report out, is not installed.

    >>> import numpy as np
    >>> import functx as fx
    >>> report = fx.explain(lambda x: np.tanh(x * 2.0).sum())(np.ones((30, 40)))
    >>> [step.kind for step in report.steps], report.memory.workspace_bytes, report.updates
    (['kernel'], 0, ())
    """
    try:
        import rich  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("functx.explain needs rich", fix="pip install rich") from error
    jitted = (f if isinstance(f, native.CompiledFunction) else jit(f)).half

    @hides_frames
    def explained(*args: Any, **kwargs: Any) -> Explanation:
        key, entry = jitted.compiled(*args, **kwargs)
        executable = entry.executable
        return Explanation(
            function_source(jitted.function.__wrapped__),
            tuple(_arguments(key, entry)),
            _options(jitted.options, type(executable).__name__),
            _equations(entry.traced),
            entry.graph,
            graph_digest(entry.graph)[:16],
            tuple(getattr(executable, "steps", ())),
            tuple(getattr(executable, "fallbacks", ())),
            tuple(map(_region, jitted.regions(entry))),
            getattr(executable, "memory_plan", None),
            tuple(_updates(entry, getattr(executable, "steps", ()))),
        )

    return explained


# --- what there is to tell ----------------------------------------------------------------------------------------------------------------


def _equations(graph: Graph) -> int:
    """The equations of a graph, those of functions called in it included."""
    inner = (value for eqn in graph.eqns for value in eqn.params.values() if isinstance(value, Graph))
    return len(graph.eqns) + sum(map(_equations, inner))


def _arguments(key: Key, entry: Entry) -> Iterator[str]:
    yield f"arguments: {trees.show(key.structure)}"
    for i, slot in enumerate(entry.traced.inputs):
        yield f"input {i}: {slot.var.aval}{', captured' if slot.role is InRole.CAPTURED else ''}"
    if key.static:
        yield f"static: {shown(key.static)}"
    p = entry.predicates
    if p.sizes is not None:
        yield f"sizes: {str(p.sizes) or 'all'}"
    for leaf, value in p.specialized:
        yield f"leaf {leaf} of the arguments has the value {shown(value)}, which the function looks at"
    for leaf, (strides, writeable) in p.layouts:
        yield f"leaf {leaf} of the arguments has the strides {strides}{'' if writeable else ' and is read-only'}"


def _options(options: JitOptions, executable: str) -> str:
    p = options.partition
    budget = "" if p.memory_budget is None else f", memory_budget={p.memory_budget} ({p.knapsack})"
    return f"backend={options.backend or config.current().backend} ({executable}), partition={p.mode}{budget}"


def _region(region: Region) -> RegionReport:
    plan = region.plan
    flops = 0 if region.is_small else cost_of(region.problem, plan.again)
    return RegionReport(tuple(residuals_of(region.problem.graph, plan)), plan.nbytes, flops, region.is_small)


def _updates(entry: Entry, steps: Sequence[CompiledStep]) -> Iterator[str]:
    copied = {i for step in steps if step.kind == "copy" for i in step.updates}
    for slot in entry.graph.outputs_of(OutRole.WRITE):
        how = "is copied into it at the end" if slot.target in copied or not steps else "is made in place"
        yield f"input {slot.target} ({entry.graph.in_avals[slot.target]}): its new value {how}"


# --- how it is told -----------------------------------------------------------------------------------------------------------------------


def _sections(e: Explanation) -> Iterator[Any]:
    from rich.text import Text

    def heading(text: str) -> Text:
        return Text(f"\n{text}", style="bold")

    yield Text(e.function, style="bold")
    yield Text(f"  {e.options}")
    for line in e.arguments:
        yield Text(f"  {line}")
    yield heading(f"Graph: {e.traced_equations} equations traced, {len(e.graph.eqns)} compiled; its code is found again by {e.digest}")
    yield heading(_counted(e.steps) or "Program: evaluated equation by equation")
    if e.steps:
        yield _table(("", "step", "sizes", "computes", "lines"), (_step_row(k, step, e.graph) for k, step in enumerate(e.steps)))
    if e.fallbacks:
        yield Text(f"  through their reference implementation, slowly: {', '.join(e.fallbacks)}", style="yellow")
    for number, region in enumerate(e.regions):
        yield heading(f"Reverse pass {number}: {_summary(region)}")
        rows = Counter(_residual_row(r, region) for r in region.residuals if r.primitive != "input")
        equal = ((f"{count} x" if count > 1 else "", *row) for row, count in rows.items())
        yield _table(("", "value", "type", "fate", "bytes", "flops", "why", "line"), equal, numbers=(0, 4, 5))
    if e.memory is not None:
        yield heading(f"Memory: peak {e.memory.peak:,} bytes beside the arguments, {e.memory.workspace_bytes:,} of them workspace")
    for line in e.updates:
        yield Text(f"  {line}")


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="italic", padding=(0, 1))
    for k, title in enumerate(titles):
        table.add_column(title, justify="right" if k in numbers else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _counted(steps: Sequence[CompiledStep]) -> str:
    kinds = [step.kind for step in steps]
    counts = [f"{kinds.count(kind)} {kind}{_plural(kind, kinds.count(kind))}" for kind in unique(kinds)]
    return f"Program: {', '.join(counts)}" if counts else ""


def _plural(noun: str, count: int) -> str:
    return "" if count == 1 else "ies" if noun == "copy" else "s"


def _step_row(number: int, step: CompiledStep, graph: Graph) -> tuple[str, ...]:
    eqns = [graph.eqns[i] for i in step.eqns]
    names = _few(unique(e.primitive.name for e in eqns), MAX_NAMES)
    updates = "".join(f", updates input {i} in place" for i in step.updates)
    return str(number), step.kind, step.sizes, f"{names}{updates}", _lines(eqns)


def _lines(eqns: Sequence[Eqn]) -> str:
    return _few(unique(e.source.short for e in eqns if e.source), MAX_LINES)


def _few(words: Sequence[str], most: int) -> str:
    return ", ".join(words[:most]) + (f", and {len(words) - most} more" if len(words) > most else "")


def _summary(region: RegionReport) -> str:
    if region.is_small:
        return f"{region.saved_bytes:,} bytes lie between its sides; so little is kept as it is"
    return f"{region.saved_bytes:,} bytes are kept for its backward side, {region.again_flops:,} operations are done again"


def _residual_row(r: Residual, region: RegionReport) -> tuple[str, ...]:
    view = r.why == "it is a view"
    fate = "a view" if view else "saved" if r.saved else "computed again"
    why = "" if view or region.is_small else r.why
    return r.primitive, str(r.aval), fate, f"{r.nbytes:,}", f"{r.flops:,}", why, r.source.short if r.source else ""
