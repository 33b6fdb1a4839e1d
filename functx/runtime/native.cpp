// functx._native: the module. What it offers to Python is defined in the files beside it.

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL functx_array_api
#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <numpy/arrayobject.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compiled_function.h"
#include "library.h"
#include "plan.h"

namespace nb = nanobind;
using namespace nb::literals;
using functx::BuildStep;
using functx::Formula;
using functx::Library;
using functx::Plan;
using functx::Ref;

namespace {

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
      if (outputs[i].is_none()) {
        pointers_.push_back(nullptr);
        continue;
      }
      PyArrayObject* array = add("outputs", i, outputs[i]);
      if (PyArray_ISCARRAY(array)) continue;  // a macro that evaluates its argument twice
      throw nb::value_error((position("outputs", i) + " must be C-contiguous, aligned, writeable and in native byte order").c_str());
    }
    rows_.reserve(inputs.size());
    for (size_t offset : offsets_) rows_.push_back(strides_.data() + offset);
  }

  void* const* inputs() const { return pointers_.data(); }
  void** outputs() { return pointers_.data() + rows_.size(); }
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

nb::tuple run_library(const Library& library, const nb::list& inputs, nb::list outputs, int64_t workspace_bytes, nb::object callback,
                      nb::list sizes) {
  if (library.is_closed()) throw nb::value_error("run() of a closed library");
  if (workspace_bytes < 0) throw nb::value_error("workspace must not be negative");
  Arguments arguments(inputs, outputs);
  const functx::Workspace workspace(workspace_bytes);
  functx::Context context;
  context.callback = callback.ptr();
  FunctxCall call{};
  call.inputs = arguments.inputs();
  call.strides = arguments.strides();
  call.outputs = arguments.outputs();
  call.workspace = workspace.data();
  auto dims = nb::cast<std::vector<int64_t>>(sizes);
  call.dims = dims.empty() ? nullptr : dims.data();
  const int status = library.run(call, context);
  if (context.raised) {
    context.restore();
    throw nb::python_error();
  }
  const int64_t* values = call.error_values;
  for (size_t i = 0; i < dims.size(); ++i) sizes[i] = dims[i];
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].is_none()) outputs[i] = reinterpret_cast<uintptr_t>(call.outputs[i]);
  return nb::make_tuple(status, call.error_eqn, call.error_kind, nb::make_tuple(values[0], values[1], values[2], values[3]));
}

Ref share(nb::handle object) { return Ref::share(object.ptr()); }

PyArray_Descr* descr_of(nb::handle dtype) { return reinterpret_cast<PyArray_Descr*>(dtype.ptr()); }

using Shape = std::vector<int64_t>;
using Program = std::vector<int64_t>;

// (places of symbols, [(place, formula)], [(kind, formula)]), where a place is (leaf, axis).
functx::SizeChecks size_checks(const nb::tuple& description) {
  const auto place_of = [](nb::handle place) {
    return functx::SizeChecks::Axis{nb::cast<int64_t>(nb::object(place[0])), nb::cast<int64_t>(nb::object(place[1]))};
  };
  functx::SizeChecks checks;
  for (nb::handle place : nb::cast<nb::list>(description[0])) checks.symbols.push_back(place_of(place));
  const size_t symbols = checks.symbols.size();
  for (nb::handle item : nb::cast<nb::list>(description[1]))
    checks.derived.emplace_back(place_of(nb::object(item[0])), Formula(nb::cast<Program>(nb::object(item[1])), symbols));
  for (nb::handle item : nb::cast<nb::list>(description[2])) {
    const auto kind = static_cast<functx::SizeChecks::Fact::Kind>(nb::cast<int>(nb::object(item[0])));
    checks.facts.push_back({kind, Formula(nb::cast<Program>(nb::object(item[1])), symbols)});
  }
  return checks;
}

// The value of a formula; None where it has none. For tests.
nb::object evaluate(Program program, const std::vector<int64_t>& sizes) {
  int64_t value;
  return Formula(std::move(program), sizes.size()).evaluate(sizes.data(), value) ? nb::cast(value) : nb::none();
}

// A plan from its description; see functx.transforms.native_calls, which makes it.
nb::object make_plan(const Library& library, std::vector<int64_t> workspace_bytes, nb::object callback, nb::object on_error,
                     const nb::list& constants, const nb::list& inputs, const nb::list& outputs, const nb::list& values,
                     const nb::list& layouts, std::vector<int64_t> written, nb::object aliases, const nb::list& build, nb::object finish,
                     const nb::tuple& sizes, int64_t found) {
  auto plan = std::make_unique<Plan>();
  plan->library = std::make_shared<Library>(library);
  plan->sizes = size_checks(sizes);
  plan->found = found;
  const size_t symbols = plan->sizes.symbols.size();
  plan->workspace_bytes = Formula(std::move(workspace_bytes), symbols);
  plan->callback = share(callback);
  plan->on_error = share(on_error);
  for (nb::handle array : constants) plan->constants.push_back(share(array));
  for (nb::handle item : inputs) {  // (leaf, captured, dtype, shape)
    auto parts = nb::cast<nb::tuple>(item);
    functx::InputSource source;
    source.leaf = nb::cast<int64_t>(parts[0]);
    source.captured = share(parts[1]);
    source.type_number = descr_of(parts[2])->type_num;
    source.shape = nb::cast<Shape>(parts[3]);  // of captured arrays
    plan->inputs.push_back(std::move(source));
  }
  for (nb::handle item : outputs) {  // (dtype, shape, target, scalar, left); a size is a number or a formula
    auto parts = nb::cast<nb::tuple>(item);
    functx::OutputType out;
    out.dtype = share(parts[0]);
    for (nb::handle d : nb::cast<nb::tuple>(parts[1])) {
      if (!nb::isinstance<nb::int_>(d)) out.derived.emplace_back(out.shape.size(), Formula(nb::cast<Program>(d), symbols + found));
      out.shape.push_back(nb::isinstance<nb::int_>(d) ? nb::cast<int64_t>(d) : 1);
    }
    out.target = nb::cast<int64_t>(parts[2]);
    out.scalar = nb::cast<bool>(parts[3]);
    out.left = nb::cast<bool>(parts[4]);
    out.bytes = static_cast<int64_t>(PyDataType_ELSIZE(descr_of(parts[0])));
    if (out.derived.empty())
      for (int64_t d : out.shape) out.bytes *= d;
    plan->outputs.push_back(std::move(out));
  }
  for (nb::handle item : values) plan->values.push_back({nb::cast<int64_t>(item[0]), share(nb::object(item[1]))});
  for (nb::handle item : layouts)
    plan->layouts.push_back(
        {nb::cast<int64_t>(item[0]), nb::cast<Shape>(nb::object(item[1])), nb::cast<bool>(item[2]), nb::cast<bool>(item[3])});
  plan->written = std::move(written);
  if (!aliases.is_none()) {
    plan->check_aliases = true;
    plan->aliases = nb::cast<Shape>(aliases);
  }
  for (nb::handle item : build)  // (kind, index, object)
    plan->build.push_back({static_cast<BuildStep::Kind>(nb::cast<int>(item[0])), nb::cast<int64_t>(item[1]), share(nb::object(item[2]))});
  if (!finish.is_none()) plan->finish = share(finish);
  PyObject* capsule = PyCapsule_New(plan.get(), functx::kPlanCapsule, [](PyObject* capsule) {
    delete static_cast<Plan*>(PyCapsule_GetPointer(capsule, functx::kPlanCapsule));
  });
  if (!capsule) throw nb::python_error();
  plan.release();
  return nb::steal(capsule);
}

}  // namespace

NB_MODULE(_native, module) {
  if (PyArray_ImportNumPyAPI() < 0) throw nb::python_error();
  if (!functx::install_fork_handler()) throw std::bad_alloc();

  // Libraries live as long as the caches that hold them, which is until the interpreter has gone: nothing to warn of.
  nb::set_leak_warnings(false);
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const functx::LoadError& error) {
      PyErr_SetString(PyExc_OSError, error.what());
    }
  });

  module.doc() = "Loads the libraries that functx compiles, and calls them.";
  nb::class_<Library>(module, "Library", "A compiled library that exports run(FunctxCall*), see functx/runtime/call.h.")
      .def("__init__", [](Library* self, const std::filesystem::path& path) { new (self) Library(path.string()); }, "path"_a,
           "Loads the library at path; OSError with the loader's words if it cannot be loaded or exports no `run`.")
      .def("run", run_library, "inputs"_a, "outputs"_a, "workspace"_a = 0, "callback"_a = nb::none(),
           "dims"_a = nb::list(),
           "Calls the library without Python's lock; returns (status, eqn, kind, (v0, v1, v2, v3)).\n\n"
           "inputs: list of numpy.ndarray with any strides. outputs: list of C-contiguous writeable numpy.ndarray; None where the\n"
           "library leaves memory, whose address stands there afterwards, for take(). dims: list of sizes, which it may change.\n"
           "workspace: bytes of scratch memory. callback(eqn, inputs, outputs): called with two lists of addresses, and with the\n"
           "address of the sizes where there are some; what it raises is raised from here. dtypes and shapes are not checked.\n"
           "ValueError after close().")
      .def("close", &Library::close, "Unloads the library, once calls still running have returned; closing twice is harmless.");

  module.def("make_plan", make_plan, "library"_a, "workspace_bytes"_a, "callback"_a.none(), "on_error"_a, "constants"_a, "inputs"_a,
             "outputs"_a, "values"_a, "layouts"_a, "written"_a, "aliases"_a.none(), "build"_a, "finish"_a.none(), "sizes"_a, "found"_a,
             "How an entry is called, for CompiledFunction._install; see functx.transforms.native_calls.");
  module.def("take", [](uintptr_t address, nb::handle array) {
    auto* target = reinterpret_cast<PyArrayObject*>(array.ptr());
    void* memory = reinterpret_cast<void*>(address);
    if (memory) std::memcpy(PyArray_DATA(target), memory, static_cast<size_t>(PyArray_NBYTES(target)));
    std::free(memory);
  }, "address"_a, "array"_a, "Copies memory that a library has left into a C-contiguous array, and frees it.");
  module.def("evaluate", evaluate, "program"_a, "sizes"_a, "The value of a formula (functx.sizes); None: it overflows or divides by zero.");
  module.def("set_context_variables", [](nb::handle trace, nb::handle config) { functx::set_context_variables(trace.ptr(), config.ptr()); },
             "trace"_a, "config"_a, "The context variables of the current trace and of the configuration.");
  PyObject* type = functx::make_compiled_function_type();
  if (!type) throw nb::python_error();
  module.attr("CompiledFunction") = nb::steal(type);
}
