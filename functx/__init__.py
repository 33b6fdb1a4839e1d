"""functx: write NumPy, in-place updates and views included, and get grad, vmap and jit."""

import functx.backends
import functx.ops
import functx.pretty
import functx.scipy.special
import functx.transforms.eager  # noqa: F401 - the imports before: they register what graphs are made of, how they print and run
from functx import config, debug, errors, interop, lax, nn, numpy, random, scipy, testing
from functx import trees as tree
from functx.backends import clear_cache
from functx.callbacks import io_callback, pure_callback
from functx.collectives import axis_index, axis_size, pmax, pmean, pmin, psum
from functx.config import debug_infs, debug_nans, disable_jit
from functx.explain import explain
from functx.ir import Graph
from functx.lax import stop_gradient
from functx.numpy.bound import check
from functx.rebinding import rebind_numpy
from functx.shapes import Dim
from functx.transforms import policies as checkpoint_policies
from functx.transforms.associative import associative_scan
from functx.transforms.control_flow import cond, fori_loop, map, scan, switch, while_loop
from functx.transforms.custom_rules import custom_jvp, custom_vjp
from functx.transforms.functionalize import functionalize
from functx.transforms.gradients import grad, joint_graph, value_and_grad
from functx.transforms.inspection import ShapeDtypeStruct, eval_shape, make_ir
from functx.transforms.jacobians import hessian, hvp, jacfwd, jacobian, jacrev
from functx.transforms.jit import CacheInfo, jit
from functx.transforms.linearization import linear_transpose, linearize
from functx.transforms.misses import explain_misses
from functx.transforms.pullbacks import jvp, vjp
from functx.transforms.remat import checkpoint, checkpoint_name
from functx.transforms.saved_residuals import print_saved_residuals, saved_residuals
from functx.transforms.vectorize import vmap

# Loops, choices and callbacks under the names of JAX, too: they need transforms, which functx.lax is below.
for _above in (associative_scan, cond, fori_loop, map, pure_callback, scan, switch, while_loop):
    setattr(lax, _above.__name__, _above)

__version__ = "0.1.0"

__all__ = [
    "CacheInfo", "Dim", "Graph", "ShapeDtypeStruct", "associative_scan", "axis_index", "axis_size", "check", "checkpoint",
    "checkpoint_name", "checkpoint_policies", "clear_cache", "cond", "config", "custom_jvp", "custom_vjp", "debug",
    "debug_infs", "debug_nans", "disable_jit", "errors", "eval_shape", "explain", "explain_misses", "fori_loop",
    "functionalize", "grad", "hessian", "hvp", "interop", "io_callback", "jacfwd", "jacobian", "jacrev", "jit", "joint_graph",
    "jvp", "lax", "linear_transpose", "linearize", "make_ir", "nn", "numpy", "pmax", "pmean", "pmin", "print_saved_residuals",
    "psum", "pure_callback", "random", "rebind_numpy", "saved_residuals", "scan", "scipy", "stop_gradient", "switch", "testing",
    "tree", "value_and_grad", "vjp", "vmap", "while_loop",
]  # fmt: skip
