// A loaded library and one call of its `run` (call.h), for whoever has pointers ready.

#ifndef FUNCTX_RUNTIME_LIBRARY_H
#define FUNCTX_RUNTIME_LIBRARY_H

#include <Python.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "call.h"
#include "memory.h"

namespace functx {

// What `context` points to during a call.
struct Context {
  PyObject* callback = nullptr;  // borrowed
  int64_t* dims = nullptr;       // those of the call
  std::vector<Memory> allocated;
  bool raised = false;  // by a callback: the exception waits in `error` until generated code has returned
  PyObject* error[3] = {nullptr, nullptr, nullptr};

  ~Context();
  void restore();  // the exception becomes the current one
};

class Library {
 public:
  // Throws LoadError.
  explicit Library(const std::string& path);

  void close() { handle_.reset(); }
  bool is_closed() const { return !handle_; }
  std::shared_ptr<void> handle() const { return handle_; }  // keeps the code mapped

  // Calls without Python's lock; returns the status. `call` has everything but allocate, callback and context.
  int run(FunctxCall& call, Context& context) const;

 private:
  std::shared_ptr<void> handle_;
  int (*entry_)(FunctxCall*) = nullptr;
};

struct LoadError : std::exception {
  explicit LoadError(std::string text) : message(std::move(text)) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};

// Keeps OpenMP regions serial in forked children from now on.
bool install_fork_handler();

}  // namespace functx

#endif
