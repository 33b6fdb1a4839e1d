// How one compiled entry is called: where its inputs come from, what must hold beyond the signature, and what is built from
// its outputs. Made by Python once per entry; running it enters no Python code, except where `finish` says that results
// need it.

#ifndef FUNCTX_RUNTIME_PLAN_H
#define FUNCTX_RUNTIME_PLAN_H

#include <Python.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "formula.h"
#include "library.h"
#include "small_vector.h"

namespace functx {

// An owned reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  static Ref share(PyObject* borrowed) {
    Py_XINCREF(borrowed);
    return Ref(borrowed);
  }
  Ref(Ref&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  Ref(const Ref& other) : object_(other.object_) { Py_XINCREF(object_); }
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Where a graph input comes from: a leaf of the arguments, or an array that the function captured (held itself or weakly).
struct InputSource {
  int64_t leaf = -1;
  Ref captured;  // an ndarray or a weak reference to one
  int type_number = 0;
  std::vector<int64_t> shape;
};

struct OutputType {
  Ref dtype;
  std::vector<int64_t> shape;
  std::vector<std::pair<size_t, Formula>> derived;  // axes of sizes that are not known before the call
  int64_t bytes = 0;                                // of all elements; of one where sizes are derived
  int64_t target = -1;  // the input that it is the new value of, in whose memory it is left
  bool left = false;    // of a size that the code finds: it leaves the memory
  bool scalar = false;  // leaves as a number: its memory is the call's
};

struct LayoutCheck {
  int64_t leaf;
  std::vector<int64_t> strides;  // where `dense`: the axes from the outermost in memory to the innermost
  bool writeable;
  bool dense;  // without gaps

  bool holds(PyObject* leaf) const;
};

// What is asked of the sizes of a call: each symbol is the size of one axis of a leaf; others follow from them.
struct SizeChecks {
  struct Axis {
    int64_t leaf, axis;
  };
  struct Fact {
    enum Kind { kAtLeastZero, kZero, kNotZero } kind;
    Formula value;
  };
  std::vector<Axis> symbols;
  std::vector<std::pair<Axis, Formula>> derived;
  std::vector<Fact> facts;

  bool holds(PyObject* const* leaves, int64_t* sizes) const;  // writes the values of the symbols
};

struct ValueCheck {
  int64_t leaf;
  Ref value;
};

// One step of building the results, on a stack.
struct BuildStep {
  enum Kind { kArray, kScalar, kPython, kInput, kConstant, kTuple, kList, kDict, kNamedTuple } kind;
  int64_t index = 0;  // output, input, or how many items
  Ref object;         // constant, keys, or type
};

enum class Outcome { kDone, kMiss, kError };

class Plan {
 public:
  std::shared_ptr<Library> library;
  Formula workspace_bytes;
  SizeChecks sizes;
  int64_t found = 0;  // how many more sizes the code finds on the way
  Ref callback, on_error;
  std::vector<Ref> constants;  // arrays passed after the graph's inputs
  std::vector<InputSource> inputs;
  std::vector<OutputType> outputs;
  std::vector<ValueCheck> values;
  std::vector<LayoutCheck> layouts;
  std::vector<int64_t> written;    // inputs
  std::vector<int64_t> aliases;    // per leaf the first leaf that is the same array
  bool check_aliases = false;
  std::vector<BuildStep> build;
  Ref finish;  // called with (outputs, inputs) where results are views

  // `leaves` in the order of the Python side. kMiss: a condition does not hold; nothing has happened.
  Outcome run(PyObject* const* leaves, size_t count, PyObject** result) const;

 private:
  struct Call;
  bool holds(PyObject* const* leaves, size_t count) const;
  bool conflicts(const Call& call) const;
  Outcome bind(PyObject* const* leaves, Call& call) const;
  bool allocate(Call& call) const;
  bool adopt(Call& call) const;
  bool write_back(Call& call) const;  // of written inputs that were read from a copy
  PyObject* results(Call& call) const;
};

}  // namespace functx

#endif
