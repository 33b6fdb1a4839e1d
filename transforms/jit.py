"""jit: trace once per key, simplify, compile, and find the result again.

Called inside an enclosing trace, a jitted function is staged there as a ``call`` equation, and compiled with what surrounds it.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np

from functx import config, tensors, trees
from functx.backend import Executable, get_backend
from functx.capture import Reference, weaken
from functx.demand import plain_value
from functx.dtypes import PYTHON_DTYPES, Kind
from functx.errors import BackendError, CompilerMissingError, PerformanceWarning, StaticArgumentError
from functx.ir import Graph
from functx.memory_plan import MemoryPlan
from functx.ops.higher_order import call
from functx.passes import log
from functx.runtime import native
from functx.source import function_source, hides_frames, warn
from functx.trace import Trace, Tracer, current_trace, type_of_value, where
from functx.transforms.arguments import check_callable, flatten_arguments, is_traced_leaf, positional_names, refuse_unknown, with_fixed
from functx.transforms.compiled_vjp import CompiledVjp
from functx.transforms.devices import call_on_gpu, ghosts, gpu_options
from functx.transforms.dynamic import DynamicShapes, Symbolic
from functx.transforms.entries import Entry, Key, family, leaf_key, make_entry, resized_results, typed_value
from functx.transforms.misses import Miss, amend, reason_for, record
from functx.transforms.native_calls import install, make_plan
from functx.transforms.pipeline import optimize
from functx.transforms.planning import DEFAULT, PartitionOptions, Peak, Region
from functx.transforms.staging import Leaf, Staged, add_leaves, stage
from functx.transforms.subgraphs import bind_subgraph, stage_subgraph

MAX_SPECIALIZATIONS = 8
LONG_GRAPH = 10_000  # equations; a Python loop that makes more had better be a loop of the graph


@dataclass(frozen=True)
class CacheInfo:
    """Counters of one jitted function since it was made or its cache cleared.

    Attributes:
      hits: calls that found a compiled entry.
      traces: times the Python function was run on tracers.
      compilations: times a compiler ran (a traced graph that was compiled before costs none).
      entries: compiled entries held now.
      trace_seconds, optimize_seconds, compile_seconds: time spent on each stage.
    """

    hits: int = 0
    traces: int = 0
    compilations: int = 0
    entries: int = 0
    trace_seconds: float = 0.0
    optimize_seconds: float = 0.0
    compile_seconds: float = 0.0


@dataclass(frozen=True)
class JitOptions:
    """Options of :func:`jit`."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    backend: str | None = None
    inline: bool = True
    partition: PartitionOptions = DEFAULT
    dynamic: bool | None = None
    dynamic_shapes: Any = None

    def static_sizes(self) -> JitOptions:
        """Without symbolic sizes."""
        return replace(self, dynamic=False, dynamic_shapes=None)

    def plain(self) -> JitOptions:
        """Those that go with other arguments: for the backward half of a vjp."""
        return replace(self, static_argnums=(), static_argnames=(), dynamic_shapes=None)


@dataclass
class _Call:
    """One call, taken apart: dynamic arguments, and static ones by position and by name."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    fixed: dict[int, Any] = field(default_factory=dict)
    fixed_names: dict[str, Any] = field(default_factory=dict)

    @property
    def static(self) -> tuple[Any, ...]:
        """The static arguments' part of the key."""
        return tuple((k, typed_value(v)) for k, v in (*self.fixed.items(), *self.fixed_names.items()))

    def function(self) -> Callable[..., Any]:
        """The function of the dynamic arguments: what is traced."""
        return with_fixed(self.f, self.fixed, self.fixed_names)


class JittedFunction:
    """The Python half of what :func:`jit` returns: everything but calls that the runtime has seen before.

    ``function`` is what users hold, a :class:`functx.runtime.native.CompiledFunction`. It finds ``ir``, ``code``, ``memory_plan``,
    ``cache_info`` and ``clear_cache`` here, and calls :meth:`call` where it has no plan.
    """

    def __init__(self, f: Callable[..., Any], options: JitOptions):
        self._f, self._options = check_callable(f, "jit"), options
        self._static_positions = _static_positions(f, options)
        self._dynamic = DynamicShapes(f, options.dynamic, options.dynamic_shapes)
        self._dynamic.check_names()
        self.function = native.CompiledFunction(self.call, self._static_positions, frozenset(options.static_argnames))
        functools.update_wrapper(self.function, f)
        self._lock = threading.Lock()
        self._specializations: dict[str, int] = {}
        self._vjps: dict[bool, CompiledVjp] = {}
        self._on_gpu: JittedFunction | None
        self._warned_of_length = False
        self.clear_cache()
        _all.add(self)

    @hides_frames
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """A call for which the runtime has no plan."""
        if config.current().disable_jit:
            return self._f(*args, **kwargs)
        if tensors.any_in(leaves := trees.leaves((args, kwargs))):
            if any(map(tensors.on_gpu, leaves)):
                return call_on_gpu(self._twin(), self._f, args, kwargs)
            (args, kwargs), given = tensors.as_arrays((args, kwargs))
            return tensors.as_tensors(self.function(*args, **kwargs), given)
        taken = self._take(args, kwargs)
        if current_trace() is not None:
            return self._call_traced(taken)
        entry, bound, structure, leaves = self._entry(taken)
        if entry.plan is None:
            entry.plan = make_plan(entry, leaves)
        if entry.plan is not None:
            install(self.function, args, kwargs, structure, entry.plan)
        return entry.run(bound)

    def _twin(self) -> JittedFunction:
        """The function as it is compiled for GPUs, with entries of its own."""
        if self._on_gpu is None:
            self._on_gpu = JittedFunction(self._f, gpu_options(self._f, self._options))
        return self._on_gpu

    def _for_tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[JittedFunction, tuple[Any, ...], dict[str, Any]]:
        """Who is asked about a call with tensors, and with which arrays in their place."""
        leaves = trees.leaves((args, kwargs))
        if any(map(tensors.on_gpu, leaves)):
            return self._twin(), *ghosts(args, kwargs)[0]
        return self, *(tensors.as_arrays((args, kwargs))[0] if tensors.any_in(leaves) else (args, kwargs))

    def entry(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Entry, list[Any]]:
        """The compiled entry for a call, and what its inputs stand for."""
        return self._entry(self._take(args, kwargs))[:2]

    def __reduce__(self) -> Any:
        """By name where that leads to the jitted function (as after decoration), else as function and options."""
        name = getattr(self._f, "__qualname__", "")
        found: Any = sys.modules.get(getattr(self._f, "__module__", None) or "")
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self.function else (_make, (self._f, self._options))

    def __repr__(self) -> str:
        return f"<functx.jit of {function_source(self._f)}>"

    @property
    def half(self) -> JittedFunction:
        """Itself, for those who hold ``function``."""
        return self

    @property
    def options(self) -> JitOptions:
        """What it was jitted with."""
        return self._options

    def vjp(self, primals: Sequence[Any], has_aux: bool) -> Any:
        """Results and pull-back as :func:`functx.vjp` gives them, both halves compiled."""
        if has_aux not in self._vjps:
            plain = self._options.plain()
            self._vjps[has_aux] = CompiledVjp(
                self._f,
                has_aux,
                lambda f: _make(f, self._options),
                self._options.partition,
                static=self._static_positions,
                jit_backward=lambda f: _make(f, plain),
            )
        return self._vjps[has_aux](primals)

    def ir(self, *args: Any, **kwargs: Any) -> Graph:
        """The simplified graph for a call with these arguments. Nothing is run."""
        jitted, args, kwargs = self._for_tensors(args, kwargs)
        return jitted._entry(jitted._take(args, kwargs), compile=False)[0].graph

    def code(self, *args: Any, **kwargs: Any) -> str:
        """The program generated for a call with these arguments. Nothing is run."""
        return self.compiled(*args, **kwargs)[1].executable.source

    def memory_plan(self, *args: Any, **kwargs: Any) -> MemoryPlan:
        """What a call with these arguments needs beside them: the peak, and every value in memory from when to when. Nothing is run.

        Raises:
          BackendError: the backend has none.
        """
        executable = self.compiled(*args, **kwargs)[1].executable
        plan = getattr(executable, "memory_plan", None)
        if plan is None:
            raise BackendError(f"{type(executable).__name__} has no memory plan", fix="use backend='cpp' or backend='reference'")
        return plan

    def compiled(self, *args: Any, **kwargs: Any) -> tuple[Key, Entry]:
        """The entry for a call with these arguments, compiled, and its key. Nothing is run."""
        jitted, args, kwargs = self._for_tensors(args, kwargs)
        taken = jitted._take(args, kwargs)
        entry, _, structure, leaves = jitted._entry(taken)
        return _key(taken, structure, leaves, jitted._options), entry

    def regions(self, entry: Entry) -> list[Region]:
        """What was decided for the reverse passes inside a traced function: the passes run again on its graph."""
        found: list[Region] = []
        optimize(entry.traced, self._options.partition, self._peak(), found)
        return found

    def cache_info(self) -> CacheInfo:
        """Counters of hits, traces and compilations."""
        with self._lock:
            entries = sum(e.executable is not None for es in self._entries.values() for e in es)
            hits = self._counts["hits"] + self.function._native_hits
            own = CacheInfo(**{**self._counts, "hits": hits, "entries": entries})
        return own if self._on_gpu is None else CacheInfo(*map(sum, zip(astuple(own), astuple(self._on_gpu.cache_info()), strict=True)))

    def clear_cache(self) -> None:
        """Forget all entries and reset the counters."""
        self._on_gpu = None
        with self._lock:
            self._entries: dict[Key, list[Entry]] = {}
            self._calls = 0
            self._counts = dict.fromkeys(CacheInfo.__dataclass_fields__, 0)
            self._dynamic.forget()
        self.function._forget(None)
        self.function._native_hits = 0

    # --- static arguments ---------------------------------------------------------------------------------------------------------------

    def _take(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        """Separate static arguments from dynamic ones."""
        if not self._static_positions and not self._options.static_argnames:
            return _Call(self._f, args, kwargs)
        positions = sorted({i % len(args) for i in self._static_positions if -len(args) <= i < len(args)})
        names = sorted(k for k in kwargs if k in self._options.static_argnames)
        return _Call(
            self._f,
            tuple(v for i, v in enumerate(args) if i not in positions),
            {k: v for k, v in kwargs.items() if k not in names},
            {i: _static_value(args[i], self._f) for i in positions},
            {k: _static_value(kwargs[k], self._f) for k in names},
        )

    # --- concrete calls -----------------------------------------------------------------------------------------------------------------

    def _entry(self, taken: _Call, compile: bool = True) -> tuple[Entry, list[Any], Any, list[Any]]:
        """The entry for a call, traced and compiled if there is none yet; its inputs; structure and leaves of the arguments."""
        leaves, structure = trees.flatten((taken.args, taken.kwargs))
        key, limit = _key(taken, structure, leaves, self._options), config.current().max_entries
        entry, bound = self._find(key, leaves)
        if entry is None:
            traced = self._trace(taken, leaves, key)
            with self._lock:  # another thread may have been faster: the first entry wins
                entry, bound = self._find(key, leaves)
                if entry is None:
                    entry, bound = traced, traced.bind(leaves)
                    entries = self._entries.setdefault(key if traced.predicates.sizes is None else family(key), [])
                    entries[:] = [traced, *(e for e in entries if not e.is_stale)]
                    self._evict(limit, spare=entry)
        elif entry.executable is not None:
            with self._lock:
                self._counts["hits"] += 1
        self._calls += 1
        entry.used = self._calls
        if compile and entry.executable is None:
            entry.executable = self._compile(entry.graph)
        return entry, bound, structure, leaves

    def _find(self, key: Key, leaves: Sequence[Any]) -> tuple[Entry | None, Any]:
        """The entry that holds for a call, and what its inputs stand for: one for its very sizes, or one that serves several."""
        found = _first_match(self._entries.get(key, ()), leaves)
        return found if found[0] is not None or self._dynamic.is_off else _first_match(self._entries.get(family(key), ()), leaves)

    def _evict(self, limit: int, spare: Entry) -> None:
        """Drop the entries that were used least recently, down to the limit. Those that the runtime runs are used without our knowing."""
        every = [(key, entry) for key, group in self._entries.items() for entry in group if entry is not spare]
        if len(every) < limit:
            return
        ranks = {id(plan): -k for k, plan in reversed(list(enumerate(self.function._plans())))}
        every.sort(key=lambda item: (ranks.get(id(item[1].plan), -len(ranks)), item[1].used))
        for key, entry in every[: len(every) + 1 - limit]:
            self._entries[key].remove(entry)
            if not self._entries[key]:
                del self._entries[key]
            if entry.plan is not None:
                self.function._forget(entry.plan)

    def _trace(self, taken: _Call, leaves: Sequence[Any], key: Key) -> Entry:
        start = time.perf_counter()
        f = taken.function()
        arguments = flatten_arguments(f, taken.args, taken.kwargs)
        with self._lock:
            reason, traces = reason_for(key, leaves, arguments.labels, self._entries), self._counts["traces"] + 1
        miss = record(function_source(self._f), reason, traces)
        symbolic = self._symbolic(taken, f, leaves, arguments.labels, key)
        trace = Trace(function_source(self._f), "jit", opaque=True)
        if symbolic is not None:
            trace.sizes = symbolic.sizes
        specialized: dict[int, Any] = {}

        def describe(i: int, value: Any) -> Leaf | None:
            label = arguments.labels[i]
            facts = {"specialize": self._specializer(value, i, label, specialized)}
            if not is_traced_leaf(value):
                return None
            return Leaf(value, label, symbolic and symbolic.aval(i, type_of_value(value)), facts=facts)

        slots, given = add_leaves(trace, leaves, describe)
        args, kwargs = arguments.rebuild(given)
        staged = stage(f, trace, args, kwargs, every_value=False)
        trace.sizes.close()
        if symbolic is not None:
            self._settle(symbolic, staged, miss, arguments.labels)
        traced = time.perf_counter()
        if len(staged.graph.eqns) > LONG_GRAPH and not self._warned_of_length:
            self._warned_of_length = True
            warn(_unrolled(self._f, staged.graph), PerformanceWarning)
        graph = optimize(staged.graph, self._options.partition, self._peak())
        with self._lock:
            self._counts["traces"] += 1
            self._counts["trace_seconds"] += traced - start
            self._counts["optimize_seconds"] += time.perf_counter() - traced
        entry = make_entry(staged, graph, leaves, slots, specialized, symbolic and symbolic.pattern(leaves))
        trace.release()
        weaken([source for source in entry.sources if isinstance(source, Reference)])
        return entry

    def _symbolic(self, taken: _Call, f: Callable[..., Any], leaves: Sequence[Any], labels: Sequence[str], key: Key) -> Symbolic | None:
        """The symbolic axes of a call that is to be traced. Without being asked, only for backends that compile such graphs."""
        if self._dynamic.is_off or (self._options.dynamic_shapes is None and not getattr(self._backend(), "symbolic_sizes", False)):
            return None
        return self._dynamic.choose(family(key), f, taken.args, taken.kwargs, leaves, labels)

    def _settle(self, symbolic: Symbolic, staged: Staged, miss: Miss, labels: Sequence[str]) -> None:
        """The function is traced: take what was decided by the sizes of the call into account."""
        if any(slot.base for slot in staged.trace.inputs):
            symbolic.sizes.is_open = True
            symbolic.specialize("arguments that are written share memory, and how they lie in it is known for these sizes")
        staged.graph = symbolic.settle(staged.graph)
        staged.results = resized_results(staged.results, symbolic.change)
        note = symbolic.note(labels)
        if note:
            amend(miss, note)
        if note and config.current().debug:
            log(f"jit of {function_source(self._f)}: {note}")

    def _backend(self) -> Any:
        name = self._options.backend or config.current().backend
        return get_backend("reference" if config.current().watches_values else "cpp" if name == "auto" else name)

    def _peak(self) -> Peak | None:
        """What tells the memory that the backend needs for a graph, where a budget makes it count; None if it does not tell."""
        if self._options.partition.memory_budget is None:
            return None
        measure = getattr(self._backend(), "peak_bytes", None)
        return measure and (lambda graph: measure(graph, config.current()))

    def _specializer(self, leaf: Any, index: int, label: str, specialized: dict[int, Any]) -> Callable[[], Any] | None:
        """What is called when the function looks at the value of a Python scalar argument."""
        if type(leaf) not in PYTHON_DTYPES:
            return None

        def look() -> Any:
            if index not in specialized:
                specialized[index] = typed_value(leaf)
                count = self._specializations[label] = self._specializations.get(label, 0) + 1
                if count == MAX_SPECIALIZATIONS + 1:
                    warn(
                        f"jit of {function_source(self._f)} has been traced for {count} values of argument {label}, which it looks at "
                        f"here: {where()}. Pass an array and use np.where, or make the loop or choice independent of the value.",
                        PerformanceWarning,
                    )
            return np.asarray(leaf)[()]

        return look

    def _compile(self, graph: Graph) -> Executable:
        start = time.perf_counter()
        executable = compile_graph(graph, self._options.backend or config.current().backend)
        with self._lock:
            self._counts["compilations"] += executable.compiled
            self._counts["compile_seconds"] += time.perf_counter() - start
        return executable

    # --- calls inside a trace -----------------------------------------------------------------------------------------------------------

    def _call_traced(self, taken: _Call) -> Any:
        """Stage the function inside the enclosing trace as one ``call`` equation."""
        parent = current_trace()
        sub = stage_subgraph(taken.function(), "jit", taken.args, taken.kwargs, parent, opaque=True)
        params = {"graph": sub.staged.graph, "name": getattr(self._f, "__name__", "f")}
        return bind_subgraph(sub.staged, parent, call, params if self._options.inline else {**params, "inline": False})


_all: weakref.WeakSet[JittedFunction] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """Another thread of the parent may have held a lock; it is not here to release it."""
    for jitted in _all:
        jitted._lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _key(taken: _Call, structure: Any, leaves: Sequence[Any], options: JitOptions) -> Key:
    c = config.current()
    present = (options.backend, c.backend, c.cxx, c.parallel_threshold, c.debug_nans, c.debug_infs)
    return Key(structure, tuple(map(leaf_key, leaves)), taken.static, present)


def _first_match(entries: Sequence[Entry], leaves: Sequence[Any]) -> tuple[Entry | None, Any]:
    """The first entry that holds for a call, and what its inputs stand for."""
    return next(((entry, bound) for entry in entries if (bound := entry.bind(leaves)) is not None), (None, None))


_no_compiler_warned = False


def compile_graph(graph: Graph, backend: str) -> Executable:
    """Compile by the named backend; ``auto`` is C++, or the reference backend with a warning where there is no compiler or where compiled
    code does not go (results of a size that depends on data).

    Where values are watched (functx.debug_nans) it is the reference backend: it looks at each of them.
    """
    global _no_compiler_warned
    if config.current().watches_values:
        return get_backend("reference").compile(graph, config.current())
    if backend != "auto":
        return get_backend(backend).compile(graph, config.current())
    try:
        return get_backend("cpp").compile(graph, config.current())
    except BackendError as error:
        given = "where a size can be given (fnp.nonzero(mask, size=n)), compiled code runs"
        warn(f"{error.what}; this function runs on the slow reference backend: {given}", PerformanceWarning)
        return get_backend("reference").compile(graph, config.current())
    except CompilerMissingError as error:
        if not _no_compiler_warned:
            _no_compiler_warned = True
            warn(f"{error.what}; jit runs on the slow reference backend. {error.fix}", PerformanceWarning)
        return get_backend("reference").compile(graph, config.current())


def _unrolled(f: Callable[..., Any], graph: Graph) -> str:
    """What to say of a graph that a Python loop has made very long."""
    lines = Counter(e.source for e in graph.eqns if e.source).most_common(1)
    most = f", {lines[0][1]} of them at {lines[0][0].describe()}" if lines else ""
    return (
        f"jit of {function_source(f)} traced {len(graph.eqns)} equations{most}. A Python loop is unrolled, "
        "and compiling takes as long as it has steps: write it with functx.fori_loop, functx.scan or functx.while_loop"
    )


def _static_positions(f: Callable[..., Any], options: JitOptions) -> tuple[int, ...]:
    """Static positions, those of static names included."""
    names = positional_names(f, 64) if options.static_argnames else []
    return tuple(dict.fromkeys([*options.static_argnums, *(names.index(n) for n in options.static_argnames if n in names)]))


def _static_value(value: Any, f: Callable[..., Any]) -> Any:
    """The value of a static argument: hashable, or a traced Python scalar whose value is known."""
    if isinstance(value, Tracer) and value.kind is Kind.PYTHON:
        return np.asarray(plain_value(value, "a static argument")).item()
    if isinstance(value, Tracer):
        raise StaticArgumentError(f"a traced value was given for a static argument of {function_source(f)}", where=where(),
                                  fix="take the argument out of static_argnums")  # fmt: skip
    try:
        hash(value)
    except TypeError:
        raise StaticArgumentError(
            f"a static argument of {function_source(f)} is a {type(value).__name__}, which cannot be hashed",
            where=where(),
            why="static values are part of the cache key",
            fix="pass a tuple instead of a list, or make the argument dynamic",
        ) from None
    return value


def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    backend: str | None = None,
    dynamic: bool | None = None,
    dynamic_shapes: Any = None,
    inline: bool = True,
    partition: str = "minimum_cut",
    memory_budget: float | None = None,
    knapsack: str = "exact",
    **unknown: Any,
) -> Any:
    """Compile ``f`` to native code, once per structure and dtypes of its arguments, for their sizes.

    The first call is compiled for its very sizes. When an axis is met with a second size, it becomes symbolic, and what is compiled then
    serves all sizes for which f takes the same decisions (``if x.shape[0] > 64``). The compiled function does what f does: results,
    dtypes, containers, in-place changes of arguments, and errors. Arrays that f closes over are read at every call. Python scalars are
    arguments like arrays; one whose value f looks at (``if n > 3``, ``range(n)``) becomes part of the key. May be used as a decorator,
    with options too, and on methods (``self`` must then be a registered container or static).

    Args:
      static_argnums, static_argnames: arguments passed to f as they are; they must be hashable and are part of the key.
      backend: "cpp", "reference", "triton" or another registered one; by default C++ where there is a compiler, Triton for GPU tensors.
      dynamic: None: as above; False: every distinct shape is compiled by itself; True: all sizes are symbolic from the first call on.
      dynamic_shapes: symbolic axes: ``{"x": {0: n}}`` by argument name, with ``n = functx.Dim("n")``, or in containers like the
        arguments'. One Dim in several places says that these sizes are equal.
      inline: whether derivatives see through f where another transformed function calls it. Else its call stays one equation until then.
      partition: what backward passes inside f keep of their forward sides: "minimum_cut" keeps the least of what is not cheap to compute
        again, "save_all" all that a tape would keep, "recompute_all" only what cannot be computed again.
      memory_budget: keep less than that: a fraction (0.0: inputs only), or bytes as an int. Less budget never needs more memory.
      knapsack: how to choose under a budget, "exact" or "greedy".

    Raises:
      ConcretizationError: f looks at the value of an array.
      DynamicShapeError: a size is not what ``dynamic_shapes`` says.
      StaticArgumentError: an argument is neither data nor hashable.
      UnknownOptionError: a keyword that is none of these.

    >>> import numpy as np
    >>> import functx as fx
    >>> @fx.jit
    ... def scale(x, by):
    ...     x *= by
    >>> a = np.array([1.0, 2.0])
    >>> scale(a, 3.0); a
    array([3., 6.])
    """
    refuse_unknown(jit, unknown)
    options = JitOptions(
        (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums),
        (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames),
        backend,
        inline,
        PartitionOptions(partition, memory_budget, knapsack),
        dynamic,
        dynamic_shapes,
    )
    return (lambda g: _make(g, options)) if f is None else _make(f, options)


def _make(f: Callable[..., Any], options: JitOptions) -> Any:
    """The compiled function; pickling goes through here too."""
    return JittedFunction(f, options).function
