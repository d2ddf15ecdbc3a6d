// The extension module: what the package `ringway` is made of.
#include <nanobind/nanobind.h>

#include "errors.h"
#include "interpreter.h"
#include "session.h"
#include "shared_state.h"
#include "work.h"

NB_MODULE(ringway_of_main, module) {
  // Trainers leave through sys.exit with sessions and works in global variables; their sessions are ended at exit.
  nanobind::set_leak_warnings(false);
  ringway::python::DefineErrors(module);
  ringway::python::DefineSession(module);
  ringway::python::DefineSharedState(module);
  ringway::python::DefineWork(module);
  ringway::python::PrepareExit();
}

// Sessions, their end at exit and the classes are the process's: a second interpreter that defines them again takes
// them from the first, so it is refused before anything is defined.
PyMODINIT_FUNC PyInit__ringway() {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) return PyInit_ringway_of_main();
  PyErr_SetString(PyExc_ImportError, "ringway works in a process's main interpreter only: import it there");
  return nullptr;
}
