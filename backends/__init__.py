"""Graph -> executable. Importing this package registers the backends; each is loaded when it is first asked for."""

from functx.backend import Backend, register_backend


def _cpp() -> Backend:
    from functx.backends.cpp.backend import CppBackend

    return CppBackend()


def _reference() -> Backend:
    from functx.backends.reference import ReferenceBackend

    return ReferenceBackend()


register_backend("cpp", _cpp)
register_backend("reference", _reference)
