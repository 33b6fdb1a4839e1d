"""Printed graphs are deterministic and read back; golden texts of a few programs stay as they are."""

import numpy as np
import pytest

import functx as fx
import functx.numpy as fnp
from functx.check import check_graph
from functx.errors import GraphError
from functx.ir import Mark
from functx.parse import parse_graph
from functx.pretty import format_graph, graph_digest, var_name

W = np.arange(6.0).reshape(3, 2)


def stencil(x):
    y = fnp.zeros(x.shape)
    y[1:-1] += x[:-2] + x[2:]
    return (y * y).sum()


def layer(x, w, b):
    return np.tanh(x @ w + b).max(axis=1)


def picks(x, i):
    return x[np.array([0, 2])] * x[i] + np.where(x[:2] > 0, 1.0, x[:2])


@fx.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1, 1),))

PROGRAMS = {
    "stencil": lambda: fx.make_ir(stencil)(np.arange(5.0)),
    "joint": lambda: fx.joint_graph(stencil)(np.arange(5.0)),
    "grad of grad": lambda: fx.make_ir(fx.grad(fx.grad(lambda x: np.log(x) ** 2)))(1.0),
    "layer": lambda: fx.make_ir(layer)(np.ones((4, 3)), W, np.float32(1)),
    "captured": lambda: fx.make_ir(lambda x: x @ W)(np.ones(3)),
    "indices": lambda: fx.make_ir(picks)(np.ones(3), 1),
    "write back": lambda: fx.make_ir(lambda x: x.fill(2.0))(np.ones(3)),
    "call": lambda: fx.make_ir(lambda x: fx.jit(lambda y: (y * 2, y + np.arange(3)))(x))(np.ones(3)),
    "checkpoint": lambda: fx.make_ir(fx.grad(fx.checkpoint(lambda x: np.sin(np.sin(x)))))(1.0),
    "custom": lambda: fx.make_ir(fx.vmap(fx.grad(clipped)))(np.ones(3)),
    "dims": lambda: fx.make_ir(lambda x: np.tanh(x) * 2)(fx.ShapeDtypeStruct((fx.Dim("n") + 1, 3), float)),
    "special values": lambda: fx.make_ir(lambda x: x + np.inf - np.float32(np.nan) + -0.0 + True)(np.float32(1)),
    "constant": lambda: fx.make_ir(lambda x: x + fnp.array([1.0, 2.0]) * fnp.array([[3.0], [4.0]]))(np.ones(2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_reads_back(name):
    graph = PROGRAMS[name]()
    check_graph(graph)
    text = format_graph(graph, sources=False)
    again = parse_graph(format_graph(graph), [array for _, array in graph.consts])
    check_graph(again)
    assert format_graph(again, sources=False) == text
    assert graph_digest(again) == graph_digest(graph)


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_does_not_depend_on_the_process_s_past(name):
    assert format_graph(PROGRAMS[name]()) == format_graph(PROGRAMS[name]())


def test_stencil_golden():
    assert format_graph(PROGRAMS["joint"](), sources=False) == GOLDEN_JOINT


GOLDEN_JOINT = """\
{ lambda a:f64[5] .
  b:f64[5] = broadcast[shape=(5,) dims=()] 0.0:f64 <forward 0>
  c:f64[3] = slice[starts=(0,) sizes=(3,) steps=(1,)] a <forward 0>
  d:f64[3] = slice[starts=(2,) sizes=(3,) steps=(1,)] a <forward 0>
  e:f64[3] = add c d <forward 0>
  f:f64[3] = slice[starts=(1,) sizes=(3,) steps=(1,)] b <forward 0>
  g:f64[3] = add f e <forward 0>
  h:f64[5] = slice_set[starts=(1,) steps=(1,)] b g <forward 0>
  i:f64[5] = mul h h <forward 0>
  j:f64[] = reduce_sum[axes=(0,)] i <forward 0>
  k:f64[5] = broadcast[shape=(5,) dims=()] 1.0:f64 <backward 0>
  l:f64[5] = mul_zero k h <backward 0>
  m:f64[5] = mul_zero k h <backward 0>
  n:f64[5] = add l m <backward 0>
  o:f64[3] = slice[starts=(1,) sizes=(3,) steps=(1,)] n <backward 0>
  p:f64[5] = broadcast[shape=(5,) dims=()] 0.0:f64 <forward 0>
  q:f64[5] = slice_set[starts=(2,) steps=(1,)] p o <backward 0>
  r:f64[5] = broadcast[shape=(5,) dims=()] 0.0:f64 <forward 0>
  s:f64[5] = slice_set[starts=(0,) steps=(1,)] r o <backward 0>
  t:f64[5] = add q s <backward 0>
  return j' t<gradient> }"""


def test_source_lines_are_comments():
    text = format_graph(PROGRAMS["stencil"]())
    assert "# test_pretty.py:" in text


def test_marks_read_back():
    graph = fx.joint_graph(lambda x: x * x)(2.0)
    again = parse_graph(str(graph))
    assert [e.mark.phase for e in again.eqns] == [e.mark.phase for e in graph.eqns]
    assert isinstance(again.eqns[0].mark, Mark)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{ lambda a:f64[] . b:f64[] = nothing a return b }", "name of a primitive"),
        ("{ lambda a:f64[] . return b }", "b is not bound"),
        ("{ lambda . a:f64[2] = const[0123] return a }", "no constant with digest 0123"),
        ("{ lambda a:f64[] . return a } x", "expected the end"),
    ],
)
def test_bad_text_says_where(text, message):
    with pytest.raises(GraphError, match=message):
        parse_graph(text)


def test_variable_names():
    assert [var_name(i) for i in (0, 25, 26, 27, 701, 702)] == ["a", "z", "aa", "ab", "zz", "aaa"]


@pytest.mark.parametrize("text", ["N", "S", "beta + 1", "E*I", "n**2 - 1", "floor(n/2)", "Mod(n, 3)", "floor(m/(m + 1) + n/(m + 1))"])
def test_dimensions_read_back_whatever_their_symbols_are_called(text):
    assert fx.Dim.parse(str(fx.Dim.parse(text))) == fx.Dim.parse(text)
    graph = fx.make_ir(lambda x: x * 2)(fx.ShapeDtypeStruct((fx.Dim.parse(text), 3), float))
    assert format_graph(parse_graph(str(graph)), sources=False) == format_graph(graph, sources=False)


@pytest.mark.parametrize("text", ["n +", "f(n)", "__import__('os')", "n.real", "[n]"])
def test_what_is_no_dimension_is_refused(text):
    with pytest.raises(ValueError, match="is no dimension"):
        fx.Dim.parse(text)
