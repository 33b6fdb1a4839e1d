"""vmap: forms of axes, kinds, layouts, writes and nesting, against Python loops."""

import numpy as np
import pytest
from regimes import tree_close

import functx as fx
import functx.numpy as fnp
from functx.errors import AxesError, OverlapError


def jit(f):
    return fx.jit(f, backend="reference")


def array(*values):
    return np.array(values, float)


def test_forms_of_in_axes():
    def f(x, p, k=1.0):
        return x * p["w"] + p["b"] * k

    x, w, b = np.arange(6.0).reshape(3, 2), np.arange(3.0), np.arange(8.0).reshape(2, 4)[:, :3]
    expected = np.stack([f(x[i], {"w": w[i], "b": b[:, i]}) for i in range(3)])
    p = {"w": w, "b": b}
    for in_axes in [(0, {"w": 0, "b": 1}), [0, {"w": 0, "b": 1}], (0, {"b": -1, "w": -1}), {"p": {"w": 0, "b": 1}}, (-2, {"w": 0, "b": 1})]:
        tree_close(fx.vmap(f, in_axes)(x, p), expected)
        tree_close(jit(fx.vmap(f, in_axes))(x, p), expected)
    tree_close(fx.vmap(f, {"p": {"w": 0, "b": 1}, "k": None})(x, p, k=2.0), expected + b.T)
    tree_close(fx.vmap(f, {"x": None, "p": None, "k": 0})(x[0], {"w": 2.0, "b": b[:, 0]}, array(1, 2)).shape, (2, 2))
    tree_close(fx.vmap(f, (0, {"w": 0, "b": 1}))(x, p, k=array(1, 1, 1)), expected)  # keywords are mapped along axis 0
    tree_close(fx.vmap(lambda *xs: sum(xs), (0, None, 0))(w, 2.0, w), w * 2 + 2)
    tree_close(fx.vmap(lambda x: x["a"], 0)({"a": w, "none": None}), w)


@pytest.mark.parametrize("how", [lambda f: f, jit], ids=["plain", "jit"])
def test_axes_may_be_numpy_integers(how):
    x = np.arange(6.0).reshape(2, 3)
    tree_close(how(fx.vmap(lambda v: v * 2, np.int64(1), np.int32(-1)))(x), x * 2)


@pytest.mark.parametrize("how", [lambda f: f, jit], ids=["plain", "jit"])
@pytest.mark.parametrize("out_axes", [0, (0, 1, 0), (1, 1, 1)])
def test_a_result_that_is_returned_twice_is_stacked_twice(how, out_axes):
    x = np.ones((2, 3))
    a, b, c = how(fx.vmap(lambda v: (v, v, v), out_axes=out_axes))(x)
    for first, second in ((a, b), (b, c), (a, c), (a, x), (b, x), (c, x)):
        assert not np.shares_memory(first, second)


def test_a_write_to_what_examples_share_is_refused_with_its_line():
    shared = np.zeros(3)

    def f(v):
        fnp.asarray(shared)[...] = v
        return v

    for run in (fx.vmap(f), jit(fx.vmap(f)), fx.vmap(lambda v: fx.checkpoint(f)(v))):
        with pytest.raises(OverlapError, match=r"examples write different[\s\S]*at: .*test_vmap.py"):
            run(np.ones((2, 3)))
    assert not shared.any()


def test_forms_of_out_axes():
    x = np.arange(24.0).reshape(2, 3, 4)

    def f(a):
        return {"same": a * 2, "total": a.sum()}, (a.T, [3.0, np.ones(2)])

    tree, (turned, (number, ones)) = fx.vmap(f, 1, ({"same": 2, "total": 0}, (-1, 0)))(x)
    tree_close(tree["same"], np.stack([2 * x[:, i] for i in range(3)], 2))
    tree_close(tree["total"], x.sum((0, 2)))
    tree_close(turned, np.stack([x[:, i].T for i in range(3)], -1))
    tree_close(number, array(3, 3, 3))
    tree_close(ones, np.ones((3, 2)))
    assert all(v.flags.writeable and v.flags.c_contiguous for v in (tree["same"], tree["total"], turned, number, ones))


def test_examples_have_the_kinds_of_a_loop():
    seen = []

    def f(x, s, n):
        seen.append((type(x * 1), x.shape, np.ndim(s), s.dtype, n.dtype))
        s += 1.0  # a scalar is rebound
        return x * s

    s, x = array(1, 2), np.ones((2, 1))
    tree_close(fx.vmap(f)(x, s, np.array([1, 2])), np.array([[2.0], [3.0]]))
    assert s.tolist() == [1, 2] and seen[0][1:] == ((1,), 0, np.float64, np.int64)
    tree_close(fx.vmap(lambda x, k: x * k, (0, None))(np.ones(2, np.float32), 2.0), np.full(2, 2, np.float32))
    tree_close(fx.vmap(lambda x, k: x * k, (0, None))(np.ones(2, np.float32), np.float64(2)), array(2, 2))
    tree_close(fx.vmap(lambda b: ~b)(np.array([True, False])), np.array([False, True]))
    tree_close(fx.vmap(lambda i: i + 1)(np.array([1, 2], np.int8)), np.array([2, 3], np.int8))


def test_writes_go_back_along_the_mapped_axis():
    def f(x, y):
        x[0] += y
        x[1:] *= 2
        return x.sum()

    for axis in (0, 1):
        mine = np.arange(6.0).reshape(2, 3) if axis == 0 else np.asfortranarray(np.arange(6.0).reshape(3, 2))
        plain = mine.copy()
        expected = array(*(f(row, k) for row, k in zip(np.moveaxis(plain, axis, 0), (10.0, 20.0), strict=True)))
        tree_close(fx.vmap(f, (axis, 0))(mine, array(10, 20)), expected)
        tree_close(mine, plain)
        tree_close(
            jit(fx.vmap(f, (axis, 0)))(mine, array(10, 20)),
            array(*(f(row, k) for row, k in zip(np.moveaxis(plain, axis, 0), (10.0, 20.0), strict=True))),
        )
        tree_close(mine, plain)


def test_a_shared_argument_may_be_written_by_what_is_the_same_for_all():
    def same(x, buffer):
        buffer += 1.0
        return x + buffer[0]

    buffer = np.zeros(2)
    tree_close(fx.vmap(same, (0, None))(array(1, 2), buffer), array(2, 3))
    assert buffer.tolist() == [1, 1]

    def own(x, buffer):
        buffer[0] = x
        return x

    for run in (fx.vmap(own, (0, None)), jit(fx.vmap(own, (0, None)))):
        with pytest.raises(OverlapError, match="'buffer'"):
            run(array(1, 2), buffer)
        assert buffer.tolist() == [1, 1]


def test_a_write_to_an_array_of_the_enclosing_function():
    def f(x):
        total = fnp.zeros(2)
        fx.vmap(lambda v: total.__iadd__(1.0).sum() + v)(x)
        return total * x

    tree_close(jit(f)(array(3, 4)), array(3, 4))

    def g(x):
        total = fnp.zeros(2)

        def lane(v):
            total[0] = v
            return v

        return fx.vmap(lane)(x)

    with pytest.raises(OverlapError, match="enclosing function"):
        jit(g)(array(3, 4))


def test_nesting_and_mixing_with_the_other_transforms():
    def f(x, y):
        return np.sin(x) * y

    x, y = array(0.1, 0.2, 0.3), array(1, 2)
    outer = np.sin(x)[:, None] * y[None, :]
    tree_close(fx.vmap(fx.vmap(f, (None, 0)), (0, None))(x, y), outer)
    tree_close(fx.vmap(fx.vmap(f, (0, None)), (None, 0), 1)(x, y), outer)
    slopes = np.cos(x)[:, None] * y[None, :]
    tree_close(fx.vmap(fx.vmap(fx.grad(f), (None, 0)), (0, None))(x, y), slopes)
    tree_close(fx.vmap(lambda a: fx.grad(lambda a: fx.vmap(lambda b: f(a, b))(y).sum())(a))(x), slopes.sum(1))
    tree_close(jit(fx.vmap(jit(fx.vmap(jit(fx.grad(f)), (None, 0))), (0, None)))(x, y), slopes)
    tree_close(fx.vmap(lambda a: fx.jvp(lambda a: f(a, y), (a,), (1.0,))[1])(x), slopes)
    basis = fx.vmap(lambda t: fx.jvp(lambda v: v**2, (x,), (t,))[1])(np.eye(3))
    tree_close(basis, np.diag(2 * x))


def test_closing_over_values_of_an_outer_lane():
    x, y = array(1, 2, 3), np.arange(6.0).reshape(3, 2)
    tree_close(fx.vmap(lambda a, row: fx.vmap(lambda b: a * b + row.sum())(row))(x, y), x[:, None] * y + y.sum(1, keepdims=True))
    tree_close(fx.vmap(lambda a: fx.vmap(lambda b: a)(array(1, 2)))(x), np.stack([x, x], 1))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_batches_of_any_size(n):
    x = np.arange(2.0 * n).reshape(n, 2)
    tree_close(fx.vmap(lambda v: v * 2)(x), x * 2)
    tree_close(fx.vmap(lambda v: 1.0)(x), np.ones(n))
    tree_close(fx.vmap(lambda v: v.sum())(x), x.sum(1))
    tree_close(fx.vmap(fx.grad(lambda v: (v * v).sum()))(x), 2 * x)


def test_results_that_do_not_depend_on_the_lane_are_repeated_in_memory_of_their_own():
    shared = array(1, 2)
    a, b, c = fx.vmap(lambda x, w: (w, 5, np.ones(2)), (0, None))(np.ones(3), shared)
    tree_close((a, c), (np.stack([shared] * 3), np.ones((3, 2))))
    assert b.tolist() == [5, 5, 5] and b.dtype == np.int64
    a[0] = 7
    assert a[1].tolist() == [1, 2] and shared.tolist() == [1, 2]


def test_the_same_array_as_mapped_and_shared_argument():
    x = np.arange(3.0)
    tree_close(fx.vmap(lambda a, b: a * b.sum(), (0, None))(x, x), x * 3)
    tree_close(fx.vmap(lambda a, b: a * b)(x, x), x * x)
    square = np.arange(4.0).reshape(2, 2)
    tree_close(fx.vmap(lambda a, b: (a * b).sum(), (0, 1))(square, square), array(2, 11))


def test_indexing_with_the_lane():
    table, index = np.arange(12.0).reshape(4, 3), np.array([2, 0, -1])
    tree_close(fx.vmap(lambda i: fnp.asarray(table)[i])(index), table[index])
    tree_close(fx.vmap(lambda row, i: row[i], (1, 0))(table, index), table[index, np.arange(3)])

    def put(row, i):
        row = row.copy()
        row[i] = -1.0
        row[i] += row[0]
        return row

    tree_close(fx.vmap(put, (1, 0))(table, index), np.stack([put(table[:, k], i) for k, i in enumerate(index)]))
    tree_close(fx.grad(lambda t: (fx.vmap(lambda i: t[i])(index) ** 2).sum())(table)[3], 2 * table[3])


def test_every_lane_does_what_the_plain_function_does_where_numpy_has_its_own_layout():
    def f(a):
        v = a.reshape(-1)
        v[0] = 9.0
        return a[0, 0]

    c, fortran = np.zeros((3, 2, 2)), np.zeros((2, 2, 3)).transpose(2, 1, 0)
    for batch in (c, fortran):
        plain = batch.copy(order="K")
        expected = array(*(f(example) for example in plain))
        tree_close(fx.vmap(f)(batch), expected)
        tree_close(batch, plain)


def test_a_number_of_examples_without_mapped_arguments():
    tree_close(fx.vmap(lambda: 2.0, axis_size=3)(), np.full(3, 2.0))
    tree_close(fx.vmap(lambda x, k=1.0: x * k, None, axis_size=2)(array(1, 2)), np.stack([array(1, 2)] * 2))
    tree_close(jit(fx.vmap(lambda x: x * 2, None, axis_size=0))(array(1, 2)), np.zeros((0, 2)))
    tree_close(fx.vmap(lambda x: x * 2, axis_size=2)(array(1, 2)), array(2, 4))
    with pytest.raises(AxesError, match="no argument is mapped") as caught:
        fx.vmap(lambda x: x, None)(array(1, 2))
    assert "axis_size" in str(caught.value)
    with pytest.raises(AxesError, match="axis_size=3") as caught:
        fx.vmap(lambda x: x, axis_size=3)(array(1, 2))
    assert "'x' of shape (2,), axis 0: 2" in str(caught.value)
    for size in (-1, 2.0, True, "3"):
        with pytest.raises(AxesError, match="number of examples"):
            fx.vmap(lambda: 1.0, axis_size=size)()


def test_a_result_that_is_the_same_for_all_examples_is_returned_once():
    w = array(1, 2)

    def f(x, w):
        total = w.sum()
        return x * total, total, {"w": w * 2, "n": 7, "s": "text"}

    for run in (fx.vmap(f, (0, None), (0, None, None)), jit(fx.vmap(f, (0, None), (0, None, None)))):
        x, total, rest = run(array(1, 2, 3), w)
        tree_close(x, array(3, 6, 9))
        tree_close(total, np.float64(3))
        tree_close(rest, {"w": array(2, 4), "n": 7, "s": "text"})
    both = fx.vmap(lambda x, w: (y := w * 2, y), (0, None), (None, 1))(array(1, 2, 3), w)
    tree_close(both, (array(2, 4), np.stack([array(2, 4)] * 3, 1)))
    tree_close(fx.grad(lambda w: fx.vmap(lambda x, w: w.sum(), (0, None), None)(array(1, 2, 3), w))(w), array(1, 1))
    with pytest.raises(AxesError, match=r"out_axes is None for result\['a'\] of shape \(\), which differs") as caught:
        fx.vmap(lambda x: {"a": x, "b": 1.0}, out_axes=None)(array(1, 2))
    assert "test_vmap.py" in str(caught.value)
