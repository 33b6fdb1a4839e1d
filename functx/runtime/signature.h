// What two calls must share to use the same compiled code: the containers of the arguments and the type of every leaf, as a
// list of words. Values that are compared as objects (names, strings, static arguments) stand beside it.
//
// The signature is an accelerator, not the definition of the key: where it cannot describe a call, or two equal calls have
// different signatures, the Python side finds the entry.

#ifndef FUNCTX_RUNTIME_SIGNATURE_H
#define FUNCTX_RUNTIME_SIGNATURE_H

#include <Python.h>

#include <cstdint>
#include <vector>

#include "small_vector.h"

namespace functx {

struct Signature {
  SmallVector<uint64_t, 64> words;
  SmallVector<PyObject*, 16> leaves;   // borrowed: every argument that is no container
  SmallVector<size_t, 16> sizes_at;    // per leaf the word of its first size; 0 for one that is no array
  SmallVector<PyObject*, 16> objects;  // borrowed: what is compared by value

  // A hash of all words; without those of sizes, which calls of one rank share.
  uint64_t hash() const;
  uint64_t hash_of_ranks() const;

  // Takes a call apart. False: it cannot be described (no exception is set).
  bool read(PyObject* const* args, Py_ssize_t count, PyObject* names, const std::vector<Py_ssize_t>& static_positions,
            PyObject* static_names);

  // The leaves of the parallel container of numbers `like` in the order of `leaves`. False with an exception set.
  static bool order(PyObject* tree, PyObject* numbers, std::vector<size_t>& out);

 private:
  bool add(PyObject* object, int depth);
  void add_leaf(PyObject* object, size_t sizes_at = 0);
  bool add_static(PyObject* object);
};

// Whether the argument at place i of `count` is static; negative positions count from the end.
bool is_static_position(const std::vector<Py_ssize_t>& positions, Py_ssize_t i, Py_ssize_t count);

// Whether two objects stand for the same static value: identical, or equal strings, numbers, bytes of one type.
bool same_object(PyObject* a, PyObject* b);

}  // namespace functx

#endif
