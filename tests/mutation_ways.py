"""Random programs run in every way, each compared with NumPy running the same program on arguments of its own."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import mutations
import numpy as np
import oracles
import programs
from scenes import Recipe, Scene, other_layouts

import functx as fx
from functx import errors

REFUSED: Counter[tuple[str, str]] = Counter()  # programs that a way refused, by way and class
RUN: Counter[str] = Counter()


class Mismatch(AssertionError):
    """A way does something else than NumPy. ``aspect`` says which way, and after the last comma in which respect."""

    def __init__(self, aspect: str, detail: object):
        self.respect = aspect.split(", ")[-1]
        super().__init__(f"{aspect}: {detail}")


class Refused(Exception):
    """A way refuses the program, as documented."""


@dataclasses.dataclass
class Run:
    """What a call did: to its arguments, and its results or error."""

    scene: Scene
    results: list[Any] | None
    error: BaseException | None


def run(f: Callable[..., Any], scene: Scene) -> Run:
    """Call ``f`` on the arguments of a scene."""
    did = oracles.outcome(f, *scene.arguments)
    return Run(scene, did.value, did.error)


def plain(program: mutations.Program, recipe: Recipe | None = None) -> Run:
    """NumPy's."""
    scene = Scene(recipe or program.recipe)
    return run(program.function(scene.captured), scene)


def compare(got: Run, expected: Run, program: mutations.Program, aspect: str, *, overlaps: bool = False) -> None:
    """Results, errors, the memory of arguments, and who shares it. ``overlaps``: see :func:`refuse`."""
    if expected.error is not None:
        if got.error is None:
            raise Mismatch(f"{aspect}, error", f"nothing raised, NumPy raises {expected.error!r}")
        # an index that is an argument is looked at by compiled code, after what tracing finds
        early = program.recipe.number is not None and isinstance(expected.error, IndexError) and isinstance(got.error, TypeError)
        if not isinstance(got.error, type(expected.error)) and not early:
            refuse(got.error, program, overlaps)
            raise Mismatch(f"{aspect}, error", f"raised {got.error!r}, NumPy raises {expected.error!r}") from got.error
        unchanged(got.scene, aspect)
        return
    if got.error is not None:
        unchanged(got.scene, aspect)
        refuse(got.error, program, overlaps)
        raise Mismatch(f"{aspect}, raises", repr(got.error)) from got.error
    same(got.results, expected.results, program, f"{aspect}, results")
    sharing(got, expected, program, aspect)
    identity(got, expected, program, aspect)
    same(got.scene.buffers, expected.scene.buffers, program, f"{aspect}, arguments")


def same(got: Any, expected: Any, program: mutations.Program, aspect: str) -> None:
    """Equal: to the bit in exact programs."""
    tolerance = 1e-9 if program.smooth else 0.0
    try:
        oracles.assert_same(got, expected, rtol=tolerance, atol=tolerance)
    except AssertionError as error:
        raise Mismatch(aspect, str(error).strip()) from None


def unchanged(scene: Scene, aspect: str) -> None:
    """After an error the arguments are what they were."""
    for i, (buffer, before) in enumerate(zip(scene.buffers, scene.initial, strict=True)):
        if buffer.tobytes() != before.tobytes():
            raise Mismatch(f"{aspect}, arguments after an error", f"B{i} is {buffer!r}, was {before!r}")


def sharing(got: Run, expected: Run, program: mutations.Program, aspect: str) -> None:
    """Results that are arguments, views of them or of each other are so in both runs, at the same place of the memory.

    Read-only results (broadcast views) may be copies, and so may views at a place that is an argument.
    """
    for i, wanted in enumerate(expected.results):
        if not _writeable(wanted):
            continue
        g, e = (_memory_of(i, run, expected) for run in (got, expected))
        at_argument = (program.recipe.number is not None or "abs(" in program.source) and not any(
            mine and not theirs for mine, theirs in zip(g[1], e[1], strict=True)
        )
        if g != e and not at_argument:
            raise Mismatch(f"{aspect}, sharing", f"result {i}: writeable, shares with, place are {g}, in NumPy {e}")


def _memory_of(i: int, run: Run, expected: Run) -> tuple[bool, list[bool], list[Any]]:
    """Whether a result can be written, with which results and buffers it shares memory, and where it lies in buffers."""
    result, buffers = run.results[i], run.scene.buffers
    peers = [r for r, e in zip(run.results, expected.results, strict=True) if _writeable(e)]
    place = [(_address(result) - _address(b), _steps(result)) for b in buffers if np.shares_memory(result, b)]
    return _writeable(result), [np.shares_memory(result, p) for p in [*peers, *buffers]], place


def identity(got: Run, expected: Run, program: mutations.Program, aspect: str) -> None:
    """Results that are the very arguments, or the same object twice, are so in both runs."""

    def same_objects(run: Run) -> list[list[bool]]:
        others = [*run.results, *run.scene.arrays, run.scene.captured]
        table = [[a is b and isinstance(b, np.ndarray) for b in others] for a in run.results]
        return [row for row, e in zip(table, expected.results, strict=True) if _writeable(e)]

    if same_objects(got) != same_objects(expected) and program.recipe.number is None:
        raise Mismatch(f"{aspect}, identity", f"results are {same_objects(got)}, in NumPy {same_objects(expected)}")


def _writeable(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.flags.writeable


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _steps(array: np.ndarray) -> list[int]:
    return [s for s, n in zip(array.strides, array.shape, strict=True) if n > 1]


UNKNOWN = (
    "depends on the values of arrays, which are unknown", "of views at traced places cannot be answered",
    "would give every example a size of its own",
)  # fmt: skip


def refuse(error: BaseException, program: mutations.Program, overlaps: bool) -> None:
    """Raise Refused if the error is a documented refusal, with a text of the usual parts.

    ``overlaps``: whether it may be about arguments that share memory, or are shared by the examples of vmap; those that see the same memory
    as different elements may always be refused.
    """
    documented = (
        isinstance(error, errors.UnsupportedError)
        or (isinstance(error, errors.OverlapError) and (overlaps or program.recipe.mixed))
        or (isinstance(error, errors.ConcretizationError) and any(text in error.what for text in UNKNOWN))
        or (isinstance(error, errors.TracerWriteError) and "that it closes over" in error.what and program.recipe.captured is not None)
    )
    if documented:
        if not (error.what and error.where and error.fix):
            raise Mismatch("a refusal without what, where and fix", repr(error))
        raise Refused(f"{type(error).__name__}: {error.why or error.what}") from error


def usable(expected: Run, program: mutations.Program) -> bool:
    """Whether NumPy's run on other arguments keeps to the numbers of the program's style, so that results can be compared."""
    fits = mutations.tame if program.smooth else mutations.exact
    return expected.error is not None or all(fits(v) for v in [*expected.results, *expected.scene.buffers])


# --- the ways -----------------------------------------------------------------------------------------------------------------------------


def jit(program: mutations.Program, seed: int, backend: str = "reference") -> None:
    """Three calls in a row, with arguments of another layout in between."""
    random = Random(seed)
    scene = Scene(program.recipe)
    jitted = fx.jit(program.function(scene.captured), backend=backend)
    expected = plain(program)
    between = other_layouts(random, program.recipe) if program.recipe.captured is None and random.random() < 0.4 else None
    for call in (1, 2, 3):
        if program.recipe.captured is None:
            scene = Scene(program.recipe)
        scene.reset()
        compare(run(jitted, scene), expected, program, f"jit ({backend}), call {call}")
        if between and call == 1:
            other = plain(program, between)
            if usable(other, program) and agree(other, plain(program.carefully(), between)):
                compare(run(jitted, Scene(between)), other, dataclasses.replace(program, recipe=between), f"jit ({backend}), other layouts")
    if expected.error is None and jitted.cache_info().traces > 1 + (between is not None):
        raise Mismatch(f"jit ({backend}), traces", f"{jitted.cache_info().traces} of them")


def agree(one: Run, other: Run) -> bool:
    """Whether two runs of NumPy did the same."""
    if one.error is not None or other.error is not None:
        return type(one.error) is type(other.error)
    pairs = zip([*one.results, *one.scene.buffers], [*other.results, *other.scene.buffers], strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def compiled(programs: Mapping[int, mutations.Program]) -> None:
    """Many programs in one compilation, by seed, called three times."""
    functions = [p.function() for p in programs.values()]
    together = fx.jit(lambda groups: [f(*args) for f, args in zip(functions, groups, strict=True)], backend="cpp")
    RUN["compiled"] += len(programs)
    for call in (1, 2, 3):
        made = [Scene(p.recipe) for p in programs.values()]
        try:
            outs = together([scene.arguments for scene in made])
        except Exception:
            for seed, program in programs.items():
                check(compiled_alone, program, seed)
            raise
        for (seed, program), scene, out in zip(programs.items(), made, outs, strict=True):
            try:
                compare(Run(scene, out, None), plain(program), program, f"compiled, call {call}")
            except Mismatch as found:
                report(compiled_alone, program, seed, found)


def compiled_alone(program: mutations.Program, seed: int) -> None:
    """One program through the C++ backend."""
    jit(program, seed, "cpp")


def compilable(program: mutations.Program) -> bool:
    """Whether it can be compiled together with others: values unknown, nothing captured, and not refused."""
    if program.valued or program.fails or program.recipe.captured:
        return False
    return run(oracles.reference_jit(program.function()), Scene(program.recipe)).error is None


def functionalize(program: mutations.Program, seed: int) -> None:
    """The pure form: results, and new contents of the arguments that were written; the arguments stay what they are."""
    expected = plain(program)
    scene = Scene(program.recipe)
    got = run(fx.functionalize(program.function(scene.captured)), scene)
    if got.error is None and expected.error is None:
        results, mutated = got.results
        before = Scene(program.recipe)
        new = [a if m is None else m for m, a in zip(mutated[: len(scene.arrays)], before.arrays, strict=True)]
        same(new, expected.scene.arrays, program, "functionalize, mutated")
        same(results, expected.results, program, "functionalize, results")
        unchanged(scene, "functionalize")
    else:
        compare(got, expected, program, "functionalize")


def vmap(program: mutations.Program, seed: int) -> None:
    """A Python loop over examples; buffers that are not mapped must be written alike by all of them."""
    random = Random(seed)
    recipe = program.recipe
    lanes = random.choice([1, 2, 3])
    captured = {recipe.captured[0]} if recipe.captured else set()
    mapped = [i for i in range(len(recipe.buffers)) if i not in captured and random.random() < 0.75]
    used = [k for k, (i, _) in enumerate(recipe.views) if i in mapped]
    if not used:
        return
    axes = [random.randrange(a.ndim + 1) if k in used else None for k, a in enumerate(Scene(recipe).arrays)]
    results, wanted, alike = _loop(program, lanes, mapped)
    if isinstance(results, (ValueError, OverflowError)) and not program.fails:
        return  # NumPy refuses the numbers of these examples: they become no integers
    if not _same_outcome((results, wanted), _loop(program.carefully(), lanes, mapped)):
        return  # on these examples NumPy writes over what it has yet to read
    shares = recipe.aliased or len(mapped) < len(recipe.buffers)
    for wrap in (lambda f: f, oracles.reference_jit):
        scene = Scene(recipe, lanes=lanes, mapped=mapped)
        f = wrap(fx.vmap(program.function(scene.captured), tuple(axes) + (None,) * (recipe.number is not None)))
        scene.arrays = [a if axis is None else np.moveaxis(a, 0, axis) for a, axis in zip(scene.arrays, axes, strict=True)]
        got = run(f, scene)
        aspect = f"vmap {axes} of {lanes}" if wrap is not oracles.reference_jit else f"jit of vmap {axes} of {lanes}"
        if isinstance(results, BaseException):
            compare(got, Run(wanted, None, results), program, aspect, overlaps=shares)
        elif got.error is not None:
            unchanged(got.scene, aspect)
            refuse(got.error, program, shares)
            raise Mismatch(f"{aspect}, raises", repr(got.error)) from got.error
        elif not alike:
            raise Mismatch(f"{aspect}, shared", "examples write different numbers to what they share, and no error says so")
        else:
            same(got.results, results, program, f"{aspect}, results")
            same(got.scene.buffers, wanted.buffers, program, f"{aspect}, arguments")


def _same_outcome(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two loops over examples did the same."""
    runs = [Run(scene, None, r) if isinstance(r, BaseException) else Run(scene, r, None) for r, scene, *_ in (one, other)]
    return agree(*runs)


def _loop(program: mutations.Program, lanes: int, mapped: list[int]) -> tuple[Any, Scene, bool]:
    """The stacked results (or an error), the memory afterwards, and whether all examples did the same to what they share."""
    whole = Scene(program.recipe, lanes=lanes, mapped=mapped)
    results, shared = [], []
    for lane in range(lanes):
        one = Scene(program.recipe)
        for i in mapped:
            one.buffers[i][...] = whole.initial[i][lane]
        one.arrays = [a[()] if i in mapped else a for a, (i, _) in zip(one.arrays, program.recipe.views, strict=True)]  # 0-d: x[lane]
        did = run(program.function(one.captured), one)
        if did.error is not None:
            return did.error, whole, True
        results.append(did.results)
        shared.append([b.tobytes() for i, b in enumerate(one.buffers) if i not in mapped])
        for i, buffer in enumerate(one.buffers):
            whole.buffers[i][lane if i in mapped else ...] = buffer
    return [np.stack([np.asarray(r[k]) for r in results]) for k in range(len(results[0]))], whole, len({tuple(s) for s in shared}) == 1


def derivatives(program: mutations.Program, seed: int) -> None:
    """grad and jvp of a smooth number of all results, with respect to some arguments, against differences in long double."""
    if not program.smooth or program.fails:
        return
    random = Random(seed)
    recipe = program.recipe
    wrt = sorted(random.sample(range(len(recipe.views)), random.randint(1, len(recipe.views))))
    scene = Scene(recipe)
    rng = np.random.default_rng(seed)
    directions = [rng.uniform(-1, 1, a.shape) if k in wrt else None for k, a in enumerate(scene.arrays)]

    def along(t: Any) -> Any:
        moved = Scene(recipe, dtype=np.longdouble)
        for k in wrt:
            if recipe.shared(k):  # unaliased: such arguments may only be read
                moved.arrays[k] = Scene(recipe, dtype=np.longdouble).arrays[k]
            moved.arrays[k].flags.writeable = True
            moved.arrays[k] += t * directions[k]
            moved.arrays[k].flags.writeable = k not in recipe.read_only
        return programs.scalar(program.function(moved.captured)(*moved.arguments))

    try:
        wanted, nearer = (programs.derivative(along, 0.0, 1.0, step) for step in (1e-3, 1e-4))
    except (ValueError, IndexError):
        return  # a mask selects another number of elements there
    if not abs(wanted - nearer) < 1e-4 * (1 + abs(wanted)):
        return  # near a pole, or a place where its values take it another way
    expected = plain(program)
    value = programs.scalar(expected.results)
    if np.asarray(value).dtype.kind != "f":
        return  # nothing to differentiate
    tolerance = 1e-8 * (1 + abs(wanted)) + abs(wanted - nearer)
    ways: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
        "grad": lambda f: fx.value_and_grad(f, argnums=tuple(wrt)),
        "jvp": lambda f: lambda *args: fx.jvp(f, args, tuple(directions)),
        "jit of grad": lambda f: oracles.reference_jit(fx.value_and_grad(f, argnums=tuple(wrt))),
    }
    for name, way in ways.items():
        if program.valued and name == "jit of grad":
            continue
        scene = Scene(recipe)
        f = program.function(scene.captured)
        got = run(way(lambda *args, f=f: programs.scalar(f(*args))), scene)
        if got.error is not None:
            unchanged(got.scene, name)
            refuse(got.error, program, recipe.aliased)
            raise Mismatch(f"{name}, raises", repr(got.error)) from got.error
        primal, moved = got.results
        if name != "jvp":
            for g, k in zip(moved, wrt, strict=True):
                same(np.zeros_like(g), np.zeros_like(scene.arrays[k]), program, f"{name}, type of gradient {k}")
            moved = sum(np.sum(g * directions[k]) for g, k in zip(moved, wrt, strict=True))
        if not np.allclose(primal, value, rtol=1e-9, atol=1e-9):
            raise Mismatch(f"{name}, value", f"{primal} instead of {value}")
        if not abs(moved - wanted) <= tolerance:
            raise Mismatch(f"{name}, derivative", f"{moved} instead of {wanted}, for arguments {wrt}")
        same(scene.buffers, expected.scene.buffers, program, f"{name}, arguments")


def applicable(program: mutations.Program) -> list[Callable[[mutations.Program, int], None]]:
    """The ways that a program can be run in."""
    return [derivatives] if program.valued else [jit, vmap, functionalize, derivatives]


# --- reports ------------------------------------------------------------------------------------------------------------------------------


def check(way: Callable[[mutations.Program, int], None], program: mutations.Program, seed: int) -> None:
    """Run a program in a way; a mismatch is reported with the shortest program that still shows it."""
    RUN[way.__name__] += 1
    found = mismatch(way, program, seed, count=True)
    if found is not None:
        report(way, program, seed, found)


def report(way: Callable[..., None], program: mutations.Program, seed: int, found: Mismatch) -> None:
    """Fail, with the shortest program that still shows the mismatch."""
    program, found = shrink(way, program, seed, found)
    raise AssertionError(f"seed {seed}, {found}\n{program.text}") from found


def mismatch(way: Callable[..., None], program: mutations.Program, seed: int, count: bool = False) -> Mismatch | None:
    """What differs, if anything; a documented refusal is counted."""
    try:
        way(program, seed)
    except Refused as refused:
        REFUSED[way.__name__, str(refused)] += count
    except Mismatch as found:
        return found
    return None


def shrink(way: Callable[..., None], program: mutations.Program, seed: int, found: Mismatch) -> tuple[mutations.Program, Mismatch]:
    """Remove statements and results while a mismatch in the same respect stays, and NumPy runs the program as before."""
    smaller = True
    while smaller:
        smaller = False
        shorter = [program.without(i) for i in reversed(range(len(program.statements)))]
        fewer = [dataclasses.replace(program, results=program.results[:i] + program.results[i + 1 :]) for i in range(len(program.results))]
        for candidate in [*shorter, *fewer]:
            expected = plain(candidate)
            sound = (
                (expected.error is not None) is program.fails and not isinstance(expected.error, NameError) and usable(expected, program)
            )
            if not sound:
                continue
            again = mismatch(way, candidate, seed)
            if again is not None and again.respect == found.respect:
                program, found, smaller = candidate, again, True
                break
    return program, found
