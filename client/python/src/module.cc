// The extension module: what the package `ringway` is made of.
#include <nanobind/nanobind.h>

#include "errors.h"
#include "interpreter.h"
#include "session.h"
#include "shared_state.h"
#include "work.h"

NB_MODULE(_ringway, module) {
  // Trainers leave through sys.exit with sessions and works in global variables; their sessions are ended at exit.
  nanobind::set_leak_warnings(false);
  ringway::python::DefineErrors(module);
  ringway::python::DefineSession(module);
  ringway::python::DefineSharedState(module);
  ringway::python::DefineWork(module);
  ringway::python::PrepareExit();
}
