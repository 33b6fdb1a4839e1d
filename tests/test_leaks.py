"""Tracers that outlive their trace are refused however they are used, and the message names who holds them."""

import gc
import threading
import weakref

import numpy as np
import pytest

import functx as fx
from functx.errors import LeakedTracerError


def jit(f, **options):
    return fx.jit(f, backend="reference", **options)


def array(*values):
    return np.array(values, float)


# --- leaks --------------------------------------------------------------------------------------------------------------------------------


class Model:
    def __init__(self):
        self.cache = None


class Slotted:
    __slots__ = ("last",)


def leak_into_list(transform):
    kept = []
    transform(lambda x: (kept.append(x * 3), x.sum())[1])
    kept[0] + 1


def leak_into_dict(transform):
    table = {}
    transform(lambda x: (table.update(now=x * 3), x.sum())[1])
    table["now"] + 1


def leak_into_attribute(transform):
    model = Model()
    transform(lambda x: (setattr(model, "cache", x * 3), x.sum())[1])
    model.cache + 1


def leak_into_slot(transform):
    holder = Slotted()
    transform(lambda x: (setattr(holder, "last", x * 3), x.sum())[1])
    holder.last + 1


def leak_into_global(transform):
    transform(lambda x: (globals().__setitem__("leaked_value", x * 3), x.sum())[1])
    try:
        leaked_value + 1  # noqa: F821
    finally:
        del globals()["leaked_value"]


def leak_into_closure(transform):
    held = None

    def f(x):
        nonlocal held
        held = x * 3
        return x.sum()

    transform(f)
    held + 1


def leak_into_variable(transform):
    kept = []
    transform(lambda x: (kept.append(x * 3), x.sum())[1])
    value = kept.pop()
    value + 1


HOLDERS = {
    leak_into_list: "list kept, element 0",
    leak_into_dict: "dict table, key 'now'",
    leak_into_attribute: "attribute cache of Model",
    leak_into_slot: "attribute last of Slotted",
    leak_into_global: "leaked_value of ",
    leak_into_closure: "variable held",
    leak_into_variable: "variable value",
}

TRANSFORMS = {
    "jit": lambda f: jit(f)(np.ones(2)),
    "grad": lambda f: fx.grad(f)(np.ones(2)),
    "vmap": lambda f: fx.vmap(f)(np.ones((3, 2))),
    "jvp": lambda f: fx.jvp(f, (np.ones(2),), (np.ones(2),)),
}

USES = {
    "arithmetic": lambda v: v + 1,
    "a method": lambda v: v.sum(),
    "np.sin": lambda v: np.sin(v),
    "an index": lambda v: v[0],
    "a write": lambda v: v.__setitem__(0, 1.0),
    "op=": lambda v: v.__iadd__(1.0),
    "bool": lambda v: bool(v[0] if v.shape else v),
    "item": lambda v: v.item(),
    "np.asarray": lambda v: np.asarray(v),
    "inside another trace": lambda v: fx.grad(lambda x: (x * v).sum())(np.ones(2)),
    "inside jit": lambda v: jit(lambda x: x + v)(np.ones(2)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("leak", HOLDERS)
def test_a_leaked_tracer_names_its_holder(leak, transform):
    with pytest.raises(LeakedTracerError) as caught:
        leak(TRANSFORMS[transform])
    text = str(caught.value)
    assert HOLDERS[leak] in text
    assert f"{transform} of {leak.__name__}" in text and "test_leaks.py" in text and "x * 3" in text
    assert len(text.splitlines()) <= 15


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("use", USES)
def test_a_leaked_tracer_is_refused_however_it_is_used(use, transform):
    kept = []
    TRANSFORMS[transform](lambda x: (kept.append(x[:] * 1), kept.append(x), x.sum())[2])
    for value in kept:
        with pytest.raises(LeakedTracerError):
            USES[use](value)
    assert "finished" in repr(kept[0]) and kept[0].shape == (2,)


def test_a_leaked_tracer_in_an_enclosing_trace_is_named_too():
    def f(x):
        kept = []
        fx.grad(lambda y: (kept.append(y), (y * x).sum())[1])(x)
        return kept[0] * x

    with pytest.raises(LeakedTracerError, match="grad of"):
        jit(f)(np.ones(2))


def test_the_closure_variable_is_found_among_several():
    def leaking(x):
        a, b = x * 2, x * 3
        return lambda: (a[0], b + 1)

    made = fx.jit(leaking, backend="reference")(np.ones(2))
    with pytest.raises(LeakedTracerError, match="closure variable a of .*leaking"):
        made()


@pytest.mark.parametrize("transform", [fx.grad, fx.vmap, lambda f: fx.jit(f, backend="reference")])
def test_a_traced_value_in_another_thread_is_refused(transform):
    caught = []

    def f(x):
        def work():
            try:
                x * 2
            except LeakedTracerError as error:
                caught.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return (x * 1).sum()

    transform(f)(np.ones((2, 2)))
    assert len(caught) == 1 and "outside" in caught[0] and "argument 'x'" in caught[0] and "another thread" in caught[0]


@pytest.mark.parametrize("transform", [fx.grad, lambda f: fx.vmap(f), lambda f: fx.jit(f, backend="reference"), fx.make_ir])
def test_arrays_are_let_go_of_as_soon_as_a_call_returns(transform):
    """Without waiting for the garbage collector, though traces and tracers refer to each other."""
    gc.collect()
    gc.disable()
    try:
        arrays = [np.ones((4, 3)), np.ones(3)]
        f = transform(lambda x: (np.sin(x) * arrays[1]).sum(axis=-1)[..., None].sum())
        f(arrays[0])
        seen = [weakref.ref(a) for a in arrays]
        arrays.clear()
        assert [ref() is None for ref in seen] == [True, True]
    finally:
        gc.enable()
