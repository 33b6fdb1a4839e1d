"""Split a joint graph into a forward graph that returns residuals and a backward graph that takes them."""

from __future__ import annotations

from collections.abc import Container

from functx.ir import Graph, Input, InRole, Mark, Output, OutRole, Var


def split_joint(joint: Graph, forward_inputs: int, forward_outputs: int, backward: Mark | None = None) -> tuple[Graph, Graph]:
    """Everything that does not depend on the inputs after the first ``forward_inputs`` goes forward, except effects marked ``backward``.

    Returns:
      ``forward``: the first inputs to the first ``forward_outputs`` outputs, then residuals: what the backward graph reads of forward
      values.
      ``backward``: residuals and the remaining inputs to the remaining outputs.
    """
    late: set[Var] = set(joint.in_vars[forward_inputs:])
    behind = set()
    for i, eqn in enumerate(joint.eqns):
        if any(a in late for a in eqn.inputs) or (backward is not None and eqn.mark == backward and eqn.effect):
            late.update(eqn.outputs)
            behind.add(i)
    return split_at(joint, behind, forward_inputs, forward_outputs)


def split_at(joint: Graph, behind: Container[int], forward_inputs: int, forward_outputs: int) -> tuple[Graph, Graph]:
    """Two graphs, the equations numbered in ``behind`` in the second. Residuals are what it reads of the first, or hands on."""
    eqns = [e for i, e in enumerate(joint.eqns) if i not in behind], [e for i, e in enumerate(joint.eqns) if i in behind]
    inside = {*joint.in_vars[forward_inputs:], *(v for e in eqns[1] for v in e.outputs), *(v for v, _ in joint.consts)}
    gradients = joint.outputs[forward_outputs:]
    read = dict.fromkeys(a for e in eqns[1] for a in e.inputs) | dict.fromkeys(slot.atom for slot in gradients)
    residuals = [a for a in read if isinstance(a, Var) and a not in inside]
    handed = (Output(v, OutRole.RESIDUAL) for v in residuals)
    taken = (Input(v, InRole.RESIDUAL) for v in residuals)
    forward = Graph(joint.inputs[:forward_inputs], joint.consts, tuple(eqns[0]), (*joint.outputs[:forward_outputs], *handed))
    return forward, Graph((*taken, *joint.inputs[forward_inputs:]), joint.consts, tuple(eqns[1]), tuple(gradients))
