"""functx: write NumPy, in-place updates and views included, and get grad, vmap and jit."""

import functx.backends
import functx.ops
import functx.pretty  # noqa: F401 - it gives graphs their text
from functx import config, errors, lax, nn, numpy
from functx import trees as tree
from functx.ir import Graph
from functx.lax import stop_gradient
from functx.shapes import Dim
from functx.transforms.custom_rules import custom_jvp, custom_vjp
from functx.transforms.gradients import grad, joint_graph, value_and_grad
from functx.transforms.inspection import ShapeDtypeStruct, eval_shape, make_ir
from functx.transforms.jit import CacheInfo, jit
from functx.transforms.pullbacks import jvp, vjp
from functx.transforms.remat import checkpoint
from functx.transforms.vectorize import vmap

__version__ = "0.1.0"

__all__ = [
    "CacheInfo", "Dim", "Graph", "ShapeDtypeStruct", "checkpoint", "config", "custom_jvp", "custom_vjp", "errors", "eval_shape", "grad",
    "jit", "joint_graph", "jvp", "lax", "make_ir", "nn", "numpy", "stop_gradient", "tree", "value_and_grad", "vjp", "vmap",
]  # fmt: skip
