#include "interpreter.h"

#include <pthread.h>

#include <chrono>
#include <thread>
#include <vector>

#include "errors.h"

namespace ringway::python {
namespace {

namespace nb = nanobind;

constexpr std::chrono::seconds kExitPatience(5);

std::atomic<bool> exiting = false;
std::atomic<bool> waits_no_more = false;  // calls return at once, except in thread `exits`
std::thread::id exits;                    // the thread that ends the interpreter
std::atomic<int> calls = 0;               // under way
thread_local bool in_handler = false;
thread_local bool without_gil = false;

// Guarded by the GIL. Never destroyed: sessions may end after this library's destructors.
std::vector<std::weak_ptr<Session>>& Sessions() {
  static auto* const sessions = new std::vector<std::weak_ptr<Session>>;
  return *sessions;
}

// Ends all sessions. A forked child has no sessions of its parent to end, and no calls.
void EndAll() {
  exits = std::this_thread::get_id();
  exiting = true;
  std::vector<std::shared_ptr<Session>> open;
  for (const auto& session : Sessions()) {
    if (auto alive = session.lock()) open.push_back(std::move(alive));
  }
  nb::gil_scoped_release released;
  without_gil = true;
  for (const auto& session : open) session->Abort();
  const auto deadline = std::chrono::steady_clock::now() + kExitPatience;
  while (calls > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  waits_no_more = true;
  without_gil = false;
}

}  // namespace

void PrepareExit() {
  pthread_atfork(nullptr, nullptr, [] { calls = 0; });
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(EndAll));
}

void EndAtExit(const std::shared_ptr<Session>& session) {
  std::erase_if(Sessions(), [](const std::weak_ptr<Session>& one) { return one.expired(); });
  Sessions().push_back(session);
}

bool Interrupted() noexcept {
  if (exiting) return true;
  const nb::gil_scoped_acquire acquired;
  in_handler = true;
  const bool raised = PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0;  // it stays set, for Run to raise
  in_handler = false;
  return raised;
}

// PyGILState_Check is not part of the limited API.
bool HoldsGil() { return !without_gil && PyGILState_GetThisThreadState() != nullptr; }

void CallLater(int (*function)(void*), void* argument) {
  if (!exiting) (void)Py_AddPendingCall(function, argument);
}

// Once the exit waits for no call, none begins that it would have to wait for: what is left, as the end of a Work, is
// brief.
WithoutGil::WithoutGil() : state_(nullptr) {
  if (waits_no_more && std::this_thread::get_id() != exits) return;
  ++calls;
  state_ = PyEval_SaveThread();
  without_gil = true;
}

WithoutGil::~WithoutGil() {
  if (state_ == nullptr) return;
  while (waits_no_more && std::this_thread::get_id() != exits) std::this_thread::sleep_for(std::chrono::hours(1));
  PyEval_RestoreThread(state_);
  without_gil = false;
  --calls;
}

void CheckMayWait() {
  if (in_handler) Refuse("a signal handler runs within a call that waits, and cannot wait itself: let it set a flag");
  if (exiting) Raise(Status(Code::kLeft, "the interpreter exits, which has ended all sessions"));
}

}  // namespace ringway::python
