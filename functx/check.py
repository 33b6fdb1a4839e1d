"""The type checker: every graph that a pass returns must be well-formed. It looks at structure and types, never at values."""

from __future__ import annotations

from functx.errors import GraphError
from functx.ir import Atom, Graph, Literal, OutRole, Var


def check_graph(graph: Graph) -> None:
    """Raise GraphError unless every variable is bound once before its use and every equation has the types that its primitive says."""
    bound: set[Var] = set()

    def bind(var: Var, what: str) -> None:
        if var in bound:
            raise GraphError(f"{what} binds a variable of type {var.aval} that is bound already")
        bound.add(var)

    def use(atom: Atom, what: str) -> None:
        if not isinstance(atom, Literal) and atom not in bound:
            raise GraphError(f"{what} uses a variable of type {atom.aval} that is not bound")

    for slot in graph.inputs:
        bind(slot.var, "an input")
    for var, array in graph.consts:
        bind(var, "a constant")
        if var.aval.shape != array.shape or var.aval.dtype != array.dtype:
            raise GraphError(f"a constant of type {var.aval} holds an array of shape {array.shape} and dtype {array.dtype}")
    for i, eqn in enumerate(graph.eqns):
        what = f"equation {i} ({eqn.primitive.name})"
        for atom in eqn.inputs:
            use(atom, what)
        expected = eqn.primitive.out_avals([a.aval for a in eqn.inputs], eqn.params)
        if len(expected) != len(eqn.outputs) or not all(v.aval.same_array(t) for v, t in zip(eqn.outputs, expected, strict=True)):
            raise GraphError(f"{what} has results {[str(v.aval) for v in eqn.outputs]}, its type rule gives {[str(t) for t in expected]}")
        for var in eqn.outputs:
            bind(var, what)
        for value in eqn.params.values():
            if isinstance(value, Graph):
                check_graph(value)
    for slot in graph.outputs:
        use(slot.atom, "an output")
        if slot.role is OutRole.WRITE and not slot.atom.aval.same_array(graph.inputs[slot.target].var.aval):
            raise GraphError(f"output for input {slot.target} has type {slot.atom.aval}, the input {graph.inputs[slot.target].var.aval}")
