"""The text of errors: what happened, where, why, and what to write instead, in at most 15 lines."""

import dataclasses
import inspect
import traceback

import numpy as np
import pytest

import functx as fx
from functx import errors
from functx.ops.families import elementwise
from functx.primitive import PRIMITIVES, Primitive
from functx.trace import current_trace


def jit(f, **options):
    return fx.jit(f, backend="reference", **options)


def caught(error, run):
    """The text of the error, whose form is checked."""
    with pytest.raises(error) as info:
        run()
    text = str(info.value)
    assert len(text.splitlines()) <= 15, text
    assert isinstance(info.value, errors.FunctxError) and info.value.what and text.startswith(info.value.what)
    assert info.value.__suppress_context__ or info.value.__context__ is None or isinstance(info.value, errors.LeakedTracerError), text
    return text


def has(text, *parts):
    for part in parts:
        assert part in text, f"{part!r} is missing in:\n{text}"


HERE = "test_errors.py"
pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass")


class Unregistered:
    def __init__(self):
        self.w = 2.0

    @fx.jit
    def method(self, x):
        return self.w * x


def test_every_error_class_is_a_functx_error_and_a_builtin_one():
    classes = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, errors.FunctxError) and c is not errors.FunctxError]
    for c in classes:
        builtins = [b for b in c.__mro__ if b.__module__ == "builtins" and b not in (Exception, BaseException, object)]
        assert builtins, c
        assert c.__doc__


def test_the_four_parts_have_one_form():
    text = str(errors.UnsupportedError("what", where="here", why="because", fix="do"))
    assert text == "what\n  at:  here\n  why: because\n  fix: do"
    assert str(errors.UnsupportedError("what")) == "what"


# --- grad ---------------------------------------------------------------------------------------------------------------------------------


def test_a_loss_that_is_no_scalar():
    text = caught(errors.NonScalarLossError, lambda: fx.grad(lambda x: x * 2)(np.ones(2)))
    has(text, "grad of", "(2,)", "jacrev", ".sum()", HERE)
    has(caught(errors.NonScalarLossError, lambda: fx.grad(lambda x: (x, x))(1.0)), "container", "has_aux=True", HERE)
    has(caught(errors.NonScalarLossError, lambda: fx.grad(lambda x: None)(1.0)), "container", HERE)
    has(caught(errors.NonScalarLossError, lambda: fx.grad(lambda x: x > 1)(1.0)), "bool", HERE)
    has(caught(errors.NonScalarLossError, lambda: fx.grad(lambda x: x[None])(np.float64(1))), "(1,)")
    for constant, part in (("text", "str"), (np.float64, "type"), (3, "int64"), (np.ones(2), "(2,)")):
        has(caught(errors.NonScalarLossError, lambda constant=constant: fx.grad(lambda x: constant)(1.0)), part, "one real scalar")
    assert fx.grad(lambda x: 3.0)(1.0) == 0.0
    has(caught(errors.StructureError, lambda: fx.grad(lambda x: x, has_aux=True)(1.0)), "has_aux", "return value, aux", HERE)


def test_arguments_without_derivative():
    def loss(weights, steps):
        return 1.0

    text = caught(errors.IntegerGradientError, lambda: fx.grad(loss, 1)(np.ones(2), np.array([1, 2])))
    has(text, "argument 1 ('steps')", "int64", ".astype(float)", "argnums", HERE)
    has(caught(errors.IntegerGradientError, lambda: fx.grad(loss)(np.array([True]), 1)), "bool")
    has(caught(errors.IntegerGradientError, lambda: fx.grad(loss)("abc", 1)), "str")
    for argnums in (2, -3):
        with pytest.raises(TypeError, match=f"argument {argnums}.*2 positional"):
            fx.grad(loss, argnums)(1.0, 2.0)


# --- structures ---------------------------------------------------------------------------------------------------------------------------


def test_cotangents_and_tangents_that_do_not_fit():
    x = np.ones(2)
    _, pull = fx.vjp(lambda x: {"a": x, "b": x.sum()}, x)
    text = caught(errors.StructureError, lambda: pull((x, 1.0)))
    has(text, "cotangent", "'a'", HERE)
    has(caught(errors.StructureError, lambda: pull({"a": np.ones(3), "b": 1.0})), "f64[3]", "f64[2]", "(2,)")
    has(caught(errors.StructureError, lambda: pull({"a": np.ones(2, np.float32), "b": 1.0})), "f32[2]", "float64")
    has(caught(errors.StructureError, lambda: fx.jvp(lambda d: d["a"], ({"a": x},), ({"b": x},))), "tangent", "'b'")
    has(caught(errors.StructureError, lambda: fx.jvp(np.sin, (x,), (np.ones(3),))), "f64[3]")
    has(caught(errors.StructureError, lambda: fx.jvp(np.sin, x, x)), "tuple", "jvp(f, (x,), (dx,))")
    has(caught(errors.StructureError, lambda: fx.vjp(lambda x: x, x, has_aux=True)), "pair", "return out, aux")


# --- vmap ---------------------------------------------------------------------------------------------------------------------------------


def test_axes_that_do_not_fit_show_leaf_shape_axis_and_the_corrected_call():
    def f(x, params):
        return x * params["w"][0]

    params = {"w": [np.ones(3)]}
    text = caught(errors.AxesError, lambda: fx.vmap(f)(np.ones(4), params))
    has(text, "'x' of shape (4,), axis 0: 4", "'params['w'][0]' of shape (3,), axis 0: 3", "in_axes=(0, None)", HERE)
    text = caught(errors.AxesError, lambda: fx.vmap(f, in_axes=(0, 1))(np.ones(4), params))
    has(text, "'params['w'][0]'", "(3,)", "axis 1", "in_axes=(0, None)")
    text = caught(errors.AxesError, lambda: fx.vmap(lambda d: 0, in_axes=({"a": 0, "b": 2},))({"a": np.ones(3), "b": np.ones((3, 2))}))
    has(text, "'d['b']'", "(3, 2)", "axis 2", "in_axes=({'a': 0, 'b': None},)")
    has(caught(errors.AxesError, lambda: fx.vmap(lambda a, b: a, in_axes=(0,))(np.ones(2), 1.0)), "1 entries for 2", "in_axes=(0, None)")
    has(caught(errors.AxesError, lambda: fx.vmap(lambda a: a, in_axes=None)(np.ones(2))), "no argument is mapped")
    has(caught(errors.AxesError, lambda: fx.vmap(lambda a: a)(2.0)), "'a'", "()", "axis 0", "in_axes=(None,)")
    has(caught(errors.AxesError, lambda: fx.vmap(lambda a: a, in_axes={"b": 0})(np.ones(2))), "parameter names", "in_axes=({'b': 0},)")
    has(caught(errors.AxesError, lambda: fx.vmap(lambda a: a, in_axes=((0, 0),))((np.ones(2),))), "does not fit the structure")
    has(caught(errors.AxesError, lambda: fx.vmap(lambda a: a, in_axes=1.5)(np.ones(2))), "neither an int nor None")
    has(caught(errors.AxesError, lambda: fx.vmap(lambda a: a, in_axes=True)(np.ones(2))), "neither an int nor None")
    has(caught(errors.AxesError, lambda: fx.vmap(lambda a, *, k: a)(np.ones(2), k=np.ones(3))), "'k'", "dict by parameter name")
    for out_axes in (2, -3, None):
        text = caught(errors.AxesError, lambda o=out_axes: fx.vmap(lambda a: a * 2, out_axes=o)(np.ones((2, 3))))
        has(text, "out_axes", str(out_axes), "(3,)", HERE)
    has(caught(errors.AxesError, lambda: fx.vmap(lambda a: a, out_axes=(0, 0))(np.ones(2))), "out_axes")


# --- shapes and indices -------------------------------------------------------------------------------------------------------------------


def test_operands_that_do_not_broadcast_are_named_with_their_lines():
    def f(x, weights):
        doubled = x * 2.0  # the left operand
        return doubled + weights

    for run in (lambda: jit(f)(np.ones(3), np.ones(2)), lambda: fx.grad(lambda x: f(x, np.ones(2)).sum())(np.ones(3))):
        with pytest.raises(ValueError) as info:
            run()
        has(str(info.value), "(3,)", "(2,)", "doubled = x * 2.0", "return doubled + weights", HERE)
    with pytest.raises(ValueError, match="weights"):
        jit(f)(np.ones(3), np.ones(2))
    with pytest.raises(ValueError) as info:
        jit(lambda a, b: a @ b)(np.ones((2, 3)), np.ones((2, 3)))
    has(str(info.value), "matmul", "'a'", "'b'")
    with pytest.raises(ValueError, match="could not broadcast"):
        jit(lambda x: x.__setitem__(slice(None), np.ones(4)))(np.ones(3))


def test_an_index_out_of_range_names_axis_size_and_line():
    x = np.ones((2, 3))
    for run in (
        lambda: jit(lambda x: x[0, 5])(x),  # known while tracing
        lambda: jit(lambda x: x[:, [1, 5]])(x),
        lambda: jit(lambda x, i: x[0, i])(x, 5),  # found when it runs
        lambda: fx.grad(lambda x, i: x[0, i])(x, 5),
    ):
        text = caught(errors.IndexOutOfBoundsError, run)
        has(text, "index 5 is out of bounds for axis 1 with size 3", HERE)
    with pytest.raises(IndexError, match="too many indices"):
        jit(lambda x: x[0, 0, 0])(x)
    with pytest.raises(IndexError, match="valid indices"):
        jit(lambda x: x["a"])(x)
    with pytest.raises(IndexError, match="integer"):
        jit(lambda x: x[1.5])(x)


# --- what is not traced -------------------------------------------------------------------------------------------------------------------

UNSUPPORTED = {
    "function": (lambda x: np.histogram2d(x, x), ["np.histogram2d", "not traced"]),
    "submodule": (lambda x: np.interp(x, x, x), ["np.interp"]),
    "ufunc": (lambda x: np.isnat(x), ["np.isnat", "not traced"]),
    "keyword": (lambda x: np.matmul(x, x, axes=[0, 0, ()]), ["np.matmul", "'axes'"]),
    "attribute": (lambda x: x.ctypes, ["ctypes"]),
    "method": (lambda x: x.tobytes(), ["tobytes"]),
    "pad mode": (lambda x: np.pad(x, 1, "reflect", reflect_type="odd"), ["np.pad", "odd"]),
    "object beside it": (lambda x: np.add(x, Unregistered()), ["Unregistered"]),
    "object array": (lambda x: x + np.array([None, 1, 2], object), ["object"]),
    "matrix": (lambda x: x + np.matrix([1.0, 2, 3]), ["matrix", "np.asarray"]),
    "large integer": (lambda x: x * 2**70, ["int64"]),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
@pytest.mark.parametrize("transform", ["jit", "grad", "vmap"])
def test_what_is_not_traced_is_refused_by_name(name, transform):
    f, parts = UNSUPPORTED[name]
    run = {"jit": lambda: jit(f)(np.ones(3)), "grad": lambda: fx.grad(f)(np.ones(3)), "vmap": lambda: fx.vmap(f)(np.ones((2, 3)))}[
        transform
    ]
    text = caught((errors.UnsupportedError, errors.IntegerOverflowError), run)
    has(text, *parts, HERE)


@pytest.mark.parametrize("argument", [np.array([None]), np.array(["a"]), np.ones(2, ">f8"), np.ma.ones(2),
                                      np.array(["2020"], "M8[Y]"), np.ones(2, [("a", float)]), 2**70, -(2**63) - 1])  # fmt: skip
@pytest.mark.parametrize("transform", ["jit", "grad", "vmap"])
def test_arguments_that_cannot_be_traced(argument, transform):
    run = {"jit": jit, "grad": lambda f: fx.grad(f, 1), "vmap": lambda f: fx.vmap(f, in_axes=(None, 0))}[transform]
    text = caught((errors.UnsupportedError, errors.IntegerOverflowError), lambda: run(lambda a, b: b * 2)(argument, np.ones(1)))
    has(text, HERE)


def test_unregistered_objects_say_how_to_register_them():
    for run in (
        lambda: jit(lambda o, x: o.w * x)(Unregistered(), 1.0),
        lambda: Unregistered().method(1.0),
        lambda: fx.grad(lambda x, o: x)(1.0, Unregistered()),
        lambda: fx.vmap(lambda x, o: x, in_axes=(0, None))(np.ones(2), Unregistered()),
    ):
        has(caught(errors.StaticArgumentError, run), "Unregistered", "functx.tree.dataclass", "static_argnums", HERE)


def test_results_that_cannot_be_looked_into():
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        x: object

    def numbers(x):
        yield x

    made = {
        "Unregistered": lambda x: Unregistered(),
        "generator": numbers,
        "Frozen": lambda x: Frozen(x),
        "map": lambda x: map(np.sin, x),
    }
    for kind, f in made.items():
        for transform in (jit, fx.grad, fx.vmap, fx.make_ir, fx.checkpoint):
            run = transform(f) if transform is not fx.checkpoint else jit(lambda x, f=f: fx.checkpoint(f)(x))
            has(caught(errors.StructureError, lambda run=run: run(np.ones((2, 2)))), f"returns an object of type {kind}", HERE)


def test_containers_that_are_changed_are_named():
    def renewed(p):
        p["b"] = p["b"] + 1
        return p["b"].sum()

    def added(p):
        p["new"] = p["b"]
        return p["b"].sum()

    def removed(p):
        return p.pop("b").sum()

    def appended(p):
        p["list"].append(p["b"])
        return p["b"].sum()

    def counted(p):
        p["n"] += 1
        return p["b"].sum()

    def inner(p):
        return jit(renewed)(p)

    places = {renewed: "['b']", added: "['new']", removed: "['b']", appended: "['list'][1]", counted: "['n']", inner: "['b']"}
    for f, place in places.items():
        for transform in (jit, fx.grad, fx.make_ir):
            p = {"b": np.ones(2), "list": [1.0], "n": 1}
            text = caught(errors.StructureError, lambda f=f, transform=transform, p=p: transform(f)(p))
            has(text, f"args[0]{place}", "return the new container", HERE)
        has(caught(errors.StructureError, lambda f=f, p=p: jit(lambda **kw: f(kw["p"]))(p=p)), place)

    def in_place(p):
        p["b"] += 1
        p["list"][0] = p["list"][0]
        return p["b"].sum()

    p = {"b": np.ones(2), "list": [1.0], "n": 1}
    assert jit(in_place)(p) == 4.0 and p["b"][0] == 2.0


def test_static_arguments():
    text = caught(errors.StaticArgumentError, lambda: jit(lambda x, o: x, static_argnums=1)(1.0, [1]))
    has(text, "list", "tuple", HERE)
    text = caught(errors.StaticArgumentError, lambda: jit(lambda x: jit(lambda y, n: y, static_argnums=1)(x, x))(np.ones(2)))
    has(text, "traced value", "static_argnums", HERE)


def test_values_that_are_unknown_say_what_they_depend_on_and_both_fixes():
    def f(x, y):
        if (x * 2).sum() > 0:
            return y
        return -y

    text = caught(errors.ConcretizationError, lambda: jit(f)(np.ones(2), 1.0))
    has(text, "argument 'x'", "np.where", "functx.cond", "if (x * 2).sum() > 0:", "jit of")
    text = caught(errors.ConcretizationError, lambda: jit(lambda x: 1 if x[x > 0].shape[0] else 2)(np.ones(2)))
    has(text, "depends on the values of arrays", "np.where", "functx.check", HERE)
    text = caught(errors.ConcretizationError, lambda: jit(lambda x: sum(range(x)))(np.int64(3)))
    has(text, "argument 'x'")


# --- rules --------------------------------------------------------------------------------------------------------------------------------


def remove(name):
    PRIMITIVES.pop(name, None)


def test_a_missing_rule_names_primitive_rule_and_file():
    def emit(primitive, x):
        trace = current_trace()
        h = trace.lift(x)
        return trace.tracer(trace.emit.bind(primitive, (h.atom,), {})[0])

    try:
        bare = Primitive("bare_test_op", np.sin, lambda x: x)
        no_batch = caught(errors.MissingRuleError, lambda: fx.vmap(lambda x: emit(bare, x))(np.ones((2, 2))))
        has(no_batch, "no batch rule", "'bare_test_op'", "batch=...")
        no_jvp = caught(errors.MissingRuleError, lambda: fx.grad(lambda x: emit(bare, x).sum())(np.ones(2)))
        has(no_jvp, "no jvp rule", "'bare_test_op'", "jvp=...")
        has(caught(errors.MissingRuleError, lambda: fx.jvp(lambda x: emit(bare, x), (np.ones(2),), (np.ones(2),))), "no jvp rule")
        assert np.allclose(jit(lambda x: emit(bare, x))(np.ones(2)), np.sin(1.0))
        own = elementwise("own_test_op", lambda x: x * 2, (2,))
        assert fx.grad(lambda x: emit(own, x).sum())(np.ones(2)).tolist() == [2, 2]
        half = Primitive("half_test_op", lambda x: x, lambda x: x, transpose={}, linear=(0,))
        has(caught(errors.MissingRuleError, lambda: fx.grad(lambda x: emit(half, x).sum())(np.ones(2))), "no transpose rule", HERE)
    finally:
        for name in ("bare_test_op", "own_test_op", "half_test_op"):
            remove(name)


def test_unknown_backends_and_options():
    text = caught(errors.BackendError, lambda: fx.jit(lambda x: x, backend="fortran")(1.0))
    has(text, "'fortran'", "cpp", "reference", "register_backend")
    with pytest.raises(TypeError, match="colour"):
        fx.jit(lambda x: x, colour="red")


def test_python_integers_that_do_not_fit():
    small = np.array([1, 2], np.uint8)
    text = caught(errors.IntegerOverflowError, lambda: jit(lambda x, n: x + n)(small, 300))
    has(text, "300", "uint8", HERE)
    with pytest.raises(OverflowError):
        jit(lambda x: x + 300)(small)


def test_the_tracebacks_of_user_errors_are_the_users():
    class Mine(Exception):
        pass

    def f(x):
        raise Mine("inside")

    for run in (lambda: jit(f)(1.0), lambda: fx.grad(f)(1.0), lambda: fx.vmap(f)(np.ones(2)), lambda: fx.checkpoint(f)(1.0)):
        with pytest.raises(Mine, match="inside") as info:
            run()
        assert info.traceback[-1].name == "f"


def test_an_error_that_numpy_wrapped_comes_out_as_itself():
    buf = np.zeros(2)

    def f(x):
        buf[0] = x[0]  # NumPy turns the error of float() into a ValueError
        return x.sum()

    with pytest.raises(errors.DroppedGradientError):
        fx.grad(f)(np.ones(2))
    with pytest.raises(errors.ConcretizationError):
        jit(f)(np.ones(2))

    def handled(x):
        try:
            buf[0] = x[0]
        except (ValueError, TypeError):
            return x.sum() * 2
        return x.sum()

    assert fx.grad(handled)(np.ones(2)).tolist() == [2, 2]


def traceback_files(run):
    try:
        run()
    except Exception as error:
        return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    raise AssertionError("it did not raise")


@pytest.mark.parametrize(
    "transform", [lambda f: fx.jit(f, backend="reference"), fx.grad, fx.vmap, fx.make_ir, lambda f: lambda x: fx.vjp(f, x)]
)
def test_tracebacks_show_the_user_s_frames_only(transform):
    def inner(x):
        return x @ np.ones((5, 2))

    nested = transform(lambda x: fx.jit(inner, backend="reference")(x).sum())
    for f in (transform(inner), nested):
        assert {*traceback_files(lambda: f(np.ones((3, 4))))} == {__file__}  # noqa: B023
    with fx.config.options(full_traceback=True):
        assert {*traceback_files(lambda: transform(inner)(np.ones((3, 4))))} > {__file__}


def test_operands_of_a_bad_product_are_named_through_nested_transforms():
    w = np.ones((5, 2))
    with pytest.raises(ValueError, match=r"argument 'x' is f64\[3,4\]; an array of the surrounding program is f64\[5,2\]"):
        fx.jit(lambda x: fx.grad(lambda x: (x @ w).sum())(x))(np.ones((3, 4)))


def test_structures_are_shown_as_python_writes_them():
    """Containers that do not fit, wherever: no text has the name of a class of another package."""
    x, pair = np.ones(2), lambda v: (v, v)
    refused = {
        "returns {'a': *}": lambda: jit(lambda x: fx.cond(x.sum() > 0, pair, lambda v: {"a": v}, x))(x),
        "returns (*, *)": lambda: fx.cond(True, lambda: x, lambda: (x, x)),
        "structure *, and it is (*, *)": lambda: fx.scan(lambda c, _: ((c, c), None), x, None, length=3),
        "carry of structure * and returns (*, *)": lambda: fx.fori_loop(0, 3, lambda i, c: (c, c), x),
        "takes * of shapes [(1,)] and returns (*, *)": lambda: fx.associative_scan(lambda a, b: (a, b), x),
        "structure *, the results have (*, *)": lambda: fx.vjp(pair, x)[1](x),
        "structure (*, *), the primal *": lambda: fx.jvp(np.sin, (x,), ((x, x),)),
        "a container, (*, *)": lambda: fx.grad(pair)(1.0),
    }
    for part, run in refused.items():
        text = caught(errors.FunctxError, run)
        has(text, part)
        assert "PyTreeSpec" not in text
