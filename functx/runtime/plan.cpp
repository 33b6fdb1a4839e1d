#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NO_IMPORT_ARRAY
#define PY_ARRAY_UNIQUE_SYMBOL functx_array_api
#include "plan.h"

#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#include <algorithm>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "signature.h"

namespace functx {

namespace {

PyArrayObject* as_array(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }

// The first and one past the last byte of an array.
struct Range {
  const char* first;
  const char* last;

  explicit Range(PyArrayObject* array) : first(static_cast<char*>(PyArray_DATA(array))), last(first) {
    if (PyArray_SIZE(array) == 0) return;
    last += PyArray_ITEMSIZE(array);
    for (int i = 0; i < PyArray_NDIM(array); ++i) {
      const npy_intp reach = PyArray_STRIDE(array, i) * (PyArray_DIM(array, i) - 1);
      (reach > 0 ? last : first) += reach;
    }
  }
  bool meets(const Range& other) const { return first < other.last && other.first < last; }
};

// A number as the 16 bytes that compiled code reads. False: it does not fit (an int beyond int64).
bool number_bytes(PyObject* object, char* bytes) {
  if (PyFloat_CheckExact(object)) {
    const double value = PyFloat_AS_DOUBLE(object);
    std::memcpy(bytes, &value, sizeof value);
  } else if (PyBool_Check(object)) {
    *bytes = object == Py_True;
  } else if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) return false;
    std::memcpy(bytes, &value, sizeof value);
  } else if (PyComplex_CheckExact(object)) {
    const Py_complex value = PyComplex_AsCComplex(object);
    std::memcpy(bytes, &value, sizeof value);
  } else {  // a NumPy scalar; PyArray_ScalarAsCtype does not know those of other packages (bfloat16)
    Ref array(PyArray_FromScalar(object, nullptr));
    if (!array) {
      PyErr_Clear();
      return false;
    }
    std::memcpy(bytes, PyArray_DATA(as_array(array.get())), static_cast<size_t>(PyArray_ITEMSIZE(as_array(array.get()))));
  }
  return true;
}

// Whether a Python number is the very one (floats by their bits).
bool same_number(PyObject* a, PyObject* b) {
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  char left[16] = {}, right[16] = {};
  return number_bytes(a, left) && number_bytes(b, right) && !std::memcmp(left, right, sizeof left);
}

// A captured array, or what a weak reference to it refers to; a new reference, or null.
PyObject* strong(PyObject* object) {
  if (!PyWeakref_CheckRef(object)) return Py_NewRef(object);
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* target = nullptr;
  if (PyWeakref_GetRef(object, &target) < 0) PyErr_Clear();
  return target;
#else
  return Py_NewRef(PyWeakref_GetObject(object));
#endif
}

PyObject* python_number(const char* bytes, int type) {
  switch (type) {
    case NPY_BOOL:
      return PyBool_FromLong(*bytes);
    case NPY_DOUBLE: {
      double value;
      std::memcpy(&value, bytes, sizeof value);
      return PyFloat_FromDouble(value);
    }
    case NPY_CDOUBLE: {
      Py_complex value;
      std::memcpy(&value, bytes, sizeof value);
      return PyComplex_FromCComplex(value);
    }
    default: {
      int64_t value;
      std::memcpy(&value, bytes, sizeof value);
      return PyLong_FromLongLong(value);
    }
  }
}

// Whether elements of an array may share places: no nesting of its axes shows that they do not.
bool may_repeat(PyArrayObject* array) {
  if (PyArray_IS_C_CONTIGUOUS(array) || PyArray_IS_F_CONTIGUOUS(array)) return false;
  std::vector<std::pair<npy_intp, npy_intp>> axes;  // stride, size
  for (int i = 0; i < PyArray_NDIM(array); ++i)
    if (PyArray_DIM(array, i) > 1) axes.emplace_back(std::abs(PyArray_STRIDE(array, i)), PyArray_DIM(array, i));
  std::sort(axes.begin(), axes.end());
  npy_intp extent = PyArray_ITEMSIZE(array);
  for (const auto& [stride, size] : axes) {
    if (stride < extent) return true;
    extent += (size - 1) * stride;
  }
  return false;
}

// A new array of an output type whose sizes follow from those of the call.
PyObject* new_sized_array(const OutputType& type, const int64_t* sizes) {
  SmallVector<int64_t, 8> shape;
  for (const int64_t d : type.shape) shape.push_back(d);
  for (const auto& [axis, formula] : type.derived) {
    if (!formula.evaluate(sizes, shape[axis]) || shape[axis] < 0) {
      PyErr_SetString(PyExc_MemoryError, "the size of a result does not fit 64 bits");
      return nullptr;
    }
  }
  int64_t bytes = type.bytes;
  for (const int64_t d : shape) {
    if (__builtin_mul_overflow(bytes, d, &bytes)) return PyErr_NoMemory();
  }
  return new_array(type.dtype.get(), static_cast<int>(shape.size()), shape.data(), static_cast<size_t>(bytes));
}

}  // namespace

// What one call owns.
struct Plan::Call {
  SmallVector<PyObject*, 24> arrays;    // per input: a reference to the array that is read, or null for a number
  SmallVector<PyObject*, 24> originals; // per input: borrowed from the caller or `captured`
  SmallVector<void*, 24> pointers;
  SmallVector<void*, 16> out_pointers;
  SmallVector<PyObject*, 16> out_arrays;
  SmallVector<PyObject*, 4> captured;
  struct alignas(16) Number {
    char bytes[16];
  };
  SmallVector<Number, 16> numbers, out_numbers;
  SmallVector<int64_t, 8> sizes;  // values of the symbols

  ~Call() {
    for (PyObject* object : arrays) Py_XDECREF(object);
    for (PyObject* object : out_arrays) Py_XDECREF(object);
    for (PyObject* object : captured) Py_XDECREF(object);
  }
};

bool LayoutCheck::holds(PyObject* leaf) const {
  PyArrayObject* array = as_array(leaf);
  if (static_cast<bool>(PyArray_ISWRITEABLE(array)) != writeable) return false;
  if (!dense) return std::equal(strides.begin(), strides.end(), PyArray_STRIDES(array));
  npy_intp step = PyArray_ITEMSIZE(array);
  for (size_t i = strides.size(); i-- > 0;) {
    const int axis = static_cast<int>(strides[i]);
    if (PyArray_STRIDE(array, axis) != step) return false;
    step *= std::max<npy_intp>(PyArray_DIM(array, axis), 1);
  }
  return true;
}

bool SizeChecks::holds(PyObject* const* leaves, int64_t* sizes) const {
  const auto size_of = [leaves](const Axis& place) { return PyArray_DIM(as_array(leaves[place.leaf]), static_cast<int>(place.axis)); };
  for (size_t i = 0; i < symbols.size(); ++i) sizes[i] = size_of(symbols[i]);
  int64_t value;
  for (const auto& [place, formula] : derived)
    if (!formula.evaluate(sizes, value) || value != size_of(place)) return false;
  for (const Fact& fact : facts) {
    if (!fact.value.evaluate(sizes, value)) return false;
    if (!(fact.kind == Fact::kAtLeastZero ? value >= 0 : (value == 0) == (fact.kind == Fact::kZero))) return false;
  }
  return true;
}

bool Plan::holds(PyObject* const* leaves, size_t count) const {
  for (const auto& check : values)
    if (!same_number(leaves[check.leaf], check.value.get())) return false;
  for (const auto& check : layouts)
    if (!check.holds(leaves[check.leaf])) return false;
  if (!check_aliases) return true;
  for (size_t i = 0; i < count; ++i) {
    if (!PyArray_CheckExact(leaves[i])) continue;
    size_t first = 0;
    while (leaves[first] != leaves[i]) ++first;
    if (static_cast<int64_t>(first) != aliases[i]) return false;
  }
  return true;
}

bool Plan::conflicts(const Call& call) const {
  for (const int64_t target : written) {
    PyArrayObject* array = as_array(call.originals[target]);
    if (!PyArray_ISWRITEABLE(array) || may_repeat(array)) return true;
    const Range range(array);
    for (size_t i = 0; i < inputs.size(); ++i) {
      PyObject* other = call.originals[i];
      if (static_cast<int64_t>(i) != target && PyArray_Check(other) && range.meets(Range(as_array(other)))) return true;
    }
  }
  return false;
}

Outcome Plan::bind(PyObject* const* leaves, Call& call) const {
  const size_t count = inputs.size();
  call.numbers.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const InputSource& source = inputs[i];
    PyObject* object = source.leaf >= 0 ? leaves[source.leaf] : source.captured.get();
    if (source.leaf < 0) {
      object = strong(object);
      call.captured.push_back(object);
      if (!object || !PyArray_Check(object)) return Outcome::kMiss;  // let go of
      PyArrayObject* array = as_array(object);
      if (PyArray_TYPE(array) != source.type_number || PyArray_NDIM(array) != static_cast<int>(source.shape.size()) ||
          !PyArray_ISNOTSWAPPED(array) || !std::equal(source.shape.begin(), source.shape.end(), PyArray_DIMS(array)))
        return Outcome::kMiss;
    }
    call.originals.push_back(object);
    if (!PyArray_Check(object)) {
      call.arrays.push_back(nullptr);
      if (!number_bytes(object, call.numbers[i].bytes)) return Outcome::kMiss;
      call.pointers.push_back(call.numbers[i].bytes);
      continue;
    }
    PyArrayObject* array = as_array(object);
    PyObject* readable = PyArray_ISCARRAY_RO(array) ? Py_NewRef(object) : PyArray_NewCopy(array, NPY_CORDER);
    if (!readable) return Outcome::kError;
    call.arrays.push_back(readable);
    call.pointers.push_back(PyArray_DATA(as_array(readable)));
  }
  if (conflicts(call)) return Outcome::kMiss;
  for (const Ref& constant : constants) call.pointers.push_back(PyArray_DATA(as_array(constant.get())));
  return Outcome::kDone;
}

bool Plan::allocate(Call& call) const {
  call.out_numbers.resize(outputs.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    const OutputType& out = outputs[k];
    PyObject* array = nullptr;
    void* place;
    if (out.scalar) {
      place = call.out_numbers[k].bytes;
    } else if (out.target >= 0) {
      place = call.pointers[out.target];
    } else if (out.left) {
      place = nullptr;
    } else {
      array = out.derived.empty() ? new_array(out.dtype.get(), static_cast<int>(out.shape.size()), out.shape.data(), static_cast<size_t>(out.bytes))
                                  : new_sized_array(out, call.sizes.data());
      if (!array) return false;
      place = PyArray_DATA(as_array(array));
    }
    call.out_arrays.push_back(array);
    call.out_pointers.push_back(place);
  }
  return true;
}

// Arrays for the results whose memory the code has left.
bool Plan::adopt(Call& call) const {
  bool made = true;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs[k].left) continue;
    void* memory = call.out_pointers[k];
    PyObject* array = made ? new_sized_array(outputs[k], call.sizes.data()) : nullptr;
    made = made && array;
    if (array) std::memcpy(PyArray_DATA(as_array(array)), memory, static_cast<size_t>(PyArray_NBYTES(as_array(array))));
    call.out_arrays[k] = array;
    std::free(memory);
  }
  return made;
}

bool Plan::write_back(Call& call) const {
  for (const int64_t target : written) {
    PyObject* original = call.originals[target];
    PyObject* updated = call.arrays[target];
    if (updated != original && PyArray_CopyInto(as_array(original), as_array(updated)) < 0) return false;
  }
  return true;
}

PyObject* Plan::results(Call& call) const {
  if (finish) {
    Ref outs(PyList_New(0)), bound(PyList_New(0));
    if (!outs || !bound) return nullptr;
    for (PyObject* array : call.out_arrays)
      if (PyList_Append(outs.get(), array ? array : Py_None) < 0) return nullptr;
    for (PyObject* object : call.originals)
      if (PyList_Append(bound.get(), object) < 0) return nullptr;
    return PyObject_CallFunctionObjArgs(finish.get(), outs.get(), bound.get(), nullptr);
  }
  std::vector<Ref> stack;
  stack.reserve(build.size());
  for (const BuildStep& step : build) {
    Ref made;
    const auto count = static_cast<Py_ssize_t>(step.index);
    switch (step.kind) {
      case BuildStep::kArray:
        made = Ref::share(call.out_arrays[step.index]);
        break;
      case BuildStep::kScalar:
        made = Ref(PyArray_Scalar(call.out_numbers[step.index].bytes,
                                  reinterpret_cast<PyArray_Descr*>(outputs[step.index].dtype.get()), nullptr));
        break;
      case BuildStep::kPython:
        made = Ref(python_number(call.out_numbers[step.index].bytes,
                                 reinterpret_cast<PyArray_Descr*>(outputs[step.index].dtype.get())->type_num));
        break;
      case BuildStep::kInput:
        made = Ref::share(call.originals[step.index]);
        break;
      case BuildStep::kConstant:
        made = step.object;
        break;
      case BuildStep::kTuple:
      case BuildStep::kNamedTuple: {
        Ref tuple(PyTuple_New(count));
        if (!tuple) return nullptr;
        for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(tuple.get(), i, stack[stack.size() - count + i].release());
        stack.resize(stack.size() - count);
        made = step.kind == BuildStep::kTuple ? tuple : Ref(PyObject_Call(step.object.get(), tuple.get(), nullptr));
        break;
      }
      case BuildStep::kList: {
        made = Ref(PyList_New(count));
        if (!made) return nullptr;
        for (Py_ssize_t i = 0; i < count; ++i) PyList_SET_ITEM(made.get(), i, stack[stack.size() - count + i].release());
        stack.resize(stack.size() - count);
        break;
      }
      case BuildStep::kDict: {
        made = Ref(PyDict_New());
        if (!made) return nullptr;
        for (Py_ssize_t i = 0; i < count; ++i)
          if (PyDict_SetItem(made.get(), PyTuple_GET_ITEM(step.object.get(), i), stack[stack.size() - count + i].get()) < 0) return nullptr;
        stack.resize(stack.size() - count);
        break;
      }
    }
    if (!made) return nullptr;
    stack.push_back(std::move(made));
  }
  return stack.back().release();
}

Outcome Plan::run(PyObject* const* leaves, size_t count, PyObject** result) const {
  Call call;
  call.sizes.resize(sizes.symbols.size() + found);
  if (!sizes.holds(leaves, call.sizes.data()) || !holds(leaves, count)) return Outcome::kMiss;
  const Outcome bound = bind(leaves, call);
  if (bound != Outcome::kDone) return bound;
  try {
    int64_t scratch = 0;
    if (!workspace_bytes.evaluate(call.sizes.data(), scratch)) throw std::bad_alloc();
    const Workspace workspace(scratch);
    if (!allocate(call)) return Outcome::kError;
    FunctxCall raw{};
    raw.inputs = call.pointers.data();
    raw.outputs = call.out_pointers.data();
    raw.dims = call.sizes.size() ? call.sizes.data() : nullptr;
    raw.workspace = workspace.data();
    Context context;
    context.callback = callback.get();
    const int status = library->run(raw, context);
    if (context.raised) {
      context.restore();
      return Outcome::kError;
    }
    if (status != FUNCTX_OK) {
      const int64_t* v = raw.error_values;
      Ref error(PyObject_CallFunction(on_error.get(), "ii(LLLL)", raw.error_eqn, raw.error_kind, static_cast<long long>(v[0]),
                                      static_cast<long long>(v[1]), static_cast<long long>(v[2]), static_cast<long long>(v[3])));
      if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
      return Outcome::kError;
    }
    if (!adopt(call) || !write_back(call)) return Outcome::kError;
    *result = results(call);
    return *result ? Outcome::kDone : Outcome::kError;
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    return Outcome::kError;
  }
}

}  // namespace functx
