// functx._native: loads a compiled library and calls its `run` (call.h).
//
// Owns, around one call, whatever must stay alive during it: the mapped library, the arrays, the scratch memory, an
// exception on its way through generated code. It knows nothing of graphs, shapes or dtypes: those checks are the caller's.

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <Python.h>
#include <dlfcn.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <numpy/arrayobject.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "call.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

constexpr std::align_val_t kAlignment{64};
constexpr int64_t kSpareBytes = 16 << 20;  // what an idle thread may hold on to

struct Deleter {
  void operator()(void* data) const { ::operator delete(data, kAlignment); }
};
using Memory = std::unique_ptr<void, Deleter>;

// Throws std::bad_alloc. Never null, not even for 0 bytes.
Memory new_memory(int64_t bytes) { return Memory(::operator new(static_cast<size_t>(bytes), kAlignment)); }

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

  void* data() const { return block_.memory.get(); }

 private:
  struct Block {
    Memory memory;
    int64_t bytes = 0;
  };

  Block block_;
  static thread_local Block spare_;
};
thread_local Workspace::Block Workspace::spare_;

// What `context` points to during a call.
struct Context {
  nb::object callback;
  std::vector<Memory> allocated;
  std::exception_ptr raised;  // the first exception of a callback, until generated code has returned
};

nb::list addresses(void* const* pointers) {
  nb::list result;
  for (; *pointers; ++pointers) result.append(reinterpret_cast<uintptr_t>(*pointers));
  return result;
}

// The next two are called by generated code. C++ exceptions stop here: that code promises nothing about them.

void* allocate(void* context, int64_t bytes) {
  if (bytes < 0) return nullptr;
  try {
    auto& allocated = static_cast<Context*>(context)->allocated;
    allocated.push_back(new_memory(bytes));
    return allocated.back().get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

int call_back(void* opaque, int32_t eqn, void* const* inputs, void* const* outputs) {
  nb::gil_scoped_acquire locked;
  auto& context = *static_cast<Context*>(opaque);
  if (context.raised) return 1;
  try {
    if (context.callback.is_none()) throw nb::type_error("the library called back, but run() was given no callback");
    context.callback(eqn, addresses(inputs), addresses(outputs));
    return 0;
  } catch (...) {
    context.raised = std::current_exception();
    return 1;
  }
}

// Pointers and strides of the arrays of one call. NumPy's own API reads them, because neither the buffer protocol nor
// DLPack carries every array (bfloat16, read-only, zero strides). References are held and strides copied: the caller's
// lists and the arrays' shape attribute may be assigned while Python's lock is released.
class Arguments {
 public:
  Arguments(const nb::list& inputs, const nb::list& outputs) {
    const size_t count = inputs.size() + outputs.size();
    alive_.reserve(count);
    pointers_.reserve(count);
    for (size_t i = 0; i < inputs.size(); ++i) {
      PyArrayObject* array = add("inputs", i, inputs[i]);
      offsets_.push_back(strides_.size());
      strides_.insert(strides_.end(), PyArray_STRIDES(array), PyArray_STRIDES(array) + PyArray_NDIM(array));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      PyArrayObject* array = add("outputs", i, outputs[i]);
      if (PyArray_ISCARRAY(array)) continue;  // a macro that evaluates its argument twice
      throw nb::value_error((position("outputs", i) + " must be C-contiguous, aligned, writeable and in native byte order").c_str());
    }
    rows_.reserve(inputs.size());
    for (size_t offset : offsets_) rows_.push_back(strides_.data() + offset);
  }

  void* const* inputs() const { return pointers_.data(); }
  void* const* outputs() const { return pointers_.data() + rows_.size(); }
  const int64_t* const* strides() const { return rows_.data(); }

 private:
  static std::string position(const char* list, size_t i) { return std::string(list) + "[" + std::to_string(i) + "]"; }

  PyArrayObject* add(const char* list, size_t i, nb::object object) {
    if (!PyArray_Check(object.ptr())) {
      const char* type = Py_TYPE(object.ptr())->tp_name;
      throw nb::type_error((position(list, i) + " must be a numpy.ndarray, not " + type).c_str());
    }
    auto* array = reinterpret_cast<PyArrayObject*>(object.ptr());
    pointers_.push_back(PyArray_DATA(array));
    alive_.push_back(std::move(object));
    return array;
  }

  std::vector<nb::object> alive_;
  std::vector<void*> pointers_;  // inputs, then outputs
  std::vector<int64_t> strides_;
  std::vector<size_t> offsets_;
  std::vector<const int64_t*> rows_;
};

[[noreturn]] void raise_os_error(const std::string& path) {
  const char* reason = dlerror();  // usually begins with the path, but not always
  std::string message = reason ? reason : "unknown error of the dynamic loader";
  if (message.find(path) == std::string::npos) message = path + ": " + message;
  PyErr_SetString(PyExc_OSError, message.c_str());
  throw nb::python_error();
}

// libgomp's threads do not survive a fork, and the child would wait for them forever: there, what the forking thread runs
// is serial. (A thread that the child starts gets a team of its own.) The function is looked up when a library is loaded,
// because the dynamic loader has no place in a fork handler. This module is never unloaded, so the handler stays valid.
std::atomic<void (*)(int)> set_num_threads{nullptr};

void after_fork_in_child() {
  if (auto set = set_num_threads.load()) set(1);
}

class Library {
 public:
  explicit Library(const std::filesystem::path& path) {
    // Absolute, because dlopen searches the system's folders for a bare name.
    const std::string name = std::filesystem::absolute(path).string();
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) raise_os_error(name);
    handle_ = std::shared_ptr<void>(handle, dlclose);
    entry_ = reinterpret_cast<decltype(entry_)>(dlsym(handle, "run"));
    if (!entry_) raise_os_error(name);
    // The idle threads of an OpenMP team sleep inside libgomp: unloading it with the last library that uses it would
    // pull the code from under them. This keeps it mapped if it is loaded at all.
    if (void* gomp = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE))
      set_num_threads = reinterpret_cast<void (*)(int)>(dlsym(gomp, "omp_set_num_threads"));
  }

  void close() { handle_.reset(); }

  nb::tuple run(const nb::list& inputs, const nb::list& outputs, int64_t workspace_bytes, nb::object callback) {
    // A second reference: a callback or another thread may close the library meanwhile.
    const std::shared_ptr<void> handle = handle_;
    if (!handle) throw nb::value_error("run() of a closed library");
    if (workspace_bytes < 0) throw nb::value_error("workspace must not be negative");

    const Arguments arguments(inputs, outputs);
    const Workspace workspace(workspace_bytes);
    Context context{std::move(callback), {}, nullptr};
    FunctxCall call{};
    call.inputs = arguments.inputs();
    call.strides = arguments.strides();
    call.outputs = arguments.outputs();
    call.workspace = workspace.data();
    call.allocate = allocate;
    call.callback = call_back;
    call.context = &context;
    call.error_eqn = -1;

    int status;
    {
      nb::gil_scoped_release unlocked;
      status = entry_(&call);
    }
    if (context.raised) std::rethrow_exception(context.raised);
    const int64_t* values = call.error_values;
    return nb::make_tuple(status, call.error_eqn, call.error_kind, nb::make_tuple(values[0], values[1], values[2], values[3]));
  }

 private:
  std::shared_ptr<void> handle_;
  int (*entry_)(FunctxCall*);
};

}  // namespace

NB_MODULE(_native, module) {
  if (PyArray_ImportNumPyAPI() < 0) throw nb::python_error();
  if (pthread_atfork(nullptr, nullptr, after_fork_in_child) != 0) throw std::bad_alloc();

  // Libraries live as long as the caches that hold them, which is until the interpreter has gone: nothing to warn of.
  nb::set_leak_warnings(false);

  module.doc() = "Loads and calls the libraries that functx compiles.";
  nb::class_<Library>(module, "Library", "A compiled library that exports run(FunctxCall*), see functx/runtime/call.h.")
      .def(nb::init<const std::filesystem::path&>(), "path"_a,
           "Loads the library at path; OSError with the loader's words if it cannot be loaded or exports no `run`.")
      .def("run", &Library::run, "inputs"_a, "outputs"_a, "workspace"_a = 0, "callback"_a = nb::none(),
           "Calls the library without Python's lock; returns (status, eqn, kind, (v0, v1, v2, v3)).\n\n"
           "inputs: list of numpy.ndarray with any strides. outputs: list of C-contiguous writeable numpy.ndarray.\n"
           "workspace: bytes of scratch memory. callback(eqn, inputs, outputs): called with two lists of addresses; what it\n"
           "raises is raised from here. dtypes and shapes are not checked. ValueError after close().")
      .def("close", &Library::close, "Unloads the library, once calls still running have returned; closing twice is harmless.");
}
