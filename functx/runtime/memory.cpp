#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NO_IMPORT_ARRAY
#define PY_ARRAY_UNIQUE_SYMBOL functx_array_api
#include "memory.h"

#include <Python.h>
#include <numpy/arrayobject.h>

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace functx {

thread_local Workspace::Block Workspace::spare_;

namespace {

// Freed blocks of large results, by size, for the next result of that size: a fresh mapping from the system would cost a
// page fault for every 4 KiB. In front of each block lies a header with its size, for the handler's realloc is not told.
class Pool {
 public:
  static Pool& instance() {
    static Pool* pool = new Pool;  // never destroyed: arrays may outlive every static
    return *pool;
  }

  void* allocate(size_t bytes) {
    {
      std::lock_guard<std::mutex> guard(lock_);
      auto found = spare_.find(bytes);
      if (found != spare_.end() && !found->second.empty()) {
        void* block = found->second.back();
        found->second.pop_back();
        held_ -= bytes;
        return block;
      }
    }
    auto* header = static_cast<char*>(::operator new(bytes + kHeader, kAlignment, std::nothrow));
    if (!header) return nullptr;
    std::memcpy(header, &bytes, sizeof bytes);
    return header + kHeader;
  }

  void release(void* block) {
    const size_t bytes = size_of(block);
    {
      std::lock_guard<std::mutex> guard(lock_);
      if (held_ + bytes <= kLimit) {
        try {
          spare_[bytes].push_back(block);
          held_ += bytes;
          return;
        } catch (const std::bad_alloc&) {
        }
      }
    }
    ::operator delete(static_cast<char*>(block) - kHeader, kAlignment);
  }

  static size_t size_of(void* block) {
    size_t bytes;
    std::memcpy(&bytes, static_cast<char*>(block) - kHeader, sizeof bytes);
    return bytes;
  }

 private:
  static constexpr size_t kHeader = 64;
  static constexpr size_t kLimit = 256 << 20;

  std::mutex lock_;
  std::unordered_map<size_t, std::vector<void*>> spare_;
  size_t held_ = 0;
};

void* pool_malloc(void*, size_t bytes) { return Pool::instance().allocate(bytes ? bytes : 1); }

void* pool_calloc(void*, size_t count, size_t size) {
  void* block = pool_malloc(nullptr, count * size);
  if (block) std::memset(block, 0, count * size);
  return block;
}

void pool_free(void*, void* block, size_t) {
  if (block) Pool::instance().release(block);
}

void* pool_realloc(void*, void* block, size_t bytes) {
  void* moved = pool_malloc(nullptr, bytes);
  if (moved && block) {
    const size_t before = Pool::size_of(block);
    std::memcpy(moved, block, before < bytes ? before : bytes);
    Pool::instance().release(block);
  }
  return moved;
}

PyDataMem_Handler handler = {"functx_pool", 1, {nullptr, pool_malloc, pool_calloc, pool_realloc, pool_free}};

}  // namespace

PyObject* new_array(PyObject* dtype, int rank, const int64_t* shape, size_t bytes) {
  static PyObject* capsule = nullptr;
  Py_INCREF(dtype);  // NewFromDescr takes a reference
  auto* descr = reinterpret_cast<PyArray_Descr*>(dtype);
  auto make = [&] { return PyArray_NewFromDescr(&PyArray_Type, descr, rank, shape, nullptr, nullptr, 0, nullptr); };
  if (bytes < kPooledBytes) return make();
  if (!capsule) capsule = PyCapsule_New(&handler, "mem_handler", nullptr);
  PyObject* before = capsule ? PyDataMem_SetHandler(capsule) : nullptr;
  if (!before) {
    Py_DECREF(dtype);
    return nullptr;
  }
  PyObject* array = make();
  PyObject* ours = PyDataMem_SetHandler(before);
  Py_DECREF(before);
  Py_XDECREF(ours);
  return array;
}

}  // namespace functx
