#include "shared_state.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <ringway/shared_state.hpp>
#include <string>
#include <utility>
#include <vector>

#include "array.h"
#include "errors.h"
#include "interpreter.h"
#include "options.h"
#include "session.h"

namespace ringway::python {
namespace {

namespace nb = nanobind;

using Texts = std::vector<std::string>;
using Objects = std::vector<nb::object>;

// The arrays of a state as the package prepares them: flat, of bytes.
struct Tensors {
  std::vector<Array> arrays;  // keep them alive
  std::vector<StateTensor> list;
};

Tensors BorrowTensors(const Texts& names, const Texts& descriptions, const Objects& arrays) {
  Tensors tensors;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    tensors.arrays.push_back(Borrow(arrays[i], names.at(i).c_str(), Access::kWrite));
    const Array& array = tensors.arrays.back();
    tensors.list.push_back({names[i], array.data, array.count * SizeOf(array.dtype), descriptions.at(i)});
  }
  return tensors;
}

std::function<bool(const StateProgress&)> ProgressTo(nb::handle on_progress) {
  if (on_progress.is_none()) return {};
  return [on_progress](const StateProgress& progress) {
    const nb::gil_scoped_acquire acquired;
    if (PyErr_Occurred() != nullptr) return false;
    try {
      on_progress(progress.bytes, progress.of_bytes);
      return true;
    } catch (nb::python_error& error) {
      error.restore();  // for Run to raise
      return false;
    }
  };
}

std::uint64_t SyncOnce(PySession& session, const Texts& names, const Texts& descriptions, const Objects& arrays,
                       nb::handle revision, std::uint8_t strategy, nb::handle on_progress) {
  const Tensors tensors = BorrowTensors(names, descriptions, arrays);
  const StateOptions options{.revision = IntegerFrom<std::uint64_t>("revision", revision),
                             .strategy = static_cast<StateStrategy>(strategy),
                             .on_progress = ProgressTo(on_progress)};
  return ValueOf(Run([&] { return SyncState(*session, tensors.list, options); })).revision;
}

class PySharedState {
 public:
  PySharedState(const Texts& names, const Texts& descriptions, const Objects& arrays, nb::handle revision,
                const nb::bytes& path, nb::handle every, bool replay)
      : tensors_(BorrowTensors(names, descriptions, arrays)),
        state_(MakeState(tensors_, revision, path, every, replay)) {}

  void Sync(PySession& session) {
    ValueOf(Run([&] { return state_.Sync(*session); }));
  }
  bool Advance(PySession& session, bool update_waits) {
    std::optional<PySession::Update> update;
    if (update_waits) update.emplace(session);
    const std::uint64_t peer = session->peer_id();
    const bool admitted = ValueOf(Run([&] { return state_.Advance(*session, update_waits); }));
    if (update && admitted && session->peer_id() == peer) update->Succeeded();
    if (update) update->Ended();
    return admitted;
  }
  std::uint64_t revision() const { return state_.revision(); }
  bool IsAsked(PySession& session) const { return state_.IsAsked(*session); }
  bool is_replaying() const { return state_.is_replaying(); }
  SharedState& state() { return state_; }

 private:
  static SharedState MakeState(const Tensors& tensors, nb::handle revision, const nb::bytes& path, nb::handle every,
                               bool replay) {
    const SharedStateOptions options{.revision = IntegerFrom<std::uint64_t>("revision", revision),
                                     .path = path.c_str(),
                                     .every = IntegerFrom<std::uint64_t>("every", every),
                                     .replay = replay};
    return ValueOf(Run([&] { return SharedState::Make(tensors.list, options); }));
  }

  Tensors tensors_;
  SharedState state_;
};

}  // namespace

SharedState& SharedStateOf(nb::handle state) { return nb::cast<PySharedState&>(state).state(); }

void DefineSharedState(nb::module_& module) {
  module.def("_sync_state", SyncOnce, nb::arg("session"), nb::arg("names"), nb::arg("descriptions"), nb::arg("arrays"),
             nb::arg("revision").none(), nb::arg("strategy"), nb::arg("on_progress").none());
  nb::class_<PySharedState>(module, "_SharedState")
      .def(nb::init<const Texts&, const Texts&, const Objects&, nb::handle, const nb::bytes&, nb::handle, bool>(),
           nb::arg("names"), nb::arg("descriptions"), nb::arg("arrays"), nb::arg("revision").none(), nb::arg("path"),
           nb::arg("every").none(), nb::arg("replay"))
      .def("sync", &PySharedState::Sync, nb::arg("session"))
      .def("is_asked", &PySharedState::IsAsked, nb::arg("session"))
      .def("advance", &PySharedState::Advance, nb::arg("session"), nb::arg("update_waits"))
      .def_prop_ro("is_replaying", &PySharedState::is_replaying)
      .def_prop_ro("revision", &PySharedState::revision);
}

}  // namespace ringway::python
