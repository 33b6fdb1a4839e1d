#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NO_IMPORT_ARRAY
#define PY_ARRAY_UNIQUE_SYMBOL functx_array_api
#include "signature.h"

#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#include <algorithm>

namespace functx {

namespace {

enum Tag : uint64_t { kArray = 1, kScalar, kFloat, kInt, kBool, kComplex, kTuple, kList, kDict, kNone, kNamedTuple, kStatic, kKeyword };

constexpr uint64_t kHashSeed = 14695981039346656037ull, kHashPrime = 1099511628211ull;
constexpr int kMaxDepth = 64;  // deeper containers are left to Python, which has its own limit

uint64_t word(Tag tag, uint64_t a = 0, uint64_t b = 0) { return tag | a << 8 | b << 32; }

bool is_named_tuple(PyObject* object) {
  return PyTuple_Check(object) && PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "_fields");
}

}  // namespace

uint64_t Signature::hash() const {
  uint64_t hash = kHashSeed;
  for (const uint64_t word : words) hash = (hash ^ word) * kHashPrime;
  return hash;
}

uint64_t Signature::hash_of_ranks() const {
  uint64_t hash = kHashSeed;
  size_t at = 0;
  const auto up_to = [&](size_t end) {
    for (; at < end; ++at) hash = (hash ^ words[at]) * kHashPrime;
  };
  for (const size_t sizes : sizes_at) {
    if (sizes == 0) continue;
    up_to(sizes);
    at = sizes + static_cast<size_t>(words[sizes - 1] >> 32);  // the word before them ends in their number
  }
  up_to(words.size());
  return hash;
}

bool same_object(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyUnicode_CheckExact(a)) return PyUnicode_Compare(a, b) == 0;
  if (!PyLong_CheckExact(a) && !PyBytes_CheckExact(a)) return false;
  return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

bool is_static_position(const std::vector<Py_ssize_t>& positions, Py_ssize_t i, Py_ssize_t count) {
  return std::any_of(positions.begin(), positions.end(), [=](Py_ssize_t p) { return i == (p < 0 ? p + count : p); });
}

bool Signature::add_static(PyObject* object) {
  // Equal strings and numbers have equal hashes; other objects count by identity.
  const bool by_value = PyUnicode_CheckExact(object) || PyLong_CheckExact(object) || PyBytes_CheckExact(object);
  const auto hash = by_value ? static_cast<uint64_t>(PyObject_Hash(object)) : reinterpret_cast<uintptr_t>(object);
  words.push_back(word(kStatic));
  words.push_back(hash);
  objects.push_back(object);
  return true;
}

void Signature::add_leaf(PyObject* object, size_t at) {
  leaves.push_back(object);
  sizes_at.push_back(at);
}

bool Signature::add(PyObject* object, int depth) {
  if (PyArray_CheckExact(object)) {
    auto* array = reinterpret_cast<PyArrayObject*>(object);
    if (!PyArray_ISNOTSWAPPED(array)) return false;
    const int rank = PyArray_NDIM(array);
    words.push_back(word(kArray, static_cast<uint32_t>(PyArray_TYPE(array)) & 0xffffff, static_cast<uint64_t>(rank)));
    add_leaf(object, words.size());
    for (int i = 0; i < rank; ++i) words.push_back(static_cast<uint64_t>(PyArray_DIM(array, i)));
    return true;
  }
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyComplex_Type) {
    words.push_back(word(type == &PyFloat_Type ? kFloat : type == &PyLong_Type ? kInt : type == &PyBool_Type ? kBool : kComplex));
    add_leaf(object);
    return true;
  }
  if (object == Py_None) {
    words.push_back(word(kNone));
    return true;
  }
  if (depth > kMaxDepth) return false;
  if (type == &PyTuple_Type || type == &PyList_Type) {
    const bool tuple = type == &PyTuple_Type;
    const Py_ssize_t count = tuple ? PyTuple_GET_SIZE(object) : PyList_GET_SIZE(object);
    words.push_back(word(tuple ? kTuple : kList, 0, static_cast<uint64_t>(count)));
    for (Py_ssize_t i = 0; i < count; ++i)
      if (!add(tuple ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i), depth + 1)) return false;
    return true;
  }
  if (type == &PyDict_Type) {
    words.push_back(word(kDict, 0, static_cast<uint64_t>(PyDict_GET_SIZE(object))));
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) {
      if (!PyUnicode_CheckExact(key)) return false;
      add_static(key);
      if (!add(value, depth + 1)) return false;
    }
    return true;
  }
  if (PyArray_IsScalar(object, Generic)) {
    PyArray_Descr* descr = PyArray_DescrFromScalar(object);
    if (!descr) {
      PyErr_Clear();
      return false;
    }
    const int number = descr->type_num;
    Py_DECREF(descr);
    words.push_back(word(kScalar, static_cast<uint32_t>(number) & 0xffffff));
    add_leaf(object);
    return true;
  }
  if (type == &PyUnicode_Type || type == &PyBytes_Type) {
    add_leaf(object);
    return add_static(object);
  }
  if (is_named_tuple(object)) {
    const Py_ssize_t count = PyTuple_GET_SIZE(object);
    words.push_back(word(kNamedTuple, 0, static_cast<uint64_t>(count)));
    add_static(reinterpret_cast<PyObject*>(type));
    for (Py_ssize_t i = 0; i < count; ++i)
      if (!add(PyTuple_GET_ITEM(object, i), depth + 1)) return false;
    return true;
  }
  return false;
}

bool Signature::read(PyObject* const* args, Py_ssize_t count, PyObject* names, const std::vector<Py_ssize_t>& static_positions,
                     PyObject* static_names) {
  words.push_back(word(kTuple, 0, static_cast<uint64_t>(count)));
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!(is_static_position(static_positions, i, count) ? add_static(args[i]) : add(args[i], 0))) return false;
  }
  const Py_ssize_t keywords = names ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    words.push_back(word(kKeyword));
    add_static(name);
    const int is_static = static_names ? PySet_Contains(static_names, name) : 0;
    if (is_static < 0) {
      PyErr_Clear();
      return false;
    }
    if (!(is_static ? add_static(args[count + i]) : add(args[count + i], 0))) return false;
  }
  return true;
}

bool Signature::order(PyObject* tree, PyObject* numbers, std::vector<size_t>& out) {
  if (tree == Py_None) return true;
  if (PyTuple_CheckExact(tree) || PyList_CheckExact(tree) || is_named_tuple(tree)) {
    for (Py_ssize_t i = 0, count = PySequence_Size(tree); i < count; ++i) {
      PyObject* item = PySequence_GetItem(tree, i);
      PyObject* number = PySequence_GetItem(numbers, i);
      const bool good = item && number && order(item, number, out);
      Py_XDECREF(item);
      Py_XDECREF(number);
      if (!good) return false;
    }
    return true;
  }
  if (PyDict_CheckExact(tree)) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(tree, &position, &key, &value)) {
      PyObject* number = PyObject_GetItem(numbers, key);
      const bool good = number && order(value, number, out);
      Py_XDECREF(number);
      if (!good) return false;
    }
    return true;
  }
  const size_t number = PyLong_AsSize_t(numbers);
  if (number == static_cast<size_t>(-1) && PyErr_Occurred()) return false;
  out.push_back(number);
  return true;
}

}  // namespace functx
