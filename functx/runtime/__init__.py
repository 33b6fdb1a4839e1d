"""The native runtime as Python sees it: where the ABI header lies, and the extension module.

Owns nothing else; it must not know graphs, dtypes or how code is generated.
"""

from pathlib import Path

try:
    from functx import _native as native
except ImportError as error:
    raise ImportError(
        f"functx's native module cannot be loaded ({error}). A source tree has to be built first: `pip install -e .` in its root."
    ) from error

__all__ = ["include_dir", "native"]


def include_dir() -> str:
    """The folder of `call.h`, for the compiler's `-I`."""
    return str(Path(__file__).parent)
