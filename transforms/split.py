"""Split a joint graph into a forward graph that returns residuals and a backward graph that takes them."""

from __future__ import annotations

from functx.ir import Graph, Input, InRole, Output, OutRole, Var


def split_joint(joint: Graph, forward_inputs: int, forward_outputs: int) -> tuple[Graph, Graph]:
    """Everything that does not depend on the inputs after the first ``forward_inputs`` goes forward.

    Returns:
      ``forward``: the first inputs to the first ``forward_outputs`` outputs, then residuals: what the backward graph reads of forward
      values.
      ``backward``: residuals and the remaining inputs to the remaining outputs.
    """
    late: set[Var] = set(joint.in_vars[forward_inputs:])
    early_eqns, late_eqns = [], []
    for eqn in joint.eqns:
        if any(a in late for a in eqn.inputs):
            late.update(eqn.outputs)
            late_eqns.append(eqn)
        else:
            early_eqns.append(eqn)
    gradients = joint.outputs[forward_outputs:]
    consts = {var for var, _ in joint.consts}
    read = dict.fromkeys(a for e in late_eqns for a in e.inputs) | dict.fromkeys(s.atom for s in gradients)
    residuals = [a for a in read if isinstance(a, Var) and a not in late and a not in consts]
    forward = Graph(
        joint.inputs[:forward_inputs],
        joint.consts,
        tuple(early_eqns),
        (*joint.outputs[:forward_outputs], *(Output(v, OutRole.RESIDUAL) for v in residuals)),
    )
    backward = Graph(
        (*(Input(v, InRole.RESIDUAL) for v in residuals), *joint.inputs[forward_inputs:]), joint.consts, tuple(late_eqns), tuple(gradients)
    )
    return forward, backward
