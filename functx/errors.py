"""One class per cause. A message has four parts: what happened, where, why, and what to write instead.

The classes also derive from the builtin a NumPy user would catch (TypeError, IndexError, ...). This module knows nothing of
tracing; who raises passes the source line in.
"""

from __future__ import annotations


class FunctxError(Exception):
    """Base of all errors that functx raises on purpose."""

    def __init__(self, what: str, *, where: object = None, why: str = "", fix: str = ""):
        self.what, self.where, self.why, self.fix = what, where, why, fix
        lines = [what]
        if where:
            lines.append(f"  at:  {where}")
        if why:
            lines.append(f"  why: {why}")
        if fix:
            lines.append(f"  fix: {fix}")
        super().__init__("\n".join(lines))


class ConcretizationError(FunctxError, TypeError):
    """Python asked for the value of something that is unknown while tracing."""


class DroppedGradientError(FunctxError, TypeError):
    """A conversion to a plain number would lose the derivative of a differentiated value."""


class LeakedTracerError(FunctxError, RuntimeError):
    """A tracer was used after the function it belongs to had finished."""


class TracerWriteError(FunctxError, TypeError):
    """A traced value was written into a plain ndarray."""


class UnsupportedError(FunctxError, TypeError):
    """A NumPy function, argument or dtype that functx does not trace."""


class MissingRuleError(FunctxError, NotImplementedError):
    """A primitive lacks the rule that a transform needs."""


class NonScalarLossError(FunctxError, TypeError):
    """grad was asked for a function whose result is not a real scalar."""


class IntegerGradientError(FunctxError, TypeError):
    """A gradient was asked with respect to integers or booleans."""


class AxesError(FunctxError, ValueError):
    """in_axes or out_axes do not fit the arguments or results."""


class UnboundAxisError(FunctxError, NameError):
    """A collective names an axis that no enclosing vmap binds."""


class ComplexDerivativeError(FunctxError, TypeError):
    """A Jacobian of complex values was asked for in a form that does not exist."""


class UnknownOptionError(FunctxError, TypeError):
    """A transform was given a keyword that it does not have."""


class ShapeError(FunctxError, ValueError):
    """Shapes that do not fit together."""


class DynamicShapeError(FunctxError, ValueError):
    """A size is not what was declared for it (dynamic_shapes, functx.check)."""


class StaticArgumentError(FunctxError, TypeError):
    """An argument is neither an array, a number nor a static value, or a static value cannot be hashed."""


class StructureError(FunctxError, TypeError):
    """Containers that should have the same structure differ."""


class CustomRuleError(FunctxError, TypeError):
    """A custom derivative rule is missing or returns something that does not fit."""


class NonLinearError(FunctxError, TypeError):
    """A function that must be linear to be transposed is not."""


class OverlapError(FunctxError, ValueError):
    """Arguments that share memory are written in a way that functx refuses."""


class IndexOutOfBoundsError(FunctxError, IndexError):
    """An index is out of range, found while tracing or by the checked compiled code."""


class IntegerOverflowError(FunctxError, OverflowError):
    """A Python integer does not fit the dtype it meets."""


class NonFiniteError(FunctxError, FloatingPointError):
    """A NaN or infinity was born while functx watched for them (functx.debug_nans, functx.debug_infs)."""


class GradientError(FunctxError, AssertionError):
    """A derivative differs from finite differences (functx.testing.check_grads)."""


class GraphError(FunctxError, AssertionError):
    """A graph is malformed: a bug in functx or in a third-party primitive or pass."""


class CallbackError(FunctxError, TypeError):
    """A callback returned something else than was declared."""


class MissingDependencyError(FunctxError, ImportError):
    """A package that functx does not depend on is needed after all, and not installed."""


class CompilerError(FunctxError, RuntimeError):
    """The C++ compiler is missing, failed or timed out. The source is kept and its path shown."""


class CompilerMissingError(CompilerError):
    """No C++ compiler was found."""


class BackendError(FunctxError, RuntimeError):
    """An unknown backend, or one that cannot run here."""


class DeviceError(FunctxError, ValueError):
    """Arguments lie in the memory of different devices, or of one for which the backend has no code."""


class DeviceMemoryError(FunctxError, MemoryError):
    """A GPU has no memory left for what a compiled function needs."""


class FunctxWarning(UserWarning):
    """Base of functx's warnings."""


class PerformanceWarning(FunctxWarning):
    """Something works, but slower than it looks."""


class DrawWarning(FunctxWarning):
    """Random numbers of NumPy's were drawn while tracing."""


def functx_cause(error: BaseException) -> FunctxError | None:
    """The functx error that NumPy wrapped (it turns what ``__float__`` raises into a ValueError), if any."""
    seen = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, FunctxError):
            return cause
        seen.add(id(cause))
        cause = cause.__cause__
    return None
