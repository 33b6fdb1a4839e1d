"""Passes: pure, exact, near linear; what they must not do; and how they are run, logged and kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functx as fx
from functx import config
from functx.check import check_graph
from functx.errors import GraphError
from functx.interpret import eval_graph
from functx.ir import AbstractArray, Eqn, Input, Literal, Output, Var
from functx.passes import run_pass
from functx.pretty import format_graph
from functx.primitive import PRIMITIVES, Emitter, Primitive
from functx.transforms.algebra import simplify_algebra
from functx.transforms.inline import inline_calls
from functx.transforms.pipeline import optimize, pipeline
from functx.transforms.simplify import common_subexpressions, dead_code, fold_constants

F64 = np.dtype(float)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, np.inf, -np.inf, np.nan, 3.0]


def names(graph):
    return [e.primitive.name for e in graph.eqns]


def random_graph(draw):
    """A graph over vectors of length 4 in which constants that invite simplification are frequent."""
    b = Emitter()
    x, y = Var(AbstractArray((4,), F64)), Var(AbstractArray((4,), F64))
    pool = [x, y]
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["const", "unary", "binary", "select", "move", "write"]))
        a, c = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        if kind == "const":
            pool.append(b.full((4,), draw(st.sampled_from(SPECIAL)), F64))
        elif kind == "unary":
            pool.append(getattr(b, draw(st.sampled_from(["neg", "abs", "sign", "sin", "stop_gradient"])))(a))
        elif kind == "binary":
            pool.append(getattr(b, draw(st.sampled_from(["add", "sub", "mul", "mul_zero", "div"])))(a, c))
        elif kind == "select":
            pool.append(b.select(b.lt(a, c), draw(st.sampled_from(pool)), c))
        elif kind == "move":
            step = draw(st.sampled_from([1, -1]))
            pool.append(b.slice(a, starts=(0 if step == 1 else 3,), sizes=(4,), steps=(step,)))
            pool.append(b.reshape(b.transpose(b.reshape(a, shape=(2, 2)), perm=(1, 0)), shape=(4,)))
        else:
            start = draw(st.integers(0, 2))
            piece = b.slice(c, starts=(start,), sizes=(2,), steps=(1,))
            whole = b.slice_set(a, piece, starts=(draw(st.integers(0, 2)),), steps=(1,))
            pool += [whole, b.slice_set(whole, piece, starts=(0,), steps=(2,))]
    outputs = [Output(v) for v in pool[-3:]]
    return b.build([Input(x), Input(y)], outputs)


VALUES = [np.array([0.0, -0.0, 1.5, np.inf]), np.array([np.nan, -2.0, -0.0, 0.0]), np.array([-np.inf, 1e308, 1.0, -1.0])]


@given(st.data())
def test_every_pass_is_exact_and_pure(data):
    graph = random_graph(data.draw)
    before = format_graph(graph)
    args = [data.draw(st.sampled_from(VALUES)) for _ in range(2)]
    expected = eval_graph(graph, args)
    current = graph
    for f in pipeline():
        current = f(current)
        check_graph(current)
        for got, want in zip(eval_graph(current, args), expected, strict=True):
            np.testing.assert_array_equal(got, want)  # NaN equals NaN; the sign of a zero is mul_zero's to choose
    assert format_graph(graph) == before


@given(st.data())
def test_the_pipeline_reaches_a_fixed_point_of_cse_and_dead_code(data):
    graph = optimize(random_graph(data.draw))
    assert len(common_subexpressions(graph).eqns) == len(graph.eqns)
    assert len(dead_code(graph).eqns) == len(graph.eqns)


def test_a_negative_zero_survives():
    graph = optimize(fx.make_ir(lambda x: x + 0.0)(-0.0))
    assert names(graph) == ["add"]
    assert names(optimize(fx.make_ir(lambda x: x + -0.0)(-0.0))) == []
    assert names(optimize(fx.make_ir(lambda x: x - 0.0)(-0.0))) == []


def test_equal_constants_of_different_types_are_not_merged():
    graph = fx.make_ir(lambda x: (x + 1, x + 1.0, x + True))(np.arange(3))
    assert len(optimize(graph).eqns) >= 4
    out = fx.jit(lambda x: (x + 1, x + 1.0, x + True), backend="reference")(np.arange(3))
    assert [a.dtype for a in out] == [np.dtype(int), np.dtype(float), np.dtype(int)]


def test_cse_never_undoes_a_recomputation():
    f = fx.checkpoint(lambda x: np.sin(np.sin(x)))
    joint = optimize(fx.joint_graph(lambda x: f(x).sum())(np.ones(3)))
    sines = [e for e in joint.eqns if e.primitive.name == "sin"]
    assert {e.remat is None for e in sines} == {True, False}
    assert len(sines) > len({e.inputs for e in sines})


def test_common_subexpressions_are_computed_once():
    def f(a, b, c, d):
        return np.cos(a) + np.cos(a) + (a + b) + (a + b) + (c + d) + a.sum(keepdims=False) + a.sum()

    graph = fx.make_ir(f)(*(np.ones(3) for _ in range(4)))
    once = common_subexpressions(graph)
    assert names(graph).count("cos") == 2
    assert names(once).count("cos") == 1
    assert names(once).count("reduce_sum") == 1
    assert len(common_subexpressions(once).eqns) == len(once.eqns)


def test_dead_code_goes_and_effects_stay():
    graph = fx.make_ir(lambda x: (np.sin(x), np.cos(x))[1])(1.0)
    assert names(dead_code(graph)) == ["cos"]
    noisy = Primitive("test_noisy", lambda x: x, lambda x: x, effect=True)
    try:
        b, x = Emitter(), Var(AbstractArray((), F64))
        b.bind(noisy, [x], {})
        graph = b.build([Input(x)], [Output(x)])
        assert names(optimize(graph)) == ["test_noisy"]
        assert len(common_subexpressions(graph.replace(eqns=graph.eqns * 1)).eqns) == 1
    finally:
        del PRIMITIVES["test_noisy"]


def test_constants_fold_but_an_array_read_by_reference_never_does():
    w = np.ones(3)
    graph = optimize(
        fx.make_ir(lambda x: x + (np.float64(2) + fx.numpy.array([1.0, 2.0, 3.0])) * 2.0 + (fx.numpy.asarray(w) + 1))(np.ones(3))
    )
    assert names(graph).count("add") == 3  # x + constant, w + 1, their sum
    assert len(graph.inputs) == 2


def test_an_equation_that_fails_is_left_for_run_time():
    b = Emitter()
    x = Var(AbstractArray((3,), F64))
    index = b.const(np.array([7]))
    graph = b.build([Input(x)], [Output(b.gather(b.const(np.ones(3)), index, axes=(0,)))])
    assert names(fold_constants(graph)) == ["gather"]


def test_calls_are_gone_after_inlining():
    inner = fx.jit(lambda x: fx.checkpoint(lambda y: np.exp(y))(x))
    graph = fx.make_ir(lambda x: inner(x) + inner(x))(1.0)
    assert names(graph).count("call") == 2
    assert names(inline_calls(graph)) == ["exp", "exp", "add"]


def test_slices_of_what_was_just_written_are_what_was_written():
    def f(x):
        y = x.copy()
        y[1:3] = 7.0
        return y[1:3] * 1.0, x[1:][1:]

    assert names(optimize(fx.make_ir(f)(np.arange(5.0)))) == ["broadcast", "slice"]


def test_rewrites_need_exact_matches():
    eqns = names(simplify_algebra(fx.make_ir(lambda x: (x * 1.0, x / 4.0, x / 3.0, np.negative(-x)))(np.ones(2))))
    assert eqns.count("div") == 1
    assert eqns.count("mul") == 1


@pytest.mark.parametrize("length", [200, 400])
def test_pipeline_size_is_linear_in_the_program(length):
    def chain(x):
        for _ in range(length):
            x = np.sin(x) * 1.01
        return x

    assert len(optimize(fx.make_ir(fx.grad(chain))(1.0)).eqns) <= 5 * length


# --- running passes ----------------------------------------------------------------------------------------------------------------------


def broken(graph):
    return graph.replace(eqns=graph.eqns[1:])


def test_debug_levels(capsys):
    graph = fx.make_ir(lambda x: np.sin(x) + 0)(1.0)
    with config.options(debug=0):
        run_pass(dead_code, graph)
    assert capsys.readouterr().err == ""
    with config.options(debug=1):
        run_pass(dead_code, graph)
    assert "dead_code: 2 -> 2 equations" in capsys.readouterr().err
    with config.options(debug=2):
        run_pass(dead_code, graph)
    assert "lambda a:f64[]~" in capsys.readouterr().err
    with config.options(debug=3), pytest.raises(GraphError, match="not bound"):
        run_pass(broken, graph)


def test_dump_keeps_the_graph_after_every_pass(tmp_path):
    with config.options(dump=str(tmp_path / "dump")):
        fx.jit(lambda x: np.sin(x), backend="reference")(1.0)
    kept = sorted((tmp_path / "dump").iterdir())
    assert len(kept) >= len(pipeline())
    assert "sin" in kept[-1].read_text()


def test_fuel_stops_passes():
    graph = fx.make_ir(lambda x: (np.sin(x), np.cos(x))[1])(1.0)
    with config.options(fuel=0):
        assert run_pass(dead_code, graph) is graph


def test_options_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("FUNCTX_DEBUG", "2")
    monkeypatch.setenv("FUNCTX_DISABLE_JIT", "1")
    read = config.Config.from_environment()
    assert (read.debug, read.disable_jit) == (2, True)
    monkeypatch.setenv("FUNCTX_DEBUG", "many")
    with pytest.raises(ValueError, match="FUNCTX_DEBUG='many'"):
        config.Config.from_environment()
    assert "FUNCTX_DUMP" in config.describe()


# --- the checker -------------------------------------------------------------------------------------------------------------------------


def test_checker_finds_what_is_wrong():
    x = Var(AbstractArray((3,), F64))
    good = Emitter()
    y = good.sin(x)
    graph = good.build([Input(x)], [Output(y)])
    check_graph(graph)
    wrong_type = Eqn(PRIMITIVES["sin"], (x,), {}, (Var(AbstractArray((4,), F64)),))
    cases = {
        "is bound already": graph.replace(inputs=(Input(x), Input(x))),
        "its type rule gives": graph.replace(eqns=(wrong_type,), outputs=()),
        "that is not bound": graph.replace(inputs=()),
        "an output uses": graph.replace(eqns=()),
    }
    for message, bad in cases.items():
        with pytest.raises(GraphError, match=message):
            check_graph(bad)


def test_literals_differ_by_dtype_and_bits():
    one = [Literal(1), Literal(1.0), Literal(True), Literal(np.float32(1))]
    assert len(set(one)) == 4
    assert Literal(0.0) != Literal(-0.0)
    assert Literal(float("nan")) == Literal(float("nan"))


@pytest.mark.parametrize("backend", ["reference", "cpp"])
def test_an_index_that_is_out_of_range_raises_though_its_result_is_not_used(backend):
    def f(x, i):
        x[i]
        return x * 2

    g = fx.jit(f, backend=backend)
    np.testing.assert_array_equal(g(np.ones(3), np.array([0, 2])), 2 * np.ones(3))
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 3"):
        g(np.ones(3), np.array([0, 5]))


def test_a_check_that_another_equation_makes_is_not_kept():
    i = np.array([0, 2])
    graph = optimize(fx.make_ir(fx.grad(lambda x, i: x[i].sum()))(np.ones(3), i))
    assert names(graph).count("gather") == 0
    assert names(graph).count("scatter_add") == 1


def test_recomputation_ids_survive_further_derivatives():
    """Differentiating a gradient keeps the recomputed part of its checkpoint apart from the forward part."""
    g = fx.checkpoint(lambda v: np.sin(np.sin(v)))

    def value_and_slope(x):
        return fx.grad(g)(x) + g(x)

    for transform in (lambda f: f, fx.grad, fx.value_and_grad, lambda f: fx.grad(fx.grad(f))):
        graph = optimize(fx.make_ir(transform(value_and_slope))(1.0))
        recomputed = [e for e in graph.eqns if e.primitive.name == "sin" and e.inputs == (graph.inputs[0].var,)]
        assert len({e.remat for e in recomputed}) == len(recomputed) >= 2


def test_a_reverse_pass_overwrites_the_marks_inside_custom_rules():
    @fx.custom_vjp
    def f(x):
        return x**3

    f.defvjp(lambda x: (f(x), fx.grad(lambda y: y**3)(x)), lambda slope, g: (slope * g,))
    joint = fx.joint_graph(lambda x: f(x) * x)(2.0)
    assert {e.mark.region for e in joint.eqns} == {joint.eqns[0].mark.region}
    phases = [e.mark.phase for e in joint.eqns]
    assert phases == sorted(phases, key=["forward", "backward"].index)


def test_division_becomes_multiplication_only_where_that_is_exact():
    for dtype in (np.float16, np.float32, np.float64):
        info = np.finfo(dtype)
        for value in (info.tiny, 1 / info.tiny, info.smallest_subnormal, dtype(0.25), dtype(-8), dtype(3), info.max):
            x = np.array([value, 1, -2, info.max], dtype)
            with np.errstate(all="ignore"):
                expected = x / dtype(value)
            np.testing.assert_array_equal(fx.jit(lambda x: x / dtype(value), backend="reference")(x), expected)  # noqa: B023
