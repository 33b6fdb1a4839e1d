"""The C++ tool chain: which compiler, which flags, which libraries, and one compilation.

Knows nothing of graphs. A failed compilation leaves its source where the error says.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import os
import platform
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from functx.config import Config
from functx.errors import CompilerError, CompilerMissingError
from functx.runtime import include_dir

FLAGS = [
    *("-std=c++17", "-march=native", "-fopenmp", "-fPIC", "-shared", "-fvisibility=hidden"),
    # IEEE arithmetic as written, but nobody reads errno or the exception flags; integers wrap.
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing"),
]
# -O3 of GCC takes two to three times as long for the same speed: what it adds to -O2 and the vectorizer is unrolling.
OPTIMIZE = {"gcc": ["-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic"], "clang": ["-O3", "-Wno-unknown-pragmas"]}
VECTOR_MATH = {
    name + suffix: operands
    for operands, names in {
        1: "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh cbrt",
        2: "pow atan2 hypot",
    }.items()
    for name in names.split()
    for suffix in ("f", "")
}  # by the number of their operands

_counter = itertools.count()


@dataclass(frozen=True)
class Toolchain:
    """A compiler, what it says of itself, its flags, and the functions of which its math library has vector versions."""

    compiler: str
    version: str
    flags: tuple[str, ...]
    vector_math: frozenset[str]

    @property
    def identity(self) -> str:
        """What distinguishes its output from that of another, for cache keys."""
        return f"{self.compiler} {' '.join(self.flags)} {sorted(self.vector_math)} {self.version}"


def find_toolchain(options: Config) -> Toolchain:
    """The compiler that options.cxx, $CXX or the path names."""
    return _toolchain(options.cxx, os.environ.get("CXX", ""))


@functools.lru_cache
def _toolchain(configured: str, environment: str) -> Toolchain:
    for name in [configured] if configured else filter(None, (environment, "c++", "g++", "clang++")):
        if path := shutil.which(name):
            kind = "clang" if "clang" in os.path.basename(os.path.realpath(path)) else "gcc"
            _, version = _run([path, "--version"], timeout=10)
            return Toolchain(path, version, (*FLAGS, *OPTIMIZE[kind]), _vector_math(path) if kind == "gcc" else frozenset())
    wanted = configured or "c++, g++ or clang++"
    raise CompilerMissingError(
        f"no C++ compiler: {wanted} not found",
        why="backend='cpp' compiles generated code",
        fix="install one, name it in FUNCTX_CXX or CXX, or use backend='reference'",
    )


def _vector_math(compiler: str) -> frozenset[str]:
    """The functions that libmvec has; none where the library, its link name or GCC's attribute for it is missing."""
    if platform.machine() != "x86_64":
        return frozenset()
    where = subprocess.run([compiler, "-print-file-name=libmvec.so"], capture_output=True, text=True, check=False).stdout.strip()
    try:
        library = ctypes.CDLL("libmvec.so.1")
    except OSError:
        return frozenset()
    if not os.path.isabs(where):
        return frozenset()
    symbols = {name: f"_ZGVbN{4 if name.endswith('f') else 2}{'v' * operands}_{name}" for name, operands in VECTOR_MATH.items()}
    return frozenset(name for name, symbol in symbols.items() if hasattr(library, symbol))


@functools.cache
def blas_flags() -> tuple[str, ...]:
    """Flags that link OpenBLAS from its wheel."""
    import scipy_openblas32

    folder = scipy_openblas32.get_lib_dir()
    return f"-L{folder}", f"-l{scipy_openblas32.get_library()}", f"-Wl,-rpath,{folder}"


@functools.cache
def _scratch() -> Path:
    """A private folder, removed at exit by the process that made it."""
    folder, owner = tempfile.mkdtemp(prefix="functx-"), os.getpid()
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    return Path(folder)


def compile_library(toolchain: Toolchain, source: str, name: str, options: Config, *, blas: bool) -> Path:
    """A shared library with the given source; ``name`` names its files.

    Raises:
      CompilerError: the compiler fails or takes longer than options.compile_timeout seconds.
    """
    stem = _scratch() / f"{name[:16]}-{os.getpid()}-{next(_counter)}"
    path, library = stem.with_suffix(".cpp"), stem.with_suffix(".so")
    path.write_text(source, encoding="utf-8")
    if options.dump:
        Path(options.dump).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, Path(options.dump) / path.name)
    libraries = [*(blas_flags() if blas else ()), *(["-lmvec"] if toolchain.vector_math else []), "-lm"]
    command = [toolchain.compiler, *toolchain.flags, f"-I{include_dir()}", str(path), "-o", str(library), *libraries]
    status, output = _run(command, options.compile_timeout)
    if status != 0:
        raise _failure(command, path, status, output, options.compile_timeout)
    path.unlink()
    return library


def _run(command: list[str], timeout: float) -> tuple[int | None, str]:
    """Exit status (None: timed out) and output. The compiler gets a process group of its own, which a time-out kills as a whole."""
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    except OSError as error:
        return -1, str(error)
    try:
        output, _ = process.communicate(timeout=timeout)
        return process.returncode, output
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return None, output
        raise


def _failure(command: list[str], source: Path, status: int | None, output: str, timeout: float) -> CompilerError:
    keep = Path(tempfile.mkdtemp(prefix="functx-failed-")) / source.name
    shutil.move(source, keep)
    shown = " ".join(command).replace(str(source), str(keep))
    what = f"the C++ compiler took longer than {timeout:g} s" if status is None else f"the C++ compiler failed with status {status}"
    lines = [line.replace(str(source), keep.name) for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line] or lines
    first = "\n       ".join(errors[:4])
    return CompilerError(
        f"{what}\n  source: {keep}\n  command: {shown}" + (f"\n  output: {first}" if first else ""),
        fix=f"use backend='reference', and {'raise FUNCTX_COMPILE_TIMEOUT' if status is None else 'report the source'}",
    )
