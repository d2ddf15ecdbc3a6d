#include "work.h"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "errors.h"
#include "interpreter.h"
#include "options.h"
#include "session.h"

namespace ringway::python {

namespace nb = nanobind;

PyWork::PyWork(Work work, nb::object session, std::vector<Array> arrays)
    : completion(nb::none()), work_(std::move(work)), session_(std::move(session)), arrays_(std::move(arrays)) {}

PyWork::~PyWork() {
  std::vector<Array> copied;  // those of a Buffer would keep the session, which keeps what it copies
  std::copy_if(arrays_.begin(), arrays_.end(), std::back_inserter(copied), [](const Array& x) { return x.on_device; });
  if (!is_on_a_stream_) nb::inst_ptr<PySession>(session_)->Keep(std::move(copied));
  const WithoutGil released;
  work_ = Work();  // detaches it while its memory is there
}

void PyWork::WaitUntilDone(nb::handle timeout) {
  const Milliseconds patience = TimeoutFrom(timeout);
  (void)ValueOf(Run([&] { return Work::WaitAny({&work_}, patience); }));
}

void PyWork::WaitAny(const std::vector<PyWork*>& works) {
  std::vector<Work*> all;
  for (PyWork* const one : works) all.push_back(&one->work_);
  (void)ValueOf(Run([&] { return Work::WaitAny(all); }));
}

OpResult PyWork::Wait(nb::handle timeout) {
  WaitUntilDone(timeout);
  OpResult result = ValueOf(Run([this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    return work_.Wait();
  }));
  const std::vector<Array> dropped = std::exchange(arrays_, {});  // whose end may run Python, and let others in here
  return result;
}

bool PyWork::Done() {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);  // else somebody is collecting the outcome
  return lock.owns_lock() && work_.Test();
}

void PyWork::Cancel() {
  RaiseUnlessOk(Run([this]() -> Status {
    const std::lock_guard<std::mutex> lock(mutex_);  // nobody waits for the others while holding it
    return work_.Cancel();
  }));
}

void PyWork::SetDeadline(nb::handle after) {
  const Milliseconds time = TimeoutFrom(after);
  RaiseUnlessOk(Run([this, time]() -> Status {
    const std::lock_guard<std::mutex> lock(mutex_);
    return work_.SetDeadline(time);
  }));
}

void PyWork::WaitOnStream(nb::handle stream) {
  void* const handle = StreamFrom(stream);
  constexpr Milliseconds kTurn(250);  // signals are looked for every 100 ms
  RaiseUnlessOk(Run([this, handle, kTurn]() -> Status {
    for (;; std::this_thread::sleep_for(Milliseconds(1))) {  // when others may cancel
      const std::lock_guard<std::mutex> lock(mutex_);
      Status error = work_.WaitOnStream(handle, kTurn);
      if (error.code() != Code::kTimeout) return error;
      if (work_.Test()) return work_.WaitOnStream(handle);  // the time of this turn is no outcome
    }
  }));
  is_on_a_stream_ = true;
}

void DefineWork(nb::module_& module) {
  nb::class_<PyWork>(module, "Work", nb::is_weak_referenceable(), R"(One submitted operation.

Keeps its arrays and its session alive. They belong to the operation until `wait` has returned: do not write to the input,
do not read the output. A Work that is dropped does not wait: the operation goes on with the input as it is then, its
result is dropped, and arrays of `Session.empty` that it used are refused to later operations; arrays of a GPU are kept until
the next `Session.update_view`.

`await work` is `wait` for a coroutine: other tasks run meanwhile, and the outcome is collected by the task that awaits. In
a `with` statement the end of the block waits, unless it raises.)")
      .def(
          "wait", &PyWork::Wait, nb::arg("timeout").none() = nb::none(),
          nb::sig("def wait(self, timeout: float | None = None) -> Result"),
          R"(Blocks until the outcome is known, at most `timeout` seconds (None: for ever). Then the result is in the output.

Raises Timeout when the time is over: the operation goes on, and `wait` may be called again, as after KeyboardInterrupt.
Raises what the operation failed with, again at each call. A second call after success returns the same result.)")
      .def("done", &PyWork::Done, "Whether `wait` would return at once. Never blocks.")
      .def("cancel", &PyWork::Cancel,
           "Asks all ranks to cancel the operation. The outcome is agreed: `wait` raises Cancelled on all ranks, or "
           "returns a result on all.")
      .def("set_deadline", &PyWork::SetDeadline, nb::arg("after"),
           nb::sig("def set_deadline(self, after: float) -> None"),
           R"(Replaces `op_deadline` of `join` for this operation.

If it is not over `after` seconds from now, `wait` raises Deadline on all ranks, with whom this rank waited for, or returns a
result on all.)")
      .def(
          "wait_on_stream", &PyWork::WaitOnStream, nb::arg("stream").none(),
          nb::sig("def wait_on_stream(self, stream: typing.Any) -> None"),
          R"(Makes a CUDA stream wait for the result, whose output is in device memory; the caller waits for inputs to be read only.

stream: of torch or CuPy, one with __cuda_stream__, its handle as an int, or None: the default stream. What is enqueued there
afterwards sees the result or, if the operation fails, the output as it was: `wait` raises what it failed with. The Work may
be dropped before.)")
      .def("__repr__",
           [](PyWork& work) { return std::string("<ringway.Work ") + (work.Done() ? "done" : "in flight") + ">"; })
      .def(
          "__reduce_ex__",
          [](const PyWork& /*self*/, int /*protocol*/) -> nb::object {
            throw nb::type_error("a ringway.Work cannot be pickled or copied: it is an operation of this process");
          },
          nb::arg("protocol"))
      .def_static("_wait_any", &PyWork::WaitAny, nb::arg("works"), nb::sig("def _wait_any(works: list[Work]) -> None"),
                  "Blocks until `wait` of one would return at once.")
      .def("_wait_until_done", &PyWork::WaitUntilDone, nb::arg("timeout").none() = nb::none(),
           nb::sig("def _wait_until_done(self, timeout: float | None = None) -> None"))
      .def_rw("_completion", &PyWork::completion,
              nb::for_getter(nb::sig("def _completion(self) -> concurrent.futures.Future[None] | None")),
              nb::for_setter(nb::sig("def _completion(self, value: concurrent.futures.Future[None], /) -> None")))
      .def(
          "__await__",
          [](nb::handle self) { return nb::module_::import_("ringway._awaiting").attr("await_work")(self); },
          nb::sig("def __await__(self) -> collections.abc.Generator[typing.Any, None, Result]"))
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Work"))
      .def(
          "__exit__",
          [](PyWork& self, nb::handle type, nb::handle, nb::handle) {
            if (type.is_none()) (void)self.Wait(nb::none());
          },
          nb::arg().none(), nb::arg().none(), nb::arg().none(),
          nb::sig("def __exit__(self, *exception: object) -> None"));
}

}  // namespace ringway::python
