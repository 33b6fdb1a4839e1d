"""The disk cache of compiled code: what is found again, by whom, and that nothing which happens to a file or directory fails a program."""

import contextlib
import dataclasses
import errno
import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from graph_cases import F64, Case, at_line

from functx import backends, config
from functx.backends.cpp import backend, disk_cache
from functx.backends.cpp.backend import CppBackend
from functx.backends.cpp.disk_cache import DiskCache, code_key, open_cache
from functx.backends.cpp.toolchain import find_toolchain
from functx.errors import IndexOutOfBoundsError, PerformanceWarning
from functx.pretty import graph_digest
from functx.runtime import include_dir, native

FACTS = {"workspace_bytes": 64, "passed_constants": [1, 2], "calls": []}
KEY, OTHER = "the key\nof some code", "another key"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A library whose `run` writes 42."""
    path = tmp_path_factory.mktemp("library") / "library.so"
    source = '#include "call.h"\nint run(FunctxCall* call) { *(double*)call->outputs[0] = 42; return FUNCTX_OK; }\n'
    command = [os.environ.get("CXX", "c++"), "-xc++", "-shared", "-fPIC", f"-I{include_dir()}", "-o", str(path), "-"]
    subprocess.run(command, input=source, text=True, check=True)
    return path


@pytest.fixture
def cache(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o700)
    return DiskCache(tmp_path / "cache", 1 << 30)


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    """As if nothing had been warned of, and as if the sources had not been edited during the run."""
    monkeypatch.setattr(disk_cache, "_warned", set())
    for module in (disk_cache, backend):
        monkeypatch.setattr(module, "generator", lambda: "these sources")


def options(directory, **changes):
    return dataclasses.replace(config.current(), cache_dir=str(directory), **changes)


def names(directory):
    return sorted(path.name for path in Path(directory).iterdir())


def only_warning(caught):
    (warning,) = (w for w in caught if issubclass(w.category, PerformanceWarning))
    return str(warning.message)


# --- entries --------------------------------------------------------------------------------------------------------------------------


def test_what_was_stored_is_found_and_runs(cache, library):
    assert cache.find(KEY) is None
    cache.store(KEY, library, FACTS)
    path, facts = cache.find(KEY)
    assert facts == FACTS and path.parent == cache.directory and names(cache.directory) == [path.name]
    assert path.stat().st_mode & 0o777 == 0o600
    out = np.zeros(())
    assert native.Library(str(path)).run([], [out])[0] == 0 and out == 42
    assert cache.find(OTHER) is None


def test_a_loaded_library_survives_its_file(cache, library):
    cache.store(KEY, library, FACTS)
    loaded, out = native.Library(str(cache.path(KEY))), np.zeros(())
    cache.store(KEY, library, FACTS)  # another file under the same name
    cache.clear()
    assert loaded.run([], [out])[0] == 0 and out == 42 and names(cache.directory) == []


DAMAGES = {
    "empty": lambda data: b"",
    "one byte": lambda data: data[:1],
    "half": lambda data: data[: len(data) // 2],
    "only the library": lambda data: data[: data.index(b'{"format"')],
    "half of the facts": lambda data: data[: data.index(b'{"format"') + 20],
    "no last byte": lambda data: data[:-1],
    "one byte more": lambda data: data + b"\0",
    "first byte": lambda data: flip(data, 0),
    "code": lambda data: flip(data, len(data) // 3),
    "facts": lambda data: flip(data, data.index(b"workspace_bytes") + 18),
    "size of the facts": lambda data: flip(data, len(data) - 48),
    "checksum": lambda data: flip(data, len(data) - 20),
    "magic": lambda data: flip(data, len(data) - 1),
    "foreign": lambda data: b"#!/bin/sh\necho something else\n" * 100,
}


def flip(data, position):
    changed = bytearray(data)
    changed[position] ^= 1
    return bytes(changed)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_a_miss_and_removed(cache, library, damage):
    cache.store(KEY, library, FACTS)
    path = cache.path(KEY)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert cache.find(KEY) is None and not path.exists()
    cache.store(KEY, library, FACTS)
    assert cache.find(KEY) == (path, FACTS)


def test_an_entry_of_another_key_or_format_is_a_miss(cache, library, monkeypatch):
    cache.store(OTHER, library, FACTS)
    cache.path(OTHER).rename(cache.path(KEY))
    assert cache.find(KEY) is None and names(cache.directory) == []
    with monkeypatch.context() as later:
        later.setattr(disk_cache, "FORMAT", 2)
        cache.store(KEY, library, FACTS)
    assert cache.find(KEY) is None and names(cache.directory) == []


def test_what_is_not_ours_stays(cache, library):
    foreign = ["notes.txt", "x.so", "a" * 64, "a" * 64 + ".so.bak", "tmp.tmp"]
    for name in foreign:
        (cache.directory / name).write_text("mine")
        os.utime(cache.directory / name, (0, 0))
    (cache.directory / "folder").mkdir()
    tiny = DiskCache(cache.directory, 0)
    tiny.store(KEY, library, FACTS)
    tiny.clear()
    assert names(cache.directory) == sorted([*foreign, "folder"])


@pytest.mark.parametrize("place", [lambda path: path.mkdir(), lambda path: os.mkfifo(path), lambda path: path.symlink_to("/etc/passwd")])
def test_other_things_than_files(cache, library, place):
    """They are neither read nor followed, and whatever a rename can replace is replaced."""
    path = cache.path(KEY)
    place(path)
    with warnings.catch_warnings(record=True):
        assert cache.find(KEY) is None
        cache.store(KEY, library, FACTS)
    assert path.is_dir() or (cache.find(KEY) == (path, FACTS) and not path.is_symlink())
    assert len(names(cache.directory)) == 1 and "root" in Path("/etc/passwd").read_text()


def test_an_entry_that_others_could_have_written_is_not_used(cache, library, monkeypatch):
    cache.store(KEY, library, FACTS)
    cache.path(KEY).chmod(0o666)
    with pytest.warns(PerformanceWarning, match="compiled code in the disk cache is not used: .*mode 0666") as caught:
        assert cache.find(KEY) is None and cache.find(KEY) is None
    only_warning(caught)
    cache.store(KEY, library, FACTS)
    assert cache.find(KEY)
    disk_cache._warned.clear()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(PerformanceWarning, match="belongs to user"):
        assert cache.find(KEY) is None


# --- disks that are full or read-only ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("function", ["tempfile.mkstemp", "os.replace"])
def test_what_cannot_be_written_is_not_kept(cache, library, monkeypatch, function, code):
    def refuse(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(function, refuse)
    with pytest.warns(PerformanceWarning) as caught:
        for key in (KEY, OTHER):
            cache.store(key, library, FACTS)
    text = only_warning(caught)
    assert os.strerror(code) in text and str(cache.directory) in text and "FUNCTX_CACHE_DIR" in text
    assert names(cache.directory) == []


def test_a_write_that_fails_half_way_leaves_nothing(cache, library):
    """A file that must not grow stands for a full disk."""
    script = f"""
      import resource, warnings
      from pathlib import Path
      from functx.backends.cpp.disk_cache import DiskCache
      resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
      with warnings.catch_warnings(record=True) as caught:
          warnings.simplefilter("always")
          DiskCache(Path({str(cache.directory)!r}), 1 << 30).store("key", Path({str(library)!r}), {{}})
      print(caught[0].message)
    """
    assert "File too large" in run(script)
    assert names(cache.directory) == [] and library.stat().st_size > 5000


UNWRITABLE = ["/proc/self", "/proc/functx", "/dev/null/functx"]


@pytest.mark.parametrize("directory", UNWRITABLE)
@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="wants a file system in which nobody can write")
def test_compiling_works_without_a_place_for_the_cache(directory):
    with pytest.warns(PerformanceWarning) as caught:
        for value in (2.25, 2.5):
            exe = CppBackend().compile(double(value), options(directory))
            assert exe.compiled and exe([np.array(3.0)])[0] == 3 + value
    assert directory in only_warning(caught)


def test_a_read_only_directory_is_read(cache, library, monkeypatch):
    cache.store(KEY, library, FACTS)
    opened = os.open

    def read_only(path, flags, *rest, **kwargs):
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, flags, *rest, **kwargs)

    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", read_only)
    monkeypatch.setattr(os, "utime", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.find(KEY)[1] == FACTS
        with cache.lock(OTHER, 60) as held:
            assert not held


# --- size -----------------------------------------------------------------------------------------------------------------------------


def test_the_least_recently_used_make_room(cache, library):
    keys = [f"key {i}" for i in range(10)]
    for age, key in enumerate(reversed(keys)):
        cache.store(key, library, FACTS)
        os.utime(cache.path(key), (0, 1000 - age))  # key 0 is the oldest
    assert cache.find(keys[0]) and cache.path(keys[0]).stat().st_mtime > time.time() - 60  # now the youngest
    size = cache.path(keys[0]).stat().st_size
    DiskCache(cache.directory, 11 * size + 100).store("one more", library, FACTS)
    assert len(names(cache.directory)) == 11
    DiskCache(cache.directory, 10 * size + 100).store("two more", library, FACTS)
    left = [key for key in [*keys, "one more", "two more"] if cache.path(key).exists()]
    assert left == [keys[0], *keys[5:], "one more", "two more"]  # 8 of 10 sizes


def test_nothing_is_kept_under_a_limit_of_zero(cache, library):
    DiskCache(cache.directory, 0).store(KEY, library, FACTS)
    assert names(cache.directory) == []


def test_left_overs_of_the_dead_are_removed(cache, library):
    digits = "0123456789abcdef" * 4
    for age, name in [(2, digits + ".lock"), (2, digits[:16] + "-abc_12x.tmp"), (0, "f" * 64 + ".lock"), (0, "f" * 16 + "-xyz.tmp")]:
        (cache.directory / name).touch()
        os.utime(cache.directory / name, (0, time.time() - age * disk_cache.STALE))
    cache.store(KEY, library, FACTS)
    assert names(cache.directory) == sorted([cache.path(KEY).name, "f" * 64 + ".lock", "f" * 16 + "-xyz.tmp"])


# --- locks ----------------------------------------------------------------------------------------------------------------------------


def test_a_lock_keeps_threads_apart(cache):
    inside, most = [], []

    def work():
        with cache.lock(KEY, 60) as held:
            inside.append(held)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 6 and names(cache.directory) == []


def test_keys_do_not_wait_for_each_other(cache):
    with cache.lock(KEY, 60) as first, cache.lock(OTHER, 0) as second:
        assert first and second


def test_a_lock_that_nobody_gives_back(cache):
    with cache.lock(KEY, 60):
        start = time.monotonic()
        with pytest.warns(PerformanceWarning, match=r"waited 0.2 s for another process(.|\n)*\.lock"), cache.lock(KEY, 0.2) as held:
            assert not held
        assert 0.2 <= time.monotonic() - start < 10
    with cache.lock(KEY, 0) as held:
        assert held


def test_a_lock_on_a_file_that_is_gone_counts_for_nothing(cache, monkeypatch):
    """Its last holder may remove it between the two steps of the next."""
    path, flock, removals = cache.path(KEY).with_suffix(".lock"), fcntl.flock, []

    def late(handle, operation):
        if not removals:
            removals.append(path.unlink())
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with cache.lock(KEY, 60) as held:
        assert held and removals and path.exists()


def test_file_systems_without_locks(cache, monkeypatch):
    def refuse(*args):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    before = len(os.listdir("/dev/fd"))
    monkeypatch.setattr(fcntl, "flock", refuse)
    with cache.lock(KEY, 60) as held:
        assert not held
    assert len(os.listdir("/dev/fd")) == before


def test_an_error_inside_frees_the_lock(cache):
    with contextlib.suppress(KeyError), cache.lock(KEY, 60):
        raise KeyError
    with cache.lock(KEY, 0) as held:
        assert held


def test_a_forked_child_does_not_keep_the_lock(cache):
    with cache.lock(KEY, 60):
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start()
    try:
        with cache.lock(KEY, 0) as held:
            assert held
    finally:
        child.kill()
        child.join()


# --- other processes --------------------------------------------------------------------------------------------------------------------


def run(script, *, cwd=None, **environment):
    """The output of a Python script in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def start(script, **environment):
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})


def test_a_killed_process_frees_its_lock(cache):
    script = f"""
      import time
      from pathlib import Path
      from functx.backends.cpp.disk_cache import DiskCache
      with DiskCache(Path({str(cache.directory)!r}), 1 << 30).lock({KEY!r}, 60):
          print("locked", flush=True)
          time.sleep(60)
    """
    with start(script) as process:
        assert process.stdout.readline() == "locked\n"
        with warnings.catch_warnings(record=True), cache.lock(KEY, 0.1) as held:
            assert not held
        process.kill()
    assert names(cache.directory) == [cache.path(KEY).with_suffix(".lock").name]
    with cache.lock(KEY, 60) as held:
        assert held
    assert names(cache.directory) == []


def test_a_killed_writer_leaves_no_entry(cache, library):
    script = f"""
      import os, signal
      from pathlib import Path
      from functx.backends.cpp.disk_cache import DiskCache
      os.replace = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
      DiskCache(Path({str(cache.directory)!r}), 1 << 30).store({KEY!r}, Path({str(library)!r}), {{}})
    """
    with start(script) as process:
        assert process.wait(60) == -signal.SIGKILL
    (left,) = names(cache.directory)
    assert left.endswith(".tmp") and cache.find(KEY) is None
    cache.store(KEY, library, FACTS)
    assert cache.find(KEY)
    cache.clear()
    assert names(cache.directory) == []


# --- with the backend -----------------------------------------------------------------------------------------------------------------


def double(value):
    """A graph that adds a number to one."""
    case = Case()
    x = case.random((), F64)
    case.output(case.b.add(x, case.b.full_like(x, value)))
    return case.graph()


def test_code_is_found_by_another_backend(tmp_path):
    there = options(tmp_path)
    first, second = CppBackend(), CppBackend()
    assert first.compile(double(1.5), there).compiled and not first.compile(double(1.5), there).compiled
    exe = second.compile(double(1.5), there)
    assert not exe.compiled and exe([np.array(2.0)])[0] == 3.5
    assert second.compile(double(2.5), there).compiled and len(names(tmp_path)) == 2
    assert CppBackend().compile(double(1.5), options(tmp_path, parallel_threshold=7)).compiled
    first.clear()
    assert not first.compile(double(1.5), there).compiled


def test_all_that_a_caller_must_know_is_kept(tmp_path):
    """A workspace, constants that are passed, call-backs, and checks with the line of the graph that was asked for."""

    def case(line):
        case = Case()
        b, x, index = case.b, case.random((300,), F64), case.input(np.array(7))
        at_line(case, line)
        table = b.const(np.arange(2000.0))
        row = b.gather(table, index, axes=(0,))
        product = b.dot_general(b.broadcast(row, shape=(300,), dims=()), b.exp(x), contract=((0,), (0,)), batch=((), ()))
        case.output(b.add(b.broadcast(product, shape=(300,), dims=()), x), table)
        return case

    fresh = CppBackend().compile(case(3).graph(), options(tmp_path))
    found = CppBackend().compile(case(44).graph(), options(tmp_path))
    assert (fresh.compiled, found.compiled) == (True, False)
    assert found.workspace_bytes == fresh.workspace_bytes > 0 and found.fallbacks == fresh.fallbacks
    for got, want in zip(found(case(3).args), fresh(case(3).args), strict=True):
        np.testing.assert_array_equal(got, want)
    with pytest.raises(IndexOutOfBoundsError, match="2000 is out of bounds(.|\n)*model.py:44"):
        found([case(3).args[0], np.array(2000)])
    assert "model.py:44" in found.source and "model.py:3)" in fresh.source
    assert found.source.replace("model.py:44", "model.py:3") == fresh.source


@pytest.mark.parametrize("damage", ["empty", "half", "code", "facts", "foreign"])
def test_a_damaged_entry_is_compiled_again(tmp_path, damage):
    there = options(tmp_path)
    CppBackend().compile(double(4.5), there)
    (path,) = tmp_path.iterdir()
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    exe = CppBackend().compile(double(4.5), there)
    assert exe.compiled and exe([np.array(2.0)])[0] == 6.5
    assert not CppBackend().compile(double(4.5), there).compiled


def test_an_entry_that_cannot_be_loaded_is_compiled_again(tmp_path):
    """As on a file system from which no code may run."""
    there, junk = options(tmp_path / "cache"), tmp_path / "junk.so"
    junk.write_bytes(b"not a library" * 100)
    key = code_key(graph_digest(double(5.5)), find_toolchain(there), there.parallel_threshold)
    open_cache(there).store(key, junk, FACTS)
    with pytest.warns(PerformanceWarning, match="of no use: .*header(.|\n)*allows to run programs"):
        exe = CppBackend().compile(double(5.5), there)
    assert exe.compiled and exe([np.array(2.0)])[0] == 7.5
    assert not CppBackend().compile(double(5.5), there).compiled


def test_another_cpu_gets_other_code(tmp_path, monkeypatch):
    there = options(tmp_path)
    for name in ("one", "two", "one"):
        monkeypatch.setattr(disk_cache, "cpu", lambda name=name: name)
        CppBackend().compile(double(6.5), there)
    assert len(names(tmp_path)) == 2


def test_code_of_unknown_sources_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(backend, "generator", lambda: None)
    assert CppBackend().compile(double(1.25), options(tmp_path / "cache")).compiled
    assert not (tmp_path / "cache").exists()


def test_switched_off(tmp_path):
    directory = tmp_path / "cache"
    for off in ({"disk_cache": False}, {"dump": str(tmp_path / "dump")}, {"debug": 4}):
        assert CppBackend().compile(double(7.5), options(directory, **off)).compiled
        assert not directory.exists()
    assert CppBackend().compile(double(7.5), options(directory)).compiled
    assert CppBackend().compile(double(7.5), options(directory, disk_cache=False)).compiled
    assert config.Config().disk_cache


def test_clear_cache(tmp_path):
    def compiled():
        return backends.get_backend("cpp").compile(double(8.5), config.current()).compiled

    with config.options(cache_dir=str(tmp_path)):
        assert compiled() and not compiled() and len(names(tmp_path)) == 1
        backends.clear_cache()
        assert names(tmp_path) == [] and compiled()


def test_a_fork_during_a_compilation(tmp_path):
    """The child inherits locks whose holders it does not have."""
    cpp, there = CppBackend(), options(tmp_path)
    kept = cpp.compile(double(9.5), there)
    slots = list(cpp._slots.values())
    with slots[0].lock, cpp._lock:
        child = os.fork()
        if child == 0:
            ok = not cpp.compile(double(9.5), there).compiled and cpp.compile(double(10.5), there).compiled
            os._exit(0 if ok else 1)
    deadline = threading.Timer(60, lambda: os.kill(child, signal.SIGKILL))
    deadline.start()
    _, status = os.waitpid(child, 0)
    deadline.cancel()
    assert status == 0 and kept([np.array(0.5)])[0] == 10


PROGRAM = """
  import numpy as np, functx as fx
  big = np.arange(1000.0)
  functions = [fx.jit(lambda x, k=k: np.tanh(x).sum() * k + (x @ x) + (x[:4] + big[:4]).max()) for k in range(1, 4)]
  x = np.linspace(-1, 1, 100)
  results = [float(f(x)).hex() for f in functions]
  print(sum(f.cache_info().compilations for f in functions), *results)
"""


def test_another_process_finds_the_code(tmp_path):
    first, second = (run(PROGRAM, FUNCTX_CACHE_DIR=str(tmp_path)).split() for _ in range(2))
    assert (first[0], second[0]) == ("3", "0") and first[1:] == second[1:]
    off = run(PROGRAM, FUNCTX_CACHE_DIR=str(tmp_path), FUNCTX_DISK_CACHE="0").split()
    assert off == first


def test_two_processes_share_the_work(tmp_path):
    processes = [start(PROGRAM, FUNCTX_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [p.returncode for p in processes] == [0, 0], outputs
    (mine, *results), (theirs, *others) = (output.split() for output, _ in outputs)
    assert int(mine) + int(theirs) == 3 and results == others
    assert len(names(tmp_path)) == 3 and all(name.endswith(".so") for name in names(tmp_path))
