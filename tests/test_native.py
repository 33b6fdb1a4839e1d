"""functx._native against small hand-written libraries: the contract of functx/runtime/call.h."""

import itertools
import os
import subprocess
import sys
import textwrap
import threading

import ml_dtypes
import numpy as np
import pytest

from functx.runtime import include_dir, native


def compile_library(path, source, *flags):
    command = [os.environ.get("CXX", "c++"), "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{include_dir()}"]
    subprocess.run([*command, *flags, "-o", path, "-"], input=source, text=True, check=True)
    return path


@pytest.fixture
def build(tmp_path):
    """Compiles the body of `run` and loads it, each under a new name: writing into a mapped file would crash."""
    names = (tmp_path / f"library{i}.so" for i in itertools.count())

    def build(body, before=""):
        source = f'#include "call.h"\n{before}\nint run(FunctxCall* call) {{\n{body}\n}}\n'
        return native.Library(compile_library(next(names), source, "-xc++", "-std=c++17"))

    return build


OK = (0, -1, 0, (0, 0, 0, 0))

# out[i] = 2 * in[i] over one axis of float64; the length comes from the first input.
DOUBLE = """
  int64_t n = *(const int64_t*)call->inputs[0], step = call->strides[1][0];
  const char* in = (const char*)call->inputs[1];
  for (int64_t i = 0; i < n; ++i) ((double*)call->outputs[0])[i] = 2 * *(const double*)(in + i * step);
  return FUNCTX_OK;
"""


def test_the_header_is_plain_c(tmp_path):
    source = '#include "call.h"\nint run(FunctxCall* call) { *(double*)call->outputs[0] = 3; return FUNCTX_OK; }\n'
    library = native.Library(compile_library(tmp_path / "c.so", source, "-xc", "-std=c11", "-pedantic-errors"))
    out = np.zeros(())
    assert library.run([], [out]) == OK
    assert out == 3


def test_strides(build):
    library = build(DOUBLE)
    base = np.arange(12.0).reshape(3, 4)
    read_only = np.arange(3.0)
    read_only.flags.writeable = False
    for x in (base[0], base[:, 1], base[::-1, 2], np.broadcast_to(np.float64(7), (5,)), base[0, :0], base[1:2, 0], read_only):
        out = np.empty(x.shape)
        assert library.run([np.array(x.size), x], [out], 0, None) == OK
        np.testing.assert_array_equal(out, 2 * x)


def test_any_rank_and_dtype(build):
    """The strides of each input are its own, also after 0-d and zero-size ones; the dtype plays no part."""
    library = build("""
      int64_t* out = (int64_t*)call->outputs[0];
      out[0] = call->strides[1][0]; out[1] = call->strides[1][1]; out[2] = call->strides[3][0];
      out[3] = *(const bool*)call->inputs[0]; out[4] = *(const uint16_t*)call->inputs[2];
      return FUNCTX_OK;
    """)
    inputs = [np.array(True), np.zeros((0, 3), np.complex64).T, np.array(1.0, ml_dtypes.bfloat16), np.zeros(4, bool)[::-2]]
    out = np.zeros(5, np.int64)
    assert library.run(inputs, [out]) == OK
    assert out.tolist() == [*inputs[1].strides, -2, 1, 0x3F80]
    flag = np.zeros((), bool)
    assert build("*(bool*)call->outputs[0] = true; return FUNCTX_OK;").run([], [flag]) == OK
    assert flag


def test_arrays_are_refused(build):
    library = build("return FUNCTX_OK;")
    with pytest.raises(TypeError, match=r"inputs\[1\] must be a numpy.ndarray, not float"):
        library.run([np.zeros(2), 1.0], [])
    read_only = np.zeros(2)
    read_only.flags.writeable = False
    for bad in (np.zeros(4)[::2], np.zeros((2, 2)).T, read_only, np.zeros(2, ">f8"), np.zeros(9, np.uint8)[1:].view(np.float64)):
        with pytest.raises(ValueError, match=r"outputs\[0\] must be C-contiguous, aligned, writeable"):
            library.run([], [bad])
    with pytest.raises(ValueError, match="workspace must not be negative"):
        library.run([], [], -1)


def test_workspace_is_aligned_and_writable(build):
    library = build(
        """
      size_t bytes = *(const size_t*)call->inputs[0];
      memset(call->workspace, 255, bytes);
      return call->workspace == nullptr || (uintptr_t)call->workspace % 64;
    """,
        "#include <cstring>",
    )
    for size in (0, 1, 64, 1000, 5, 20 << 20, 0):
        assert library.run([np.array(size)], [], workspace=size) == OK
    with pytest.raises(MemoryError):
        library.run([np.array(0)], [], workspace=2**62)


def test_a_callback_that_calls_does_not_share_the_workspace(build):
    library = build("""
      int64_t depth = *(const int64_t*)call->inputs[0];
      *(volatile int64_t*)call->workspace = depth;
      void* none[] = {nullptr};
      if (depth && call->callback(call->context, 0, none, none)) return FUNCTX_CALLBACK_FAILED;
      return *(volatile int64_t*)call->workspace == depth ? FUNCTX_OK : -1;
    """)
    inner = []
    outer = library.run([np.array(1)], [], 8, lambda eqn, i, o: inner.append(library.run([np.array(0)], [], 8)))
    assert (outer, inner) == (OK, [OK])


def test_memory_for_sizes_known_at_run_time(build):
    library = build(
        """
      for (int i = 0; i < 3; ++i) {
        void* block = call->allocate(call->context, i * 100);
        if (!block || (uintptr_t)block % 64) return 1;
        memset(block, 255, i * 100);
      }
      if (call->allocate(call->context, -1)) return 2;
      int64_t bytes = INT64_MAX / 2;
      if (call->allocate(call->context, bytes)) return 3;
      call->error_eqn = 4; call->error_kind = FUNCTX_OUT_OF_MEMORY; call->error_values[0] = bytes;
      return FUNCTX_OUT_OF_MEMORY;
    """,
        "#include <cstring>",
    )
    assert library.run([], []) == (3, 4, 3, ((2**63 - 1) // 2, 0, 0, 0))


CALL_BACK = """
  if (call->callback(call->context, 5, {inputs}, {outputs})) {{
    call->error_eqn = 5; call->error_kind = FUNCTX_CALLBACK_FAILED;
    return FUNCTX_CALLBACK_FAILED;
  }}
  return FUNCTX_OK;
"""


def test_callback_gets_addresses(build):
    arrays = "void* in[] = {call->inputs[1], call->inputs[0], nullptr}; void* out[] = {call->outputs[0], nullptr};"
    library = build(arrays + CALL_BACK.format(inputs="in", outputs="out"))
    a, b, out = np.ones(2), np.ones(()), np.zeros(0)
    seen = []
    assert library.run([a, b], [out], 0, lambda *arguments: seen.append(arguments)) == OK
    assert seen == [(5, [b.ctypes.data, a.ctypes.data], [out.ctypes.data])]


NOTHING = "void* none[] = {nullptr};"


def test_exception_of_a_callback_comes_out_unchanged(build):
    library = build(NOTHING + CALL_BACK.format(inputs="none", outputs="none"))
    error = ZeroDivisionError("mine")

    def callback(eqn, inputs, outputs):
        raise error

    with pytest.raises(ZeroDivisionError) as caught:
        library.run([], [], 0, callback)
    assert caught.value is error
    assert caught.traceback[-1].name == "callback"
    with pytest.raises(TypeError, match="given no callback"):
        library.run([], [])
    assert library.run([], [], 0, lambda *arguments: None) == OK  # nothing lingers


def test_exception_survives_code_that_ignores_it(build):
    """The first one is raised, and no callback runs after it."""
    library = build(NOTHING + "for (int i = 0; i < 3; ++i) call->callback(call->context, i, none, none); return FUNCTX_OK;")
    seen = []
    with pytest.raises(KeyError, match="0"):
        library.run([], [], 0, lambda eqn, i, o: seen.append(eqn) or {}[eqn])
    assert seen == [0]


def test_error_slot(build):
    library = build("""
      call->error_eqn = 7; call->error_kind = FUNCTX_INDEX_OUT_OF_BOUNDS;
      for (int i = 0; i < 4; ++i) call->error_values[i] = -i * (INT64_C(1) << 40);
      return 9;
    """)
    assert library.run([], []) == (9, 7, 1, tuple(-i << 40 for i in range(4)))


def test_arguments_outlive_the_lists_that_held_them(build):
    library = build(NOTHING + "if (call->callback(call->context, 0, none, none)) return 1;" + DOUBLE)
    x = np.arange(6.0)[::2]
    inputs, out = [np.array(3), x.copy()[::-1]], np.zeros(3)

    def callback(eqn, i, o):
        inputs[1].shape = (3, 1)  # replaces NumPy's own strides
        inputs.clear()
        np.full(3, np.nan)  # would take the freed memory

    assert library.run(inputs, [out], 0, callback) == OK
    np.testing.assert_array_equal(out, 2 * x[::-1])


def test_references_are_given_back(build):
    library = build(NOTHING + CALL_BACK.format(inputs="none", outputs="none"))
    x, out = np.ones(3), np.ones(3)
    callback = lambda eqn, i, o: None  # noqa: E731
    before = [sys.getrefcount(object) for object in (x, out, callback)]
    for _ in range(10):
        library.run([x], [out], 100, callback)
        with pytest.raises(ValueError):
            library.run([x], [out[::2]], 100, callback)
    assert [sys.getrefcount(object) for object in (x, out, callback)] == before


def test_threads_run_at_the_same_time(build):
    """Each call waits inside the library until the other is there too: they would not meet with Python's lock held."""
    library = build(
        """
      auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      ++arrived;
      while (arrived < 2) if (std::chrono::steady_clock::now() > end) return 1;
      void* none[] = {nullptr};
      return call->callback(call->context, 0, none, none);
    """,
        "#include <atomic>\n#include <chrono>\nstatic std::atomic<int> arrived{0};",
    )
    results, seen = [], []

    def work():
        results.append(library.run([], [], 64, lambda *arguments: seen.append(threading.get_ident())))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [OK, OK]
    assert sorted(seen) == sorted(thread.ident for thread in threads)


def is_mapped(path):
    with open("/proc/self/maps") as maps:
        return str(path) in maps.read()


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="asks Linux which files are mapped")
def test_close_and_collection_unload(build, tmp_path):
    library = build("return FUNCTX_OK;")
    assert is_mapped(tmp_path / "library0.so")
    library.close()
    assert not is_mapped(tmp_path / "library0.so")
    other = native.Library(str(tmp_path / "library0.so"))
    assert is_mapped(tmp_path / "library0.so")
    del other
    assert not is_mapped(tmp_path / "library0.so")


def test_a_closed_library_refuses(build):
    library = build("return FUNCTX_OK;")
    library.close()
    library.close()
    with pytest.raises(ValueError, match="closed library"):
        library.run([], [])


def test_close_during_a_call_waits_for_it(build):
    library = build(NOTHING + "int status = call->callback(call->context, 0, none, none); *(double*)call->outputs[0] = 1; return status;")
    out = np.zeros(())
    assert library.run([], [out], 0, lambda *arguments: library.close()) == OK
    assert out == 1


def test_unloading_leaves_openmp_alive(tmp_path):
    """libgomp's idle threads would run unmapped code if it went away with the last library that uses it."""
    source = """
      #include "call.h"
      int run(FunctxCall* call) {
        int sum = 0;
        #pragma omp parallel num_threads(4) reduction(+ : sum)
        sum += 1;
        *(int*)call->outputs[0] = sum;
        return FUNCTX_OK;
      }
    """
    path = compile_library(tmp_path / "openmp.so", textwrap.dedent(source), "-xc++", "-fopenmp")
    script = f"""
      import time
      import numpy as np
      from functx.runtime import native
      for _ in range(3):
          library, out = native.Library({str(path)!r}), np.zeros((), np.int32)
          library.run([], [out])
          library.close()
          time.sleep(0.05)
      print(out)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr


def test_missing_file(tmp_path, monkeypatch):
    with pytest.raises(OSError, match="missing.so: cannot open shared object file"):
        native.Library(tmp_path / "missing.so")
    (tmp_path / "text.so").write_text("not a library, but long enough to be read as one" * 10)
    with pytest.raises(OSError, match="text.so: .*header"):
        native.Library(str(tmp_path / "text.so"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match="libc.so.6: cannot open"):
        native.Library("libc.so.6")  # a bare name is a file here, never one of the system's


def test_missing_symbol(tmp_path):
    path = compile_library(tmp_path / "other.so", "int other() { return 0; }", "-xc++")
    with pytest.raises(OSError, match="other.so: undefined symbol: run"):
        native.Library(path)
    if os.path.exists("/proc/self/maps"):
        assert not is_mapped(path)


def test_every_argument_has_its_own_place(build):
    """Inputs and outputs of any number and rank keep their order: output j gets 10 * (number of inputs) + j, input i stays i."""
    library = build(
        """
        int inputs = 0;
        while (inputs < 3 && *(const double*)call->inputs[inputs] == inputs) ++inputs;
        for (int j = 0; j < 3; ++j) *(double*)call->outputs[j] = 10 * inputs + j;
        return FUNCTX_OK;
        """
    )
    for shape in ((), (1,), (1, 1)):
        inputs = [np.full(shape, float(i)) for i in range(3)]
        outputs = [np.zeros(()), np.zeros(1), np.zeros((1, 1))]
        assert library.run(inputs, outputs) == OK
        assert [x.item() for x in inputs] == [0, 1, 2]
        assert [x.item() for x in outputs] == [30, 31, 32]
