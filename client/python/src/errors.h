// Failures of the library as Python exceptions: ringway.Error, and a class derived from it for each result code.
//
// Threads: the caller holds the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <ringway/ringway.hpp>
#include <string>
#include <utility>

namespace ringway::python {

// str(object) in UTF-8, whatever characters it has: lone surrogates are escaped.
std::string TextOf(nanobind::handle object);

// Adds the classes to the module: `invalid_argument` is InvalidArgument.
void DefineErrors(nanobind::module_& module);

// An instance of the class of the error's code. REQUIRES: !error.ok().
nanobind::object ToException(const Status& error);

[[noreturn]] void Raise(const Status& error);
[[noreturn]] inline void Refuse(std::string text) { Raise(Status(Code::kInvalidArgument, std::move(text))); }

inline void RaiseUnlessOk(const Status& error) {
  if (!error.ok()) Raise(error);
}

template <typename T>
T ValueOf(Result<T> outcome) {
  if (!outcome.ok()) Raise(outcome.status());
  return std::move(*outcome);
}

}  // namespace ringway::python
