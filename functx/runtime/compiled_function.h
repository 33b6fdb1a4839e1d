// The callable that jit returns. A call whose signature is known runs its plan; every other call goes to `slow`, a Python
// callable that finds or makes the entry and installs a plan here.

#ifndef FUNCTX_RUNTIME_COMPILED_FUNCTION_H
#define FUNCTX_RUNTIME_COMPILED_FUNCTION_H

#include <Python.h>

namespace functx {

// Makes the type; null with an exception set. Plans are capsules named kPlanCapsule.
PyObject* make_compiled_function_type();

constexpr const char* kPlanCapsule = "functx.plan";

// The context variables that a fast call must find as they were: no trace running, the same options.
void set_context_variables(PyObject* trace, PyObject* config);

}  // namespace functx

#endif
