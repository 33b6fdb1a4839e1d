#include "library.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <filesystem>

namespace functx {

namespace {

PyObject* addresses(void* const* pointers) {
  PyObject* list = PyList_New(0);
  for (; list && *pointers; ++pointers) {
    PyObject* address = PyLong_FromVoidPtr(*pointers);
    if (!address || PyList_Append(list, address) < 0) Py_CLEAR(list);
    Py_XDECREF(address);
  }
  return list;
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
  const PyGILState_STATE state = PyGILState_Ensure();
  auto& context = *static_cast<Context*>(opaque);
  if (!context.raised) {
    PyObject* result = nullptr;
    if (!context.callback || context.callback == Py_None) {
      PyErr_SetString(PyExc_TypeError, "the library called back, but run() was given no callback");
    } else {
      PyObject* in = addresses(inputs);
      PyObject* out = in ? addresses(outputs) : nullptr;
      if (out && context.dims) {
        const auto dims = reinterpret_cast<unsigned long long>(context.dims);
        result = PyObject_CallFunction(context.callback, "iOOK", static_cast<int>(eqn), in, out, dims);
      } else if (out) {
        result = PyObject_CallFunction(context.callback, "iOO", static_cast<int>(eqn), in, out);
      }
      Py_XDECREF(in);
      Py_XDECREF(out);
    }
    if (!result) {
      PyErr_Fetch(&context.error[0], &context.error[1], &context.error[2]);
      context.raised = true;
    }
    Py_XDECREF(result);
  }
  const int status = context.raised;
  PyGILState_Release(state);
  return status;
}

std::string reason_for(const std::string& path) {
  const char* reason = dlerror();  // usually begins with the path, but not always
  std::string message = reason ? reason : "unknown error of the dynamic loader";
  return message.find(path) == std::string::npos ? path + ": " + message : message;
}

// libgomp's threads do not survive a fork, and the child would wait for them forever: there, what the forking thread runs
// is serial. (A thread that the child starts gets a team of its own.) The function is looked up when a library is loaded,
// because the dynamic loader has no place in a fork handler. This module is never unloaded, so the handler stays valid.
std::atomic<void (*)(int)> set_num_threads{nullptr};

void after_fork_in_child() {
  if (auto set = set_num_threads.load()) set(1);
}

}  // namespace

Context::~Context() {
  for (PyObject* part : error) Py_XDECREF(part);
}

void Context::restore() {
  PyErr_Restore(error[0], error[1], error[2]);
  error[0] = error[1] = error[2] = nullptr;
}

Library::Library(const std::string& path) {
  // Absolute, because dlopen searches the system's folders for a bare name.
  const std::string name = std::filesystem::absolute(path).string();
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw LoadError(reason_for(name));
  handle_ = std::shared_ptr<void>(handle, dlclose);
  entry_ = reinterpret_cast<decltype(entry_)>(dlsym(handle, "run"));
  if (!entry_) throw LoadError(reason_for(name));
  // The idle threads of an OpenMP team sleep inside libgomp: unloading it with the last library that uses it would
  // pull the code from under them. This keeps it mapped if it is loaded at all.
  if (void* gomp = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE))
    set_num_threads = reinterpret_cast<void (*)(int)>(dlsym(gomp, "omp_set_num_threads"));
}

int Library::run(FunctxCall& call, Context& context) const {
  const std::shared_ptr<void> handle = handle_;  // a callback or another thread may close the library meanwhile
  call.allocate = allocate;
  call.callback = call_back;
  call.context = &context;
  context.dims = call.dims;
  call.error_eqn = -1;
  PyThreadState* unlocked = PyEval_SaveThread();
  const int status = entry_(&call);
  PyEval_RestoreThread(unlocked);
  return status;
}

bool install_fork_handler() { return pthread_atfork(nullptr, nullptr, after_fork_in_child) == 0; }

}  // namespace functx
