// One submitted operation: ringway::Work, with what it needs kept alive.
//
// Threads: any, at the same time. Waiting only reads the operation (WaitAny), so others may cancel it meanwhile; a
// mutex is for what must be alone: collecting the outcome, Test and Cancel. It is waited for without the GIL only.
#pragma once

#include <nanobind/nanobind.h>

#include <mutex>
#include <ringway/ringway.hpp>
#include <vector>

#include "array.h"

namespace ringway::python {

class PyWork {
 public:
  PyWork(Work work, nanobind::object session, std::vector<Array> arrays);
  ~PyWork();
  PyWork(const PyWork&) = delete;
  PyWork& operator=(const PyWork&) = delete;

  OpResult Wait(nanobind::handle timeout);
  // Blocks until Wait would return at once; the result stays where it is.
  void WaitUntilDone(nanobind::handle timeout);
  // Waits until one of them is done. All belong to one session; the caller keeps them alive.
  static void WaitAny(const std::vector<PyWork*>& works);
  bool Done();
  void Cancel();
  void SetDeadline(nanobind::handle after);
  void WaitOnStream(nanobind::handle stream);

  nanobind::object completion;  // the future of those who await; None: nobody does

 private:
  Work work_;
  std::mutex mutex_;
  nanobind::object session_;
  std::vector<Array> arrays_;    // inputs and outputs, until the operation has succeeded
  bool is_on_a_stream_ = false;  // which waits for the result, and so for the copies
};

void DefineWork(nanobind::module_& module);

}  // namespace ringway::python
