// Memory of calls: scratch blocks that a thread keeps between its calls, and a pool from which large results are made.

#ifndef FUNCTX_RUNTIME_MEMORY_H
#define FUNCTX_RUNTIME_MEMORY_H

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace functx {

constexpr std::align_val_t kAlignment{64};
constexpr int64_t kSpareBytes = 16 << 20;  // what an idle thread may hold on to

struct Deleter {
  void operator()(void* data) const { ::operator delete(data, kAlignment); }
};
using Memory = std::unique_ptr<void, Deleter>;

// Throws std::bad_alloc. Never null, not even for 0 bytes.
inline Memory new_memory(int64_t bytes) {
  Memory memory(::operator new(static_cast<size_t>(bytes), kAlignment, std::nothrow));  // the sanitizers allow this form to fail
  if (!memory) throw std::bad_alloc();
  return memory;
}

// The scratch block of one call. Each thread keeps the block of its last call, which saves the page faults of a new one; a
// call takes it out of the thread's slot, so that another call made from a callback does not find it there.
class Workspace {
 public:
  explicit Workspace(int64_t bytes) : block_(std::exchange(spare_, {})) {
    if (block_.memory && block_.bytes >= bytes) return;
    block_ = {};  // first, so that old and new are never held together
    block_ = {new_memory(bytes), bytes};
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() {
    if (block_.bytes <= kSpareBytes) spare_ = std::move(block_);
  }

  char* data() const { return static_cast<char*>(block_.memory.get()); }

 private:
  struct Block {
    Memory memory;
    int64_t bytes = 0;
  };

  Block block_;
  static thread_local Block spare_;
};

// Blocks of at least this size come from the pool; NumPy's allocator is as fast below.
constexpr size_t kPooledBytes = 64 << 10;

// A new C-contiguous array with undefined contents, or null with an exception set.
PyObject* new_array(PyObject* dtype, int rank, const int64_t* shape, size_t bytes);

}  // namespace functx

#endif
