"""Graph -> executable. Importing this package registers the backends; each is loaded when it is first asked for."""

import importlib.util
import time

from functx import config
from functx.backend import Backend, get_backend, register_backend
from functx.errors import MissingDependencyError

IMPORTED = time.time()  # sources edited later are not what runs: functx imports this package first


def _cpp() -> Backend:
    from functx.backends.cpp.backend import CppBackend

    return CppBackend()


def _reference() -> Backend:
    from functx.backends.reference import ReferenceBackend

    return ReferenceBackend()


def _triton() -> Backend:
    for module in ("torch", "triton"):
        if importlib.util.find_spec(module) is None:
            raise MissingDependencyError(f"the triton backend needs {module}, which is not installed", fix=f"pip install {module}")
    from functx.backends.triton.backend import TritonBackend

    return TritonBackend()


def clear_cache() -> None:
    """Remove all compiled code from the disk cache and from the memory of this process; what jitted functions hold stays with them.

    >>> clear_cache()
    """
    from functx.backends.cpp.disk_cache import open_cache

    get_backend("cpp").clear()  # type: ignore[attr-defined]
    if cache := open_cache(config.current()):
        cache.clear()


register_backend("cpp", _cpp)
register_backend("reference", _reference)
register_backend("triton", _triton)
