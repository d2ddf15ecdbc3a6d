// Keeps calls of the library and the interpreter compatible: no call holds the GIL while it waits, Ctrl-C ends each,
// and at the interpreter's exit none is left under way.
//
// Signals: their handlers run within the call that waits. What they call cannot wait: the outcome that it waited for
// may be one that this very thread was about to read.
//
// Exit: atexit runs while all threads still may. It ends the sessions that are left, so that the calls of daemon
// threads return, and waits until they have. A thread that comes back later would find no interpreter: it stays.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <ringway/ringway.hpp>
#include <utility>

namespace ringway::python {

// Registers what runs at exit. Called once, with the GIL.
void PrepareExit();

// A session to end at exit. With the GIL.
void EndAtExit(const std::shared_ptr<Session>& session);

// JoinOptions::interrupted: whether a signal handler or a callback has raised, or the interpreter exits. Takes the GIL.
bool Interrupted() noexcept;

// Whether this thread may touch Python objects. Also false where a call without the GIL took it back for a while.
bool HoldsGil();

// Has the main thread call this, with the GIL, when it runs Python next. Nobody does once the interpreter exits, or
// where too much waits for it. Any thread, with or without the GIL.
void CallLater(int (*function)(void*), void* argument);

// Lets other threads run Python, until the interpreter exits. Created and destroyed with the GIL.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// Raises InvalidArgument in a signal handler that runs within a call, ringway.Left while the interpreter exits.
void CheckMayWait();

// Returns what `call` of the library returns. Raises instead what a signal handler raised meanwhile
// (KeyboardInterrupt).
template <typename Call>
auto Run(Call call) {
  CheckMayWait();
  auto outcome = [&] {
    const WithoutGil released;
    return call();
  }();
  if (PyErr_Occurred() != nullptr) nanobind::raise_python_error();
  return outcome;
}

}  // namespace ringway::python
