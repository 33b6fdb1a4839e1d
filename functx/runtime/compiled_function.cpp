#include "compiled_function.h"

#include <structmember.h>

#include <algorithm>
#include <list>
#include <memory>
#include <unordered_map>

#include "plan.h"
#include "signature.h"

namespace functx {

namespace {

PyObject* trace_variable = nullptr;
PyObject* config_variable = nullptr;

// A signature under which a plan can be found.
struct Alias {
  std::vector<uint64_t> words;
  std::vector<uint64_t> mask;  // of each word the bits that count; empty: all. Sizes that are symbolic do not count
  std::vector<Ref> objects;
  std::vector<size_t> order;  // the leaf of the Python side at each place of the signature
  bool in_order;
  Ref config;
  Ref capsule;
  const Plan* plan;

  bool matches(const Signature& call, PyObject* present_config) const {
    if (config.get() != present_config || words.size() != call.words.size()) return false;
    if (mask.empty() ? !std::equal(words.begin(), words.end(), call.words.begin()) : !matches_masked(call)) return false;
    for (size_t i = 0; i < objects.size(); ++i)
      if (!same_object(objects[i].get(), call.objects[i])) return false;
    return true;
  }

 private:
  bool matches_masked(const Signature& call) const {
    for (size_t i = 0; i < words.size(); ++i)
      if ((words[i] ^ call.words[i]) & mask[i]) return false;
    return true;
  }
};

// The aliases of one function, most recently used first. Python's lock guards it.
class Table {
 public:
  using Iterator = std::list<std::shared_ptr<Alias>>::iterator;
  using Index = std::unordered_multimap<uint64_t, Iterator>;

  std::shared_ptr<Alias> front() const { return aliases_.empty() ? nullptr : aliases_.front(); }

  std::vector<std::shared_ptr<Alias>> all() const { return {aliases_.begin(), aliases_.end()}; }

  std::vector<std::shared_ptr<Alias>> find(const Signature& signature, PyObject* config) const {
    std::vector<std::shared_ptr<Alias>> out;
    const auto collect = [&](const Index& index, uint64_t hash) {
      auto range = index.equal_range(hash);
      for (auto it = range.first; it != range.second; ++it)
        if ((*it->second)->matches(signature, config)) out.push_back(*it->second);
    };
    collect(index_, signature.hash());
    if (!by_ranks_.empty()) collect(by_ranks_, signature.hash_of_ranks());
    return out;
  }

  void touch(const Alias* alias) {
    for (auto it = aliases_.begin(); it != aliases_.end(); ++it)
      if (it->get() == alias) return aliases_.splice(aliases_.begin(), aliases_, it);
  }

  void add(std::shared_ptr<Alias> alias, const Signature& signature, size_t limit) {
    const bool symbolic = !alias->mask.empty();
    aliases_.push_front(std::move(alias));
    if (symbolic) {
      by_ranks_.emplace(signature.hash_of_ranks(), aliases_.begin());
    } else {
      index_.emplace(signature.hash(), aliases_.begin());
    }
    while (aliases_.size() > limit) remove(std::prev(aliases_.end()));
  }

  void drop(PyObject* capsule) {
    for (auto it = aliases_.begin(); it != aliases_.end();) {
      auto next = std::next(it);
      if ((*it)->capsule.get() == capsule) remove(it);
      it = next;
    }
  }

  void clear() {
    index_.clear();
    by_ranks_.clear();
    auto gone = std::move(aliases_);  // destroyed last: that may run Python code, which must find an empty table
    aliases_.clear();
  }

 private:
  void remove(Iterator it) {
    Index& index = (*it)->mask.empty() ? index_ : by_ranks_;
    for (auto entry = index.begin(); entry != index.end(); ++entry)
      if (entry->second == it) {
        index.erase(entry);
        break;
      }
    const auto gone = *it;
    aliases_.erase(it);
  }

  std::list<std::shared_ptr<Alias>> aliases_;
  Index index_;     // by the whole signature
  Index by_ranks_;  // of aliases that hold for several sizes: by the signature without sizes
};

struct Function {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* dict;
  PyObject* weakrefs;
  PyObject* slow;
  PyObject* static_names;
  std::vector<Py_ssize_t>* static_positions;
  Table* table;
  unsigned long long hits;
};

Function* self_of(PyObject* object) { return reinterpret_cast<Function*>(object); }

// The value of a context variable, null if it has none (a new reference either way). False: an error.
bool context_value(PyObject* variable, Ref& out) {
  PyObject* value = nullptr;
  if (PyContextVar_Get(variable, nullptr, &value) < 0) return false;
  out = Ref(value);
  return true;
}

Outcome run_alias(const std::shared_ptr<Alias>& alias, const Signature& signature, PyObject** result) {
  if (alias->in_order) return alias->plan->run(signature.leaves.data(), signature.leaves.size(), result);
  SmallVector<PyObject*, 32> leaves;
  leaves.resize(signature.leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i) leaves[alias->order[i]] = signature.leaves[i];
  return alias->plan->run(leaves.data(), leaves.size(), result);
}

// kMiss also where the call cannot be described.
Outcome fast_call(Function* self, PyObject* const* args, Py_ssize_t count, PyObject* names, PyObject** result) {
  if (!trace_variable) return Outcome::kMiss;
  Ref trace, config;
  if (!context_value(trace_variable, trace) || !context_value(config_variable, config)) return Outcome::kError;
  if (trace && trace.get() != Py_None) return Outcome::kMiss;
  std::shared_ptr<Alias> first = self->table->front();
  if (!first) return Outcome::kMiss;
  Signature signature;
  if (!signature.read(args, count, names, *self->static_positions, self->static_names)) return Outcome::kMiss;
  if (first->matches(signature, config.get())) {
    const Outcome outcome = run_alias(first, signature, result);
    if (outcome != Outcome::kMiss) return outcome;
  }
  for (const auto& alias : self->table->find(signature, config.get())) {
    if (alias == first) continue;
    const Outcome outcome = run_alias(alias, signature, result);
    if (outcome == Outcome::kDone) self->table->touch(alias.get());
    if (outcome != Outcome::kMiss) return outcome;
  }
  return Outcome::kMiss;
}

PyObject* call(PyObject* object, PyObject* const* args, size_t flagged_count, PyObject* names) {
  Function* self = self_of(object);
  PyObject* result = nullptr;
  Outcome outcome;
  try {
    outcome = fast_call(self, args, PyVectorcall_NARGS(flagged_count), names, &result);
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
  if (outcome == Outcome::kDone) ++self->hits;
  if (outcome != Outcome::kMiss) return result;
  return PyObject_Vectorcall(self->slow, args, flagged_count, names);
}

// The words that count in the signatures of a plan's calls; empty: all.
std::vector<uint64_t> mask_of(const Plan& plan, const Signature& signature, const std::vector<size_t>& order) {
  std::vector<SizeChecks::Axis> open(plan.sizes.symbols);
  for (const auto& [place, formula] : plan.sizes.derived) open.push_back(place);
  if (open.empty()) return {};
  std::vector<uint64_t> mask(signature.words.size(), ~uint64_t{0});
  for (const auto& [leaf, axis] : open) {
    const auto place = std::find(order.begin(), order.end(), static_cast<size_t>(leaf)) - order.begin();
    mask[signature.sizes_at[static_cast<size_t>(place)] + static_cast<size_t>(axis)] = 0;
  }
  return mask;
}

// install(args, kwargs, numbers, plan, limit): `numbers` is (args, kwargs) with each leaf's number in its place.
PyObject* install(PyObject* object, PyObject* arguments) {
  Function* self = self_of(object);
  PyObject *args, *kwargs, *number_args, *number_kwargs, *capsule;
  Py_ssize_t limit;
  if (!PyArg_ParseTuple(arguments, "O!O!O!O!On", &PyTuple_Type, &args, &PyDict_Type, &kwargs, &PyTuple_Type, &number_args, &PyDict_Type,
                        &number_kwargs, &capsule, &limit))
    return nullptr;
  auto* plan = static_cast<Plan*>(PyCapsule_GetPointer(capsule, kPlanCapsule));
  if (!plan) return nullptr;
  Ref config;
  if (!context_value(config_variable, config)) return nullptr;

  Ref names(PyTuple_New(PyDict_GET_SIZE(kwargs)));
  if (!names) return nullptr;
  std::vector<PyObject*> values(PySequence_Fast_ITEMS(args), PySequence_Fast_ITEMS(args) + PyTuple_GET_SIZE(args));
  PyObject *key, *value;
  Py_ssize_t position = 0, i = 0;
  while (PyDict_Next(kwargs, &position, &key, &value)) {
    PyTuple_SET_ITEM(names.get(), i++, Py_NewRef(key));
    values.push_back(value);
  }
  Signature signature;
  if (!signature.read(values.data(), PyTuple_GET_SIZE(args), names.get(), *self->static_positions, self->static_names))
    Py_RETURN_FALSE;  // such calls stay with Python
  for (const auto& alias : self->table->find(signature, config.get()))
    if (alias->capsule.get() == capsule) Py_RETURN_TRUE;  // there, though something beyond the plan's conditions failed

  auto alias = std::make_shared<Alias>();
  alias->words.assign(signature.words.begin(), signature.words.end());
  for (PyObject* one : signature.objects) alias->objects.push_back(Ref::share(one));
  Py_ssize_t dynamic = 0;
  for (i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    if (is_static_position(*self->static_positions, i, PyTuple_GET_SIZE(args))) continue;
    if (!Signature::order(values[i], PyTuple_GET_ITEM(number_args, dynamic++), alias->order)) return nullptr;
  }
  for (i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
    PyObject* name = PyTuple_GET_ITEM(names.get(), i);
    PyObject* numbers = PyDict_GetItemWithError(number_kwargs, name);
    if (!numbers && PyErr_Occurred()) return nullptr;
    if (numbers && !Signature::order(values[PyTuple_GET_SIZE(args) + i], numbers, alias->order)) return nullptr;
  }
  alias->in_order = true;
  for (size_t k = 0; k < alias->order.size(); ++k) alias->in_order &= alias->order[k] == k;
  alias->mask = mask_of(*plan, signature, alias->order);
  alias->config = std::move(config);
  alias->capsule = Ref::share(capsule);
  alias->plan = plan;
  self->table->add(std::move(alias), signature, static_cast<size_t>(limit));
  Py_RETURN_TRUE;
}

PyObject* forget(PyObject* object, PyObject* capsule) {
  if (capsule == Py_None) {
    self_of(object)->table->clear();
  } else {
    self_of(object)->table->drop(capsule);
  }
  Py_RETURN_NONE;
}

// The plans, most recently used first.
PyObject* plans(PyObject* object, PyObject*) {
  Ref list(PyList_New(0));
  if (!list) return nullptr;
  for (const auto& alias : self_of(object)->table->all())
    if (PyList_Append(list.get(), alias->capsule.get()) < 0) return nullptr;
  return list.release();
}

PyObject* create(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"slow", "static_positions", "static_names", nullptr};
  PyObject *slow, *positions, *static_names;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O!", const_cast<char**>(names), &slow, &PyTuple_Type, &positions, &PyFrozenSet_Type,
                                   &static_names))
    return nullptr;
  auto owned = std::make_unique<std::vector<Py_ssize_t>>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positions); ++i) {
    owned->push_back(PyLong_AsSsize_t(PyTuple_GET_ITEM(positions, i)));
    if (owned->back() == -1 && PyErr_Occurred()) return nullptr;
  }
  PyObject* object = type->tp_alloc(type, 0);
  if (!object) return nullptr;
  Function* self = self_of(object);
  self->vectorcall = call;
  self->slow = Py_NewRef(slow);
  self->static_names = PySet_GET_SIZE(static_names) ? Py_NewRef(static_names) : nullptr;
  self->static_positions = owned.release();
  self->table = new Table;
  return object;
}

int clear(PyObject* object) {
  Function* self = self_of(object);
  Py_CLEAR(self->dict);
  Py_CLEAR(self->slow);
  if (self->table) self->table->clear();
  return 0;
}

// What aliases hold are strings, types, arrays and constants of results: cycles run through `slow` and `dict` only.
int traverse(PyObject* object, visitproc visit, void* arg) {
  Function* self = self_of(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->dict);
  Py_VISIT(self->slow);
  return 0;
}

void destroy(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Function* self = self_of(object);
  PyObject_GC_UnTrack(object);
  if (self->weakrefs) PyObject_ClearWeakRefs(object);
  clear(object);
  Py_XDECREF(self->static_names);
  delete self->table;
  delete self->static_positions;
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* bind_method(PyObject* object, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) return Py_NewRef(object);
  return PyMethod_New(object, instance);
}

// What the function itself does not have, `slow`'s owner has: ir, code, cache_info, ...
PyObject* attribute(PyObject* object, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(object, name);
  Function* self = self_of(object);
  if (found || !self->slow || !PyErr_ExceptionMatches(PyExc_AttributeError) || !PyMethod_Check(self->slow)) return found;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  found = PyObject_GetAttr(PyMethod_GET_SELF(self->slow), name);
  if (found) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return found;
  }
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  return nullptr;
}

PyObject* owner_calls(PyObject* object, const char* method) {
  Function* self = self_of(object);
  if (!self->slow || !PyMethod_Check(self->slow)) return PyUnicode_FromString("<functx function>");
  return PyObject_CallMethod(PyMethod_GET_SELF(self->slow), method, nullptr);
}

PyObject* represent(PyObject* object) { return owner_calls(object, "__repr__"); }
PyObject* reduce(PyObject* object, PyObject*) { return owner_calls(object, "__reduce__"); }

PyMethodDef methods[] = {
    {"_install", install, METH_VARARGS, "Use a plan for calls like the given one."},
    {"_forget", forget, METH_O, "Drop the aliases of a plan, or all (None)."},
    {"_plans", plans, METH_NOARGS, "The plans of all aliases, most recently used first."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"__reduce_ex__", reduce, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Function, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Function, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Function, weakrefs), READONLY, nullptr},
    {"_native_hits", T_ULONGLONG, offsetof(Function, hits), 0, "Calls that ran without Python."},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef getters[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(create)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_descr_get, reinterpret_cast<void*>(bind_method)},
    {Py_tp_getattro, reinterpret_cast<void*>(attribute)},
    {Py_tp_repr, reinterpret_cast<void*>(represent)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, getters},
    {0, nullptr},
};

PyType_Spec spec = {"functx.CompiledFunction", sizeof(Function), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, slots};

}  // namespace

void set_context_variables(PyObject* trace, PyObject* config) {
  trace_variable = Py_NewRef(trace);
  config_variable = Py_NewRef(config);
}

PyObject* make_compiled_function_type() { return PyType_FromSpec(&spec); }

}  // namespace functx
