"""The disk cache of compiled code: one file per library, named by a digest of everything that its code depends on.

An entry is the library with a trailer behind it, which the loader of the system does not read: the key and what a caller of the code must
know, as JSON, and a checksum of all. It is written under another name and renamed, so it is there whole or not at all; it is never written
again, so that it can be loaded from where it lies. What is truncated, foreign or of another key is a miss.

Knows nothing of graphs. Nothing that happens here fails a program: without a directory to trust, without room or permission there is one
warning, and code is compiled as if there were no cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import itertools
import json
import os
import platform
import re
import stat
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from functx.backends import IMPORTED
from functx.backends.cpp.toolchain import Toolchain
from functx.config import Config
from functx.errors import PerformanceWarning
from functx.runtime import include_dir
from functx.source import warn

FORMAT = 1
KEPT = 0.8  # of the limit, after an eviction
STALE = 3600.0  # seconds after which temporaries and locks belong to nobody
POLL = 0.02  # seconds between two attempts to get a lock

_FOOTER = struct.Struct("<Q32s8s")  # size of the JSON that it follows, SHA-256 of everything before the checksum, and
_MAGIC = b"functxso"
_UNCHECKED = 32 + len(_MAGIC)  # bytes at the end, of checksum and magic
_OURS = re.compile(r"[0-9a-f]{64}\.(so|lock)|[0-9a-f]{16}-\w+\.tmp")
_CPU_FIELDS = {
    *("vendor_id", "cpu family", "model", "stepping", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),
    *("isa", "mvendorid", "marchid", "mimpid"),
}


# --- what code depends on -----------------------------------------------------------------------------------------------------------------


def code_key(digest: str, toolchain: Toolchain, threshold: int) -> str:
    """Everything that the code of a graph with this digest depends on, as text."""
    lines = [digest, toolchain.identity, str(threshold), f"generator {generator()}", libraries(), cpu()]
    return "\n".join(lines)


def entry_name(key: str) -> str:
    """The name of a key: 64 hexadecimal digits."""
    return hashlib.sha256(key.encode()).hexdigest()


@functools.cache
def generator() -> str | None:
    """A digest of the sources that turn graphs into code; None if one was edited since it was imported, so that nobody knows what runs."""
    core, digest = Path(include_dir()).parent, hashlib.sha256()
    trees = [core / "ops", Path(__file__).parent.parent]
    files = [*core.glob("*.py"), Path(include_dir(), "call.h"), *(path for tree in trees for path in tree.rglob("*.py"))]
    for path in sorted(files):
        with open(path, "rb") as file:
            status, content = os.fstat(file.fileno()), file.read()
        if max(status.st_mtime, status.st_ctime) > IMPORTED:
            return None
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


@functools.cache
def libraries() -> str:
    """The libraries that code is linked with: the version of libc, and where OpenBLAS lies."""
    blas = importlib.util.find_spec("scipy_openblas32")  # to import it takes longer than all the rest of a hit
    return f"{' '.join(platform.libc_ver())} {blas.origin if blas else None}"


@functools.cache
def cpu() -> str:
    """What -march=native looks at: model and instruction sets of the first processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = itertools.takewhile(str.strip, file)
            found = [line.strip() for line in lines if line.partition(":")[0].strip() in _CPU_FIELDS]
    except OSError:
        found = []
    return "\n".join([platform.machine(), *(found or [platform.processor()])])


# --- where entries lie --------------------------------------------------------------------------------------------------------------------


def location(options: Config) -> Path | None:
    """The directory of the cache, which may not exist yet; None where a home directory is not known either."""
    if options.cache_dir:
        return Path(os.path.abspath(os.path.expanduser(options.cache_dir)))
    base = os.environ.get("XDG_CACHE_HOME", "")
    base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")  # relative ones count as unset, says the standard
    return Path(base, "functx") if os.path.isabs(base) else None


def open_cache(options: Config) -> DiskCache | None:
    """The cache under these options; None, after one warning, where it has no directory that can be trusted."""
    directory = location(options)
    if directory is None:
        return _refuse("no home directory is known", "set FUNCTX_CACHE_DIR")
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        problem = _distrust(os.stat(directory))
    except OSError as error:
        return _refuse(f"{directory}: {error.strerror}", "set FUNCTX_CACHE_DIR to a directory that you can write")
    if problem:
        what = f"{directory} {problem}\n  why: code that lies there would be run"
        return _refuse(what, f"`chmod go-w {directory}` if it is yours, or set FUNCTX_CACHE_DIR to one that is")
    return DiskCache(directory, options.cache_limit)


def _distrust(status: os.stat_result) -> str:
    """Why code from a file or directory must not run here: others could have written it."""
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}, not to you ({os.geteuid()})"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written by others (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


_warned: set[str] = set()


def _warn_once(subject: str, what: str, fix: str) -> None:
    if subject not in _warned:
        _warned.add(subject)
        warn(f"{what}\n  fix: {fix}, or FUNCTX_DISK_CACHE=0", PerformanceWarning)


def _refuse(what: str, fix: str) -> None:
    _warn_once("directory", f"compiled code is not kept on disk, so that every process compiles it again: {what}", fix)


# --- entries ------------------------------------------------------------------------------------------------------------------------------


class DiskCache:
    """The entries in one directory, which other processes use at the same time.

    Args:
      directory: exists and is trusted.
      limit: bytes that all entries may take; the least recently used ones make room.
    """

    def __init__(self, directory: Path, limit: int):
        self.directory, self.limit = directory, limit

    def path(self, key: str) -> Path:
        """Where the entry of a key lies or would lie."""
        return self.directory / f"{entry_name(key)}.so"

    def find(self, key: str) -> tuple[Path, dict[str, Any]] | None:
        """The library of a key and the facts stored with it, checked; None if there is none."""
        path = self.path(key)
        try:
            content = _read_trusted(path)
        except OSError:
            return None
        facts = _unpack(content, key)
        if facts is None:
            _remove(path)
            return None
        with contextlib.suppress(OSError):  # a read-only directory forgets what was used
            os.utime(path)
        return path, facts

    def store(self, key: str, library: Path, facts: dict[str, Any]) -> None:
        """Copy a library into the cache. ``facts`` are what JSON can hold."""
        try:
            self._write(key, _pack(library.read_bytes(), key, facts))
            self._evict()
        except OSError as error:
            what = f"compiled code cannot be kept in {self.directory}: {error.strerror}\n  why: the next process will compile it again"
            _warn_once("store", what, "make room, or set FUNCTX_CACHE_DIR to a directory that you can write")

    def reject(self, key: str, error: OSError) -> None:
        """Remove an entry that is sound but cannot be loaded, with one warning unless it is just gone."""
        path = self.path(key)
        if path.exists():
            _remove(path)
            what = f"the disk cache of compiled code is of no use: {error}"
            _warn_once("load", what, "set FUNCTX_CACHE_DIR to a directory whose file system allows to run programs")

    @contextlib.contextmanager
    def lock(self, key: str, timeout: float) -> Iterator[bool]:
        """Keep other processes and threads from this key; false if that cannot be had, or not within so many seconds.

        The system gives the lock of a killed process free.
        """
        path = self.path(key).with_suffix(".lock")
        handle = _acquire(path, timeout)
        try:
            yield handle is not None
        finally:
            if handle is not None:
                _remove(path)  # while it is locked: who waits takes the next file of that name, whatever forked children keep of this one
                os.close(handle)

    def clear(self) -> None:
        """Remove all entries, and nothing else that lies there. Loaded libraries stay."""
        for _, _, path in self._scan():
            _remove(path)

    def _write(self, key: str, content: bytes) -> None:
        handle, temporary = tempfile.mkstemp(".tmp", f"{entry_name(key)[:16]}-", self.directory)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, self.path(key))
        except BaseException:
            _remove(Path(temporary))
            raise

    def _evict(self) -> None:
        """Remove what killed processes left, and if there is too much, entries from the least recently used on."""
        found, now = self._scan(), time.time()
        for used, _, path in found:
            if path.suffix != ".so" and used < now - STALE:
                _remove(path)
        entries = [item for item in found if item[2].suffix == ".so"]
        total = sum(size for _, size, _ in entries)
        if total > self.limit:
            for _, size, path in entries:
                if total <= KEPT * self.limit:
                    break
                _remove(path)
                total -= size

    def _scan(self) -> list[tuple[float, int, Path]]:
        """Last use, size and path of the files that are ours, the least recently used first."""
        found = []
        with contextlib.suppress(OSError), os.scandir(self.directory) as items:
            for item in items:
                if _OURS.fullmatch(item.name):
                    with contextlib.suppress(OSError):  # gone meanwhile
                        status = item.stat(follow_symlinks=False)
                        found.append((status.st_mtime, status.st_size, Path(item.path)))
        return sorted(found)


def _read_trusted(path: Path) -> bytes:
    """The content of an entry; PermissionError, after one warning, if others could have written it."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        problem = _distrust(status) if stat.S_ISREG(status.st_mode) else "is not a file"
        if problem:
            _warn_once("entry", f"compiled code in the disk cache is not used: {path} {problem}", "remove it, or call functx.clear_cache()")
            raise PermissionError(problem)
        return file.read()


def _pack(library: bytes, key: str, facts: dict[str, Any]) -> bytes:
    metadata = json.dumps({"format": FORMAT, "key": key, "facts": facts}).encode()
    content = library + metadata + struct.pack("<Q", len(metadata))
    return content + hashlib.sha256(content).digest() + _MAGIC


def _unpack(content: bytes, key: str) -> dict[str, Any] | None:
    """The facts of an entry; None if it is not one, not whole, or of another key."""
    if len(content) < _FOOTER.size:
        return None
    length, checksum, magic = _FOOTER.unpack_from(content, len(content) - _FOOTER.size)
    if magic != _MAGIC or hashlib.sha256(memoryview(content)[:-_UNCHECKED]).digest() != checksum:
        return None
    metadata = json.loads(content[-_FOOTER.size - length : -_FOOTER.size])
    return metadata["facts"] if (metadata["format"], metadata["key"]) == (FORMAT, key) else None


def _acquire(path: Path, timeout: float) -> int | None:
    """The handle of a locked file; None where files cannot be locked, or after so many seconds, with one warning."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        except (BlockingIOError, FileNotFoundError):
            pass  # another holds it, or held it and has removed it since
        except OSError:
            os.close(handle)
            return None
        os.close(handle)
        if time.monotonic() > deadline:
            what = f"waited {timeout:g} s for another process that compiles the same code"
            _warn_once("lock", what, f"end the process that holds {path}")
            return None
        time.sleep(POLL)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
