#include "session.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "errors.h"
#include "interpreter.h"
#include "options.h"
#include "shared_state.h"
#include "work.h"

namespace ringway::python {
namespace {

namespace nb = nanobind;

JoinOptions MakeJoinOptions(nb::handle on_waiting, const nb::kwargs& given) {
  JoinOptions options = JoinOptionsFrom(given);
  if (!on_waiting.is_none()) {
    options.on_waiting = [on_waiting](const Status& problem) {
      const nb::gil_scoped_acquire acquired;
      if (PyErr_Occurred() != nullptr) return;
      try {
        on_waiting(problem.ok() ? nb::none() : ToException(problem));
      } catch (nb::python_error& error) {
        error.restore();  // Interrupted sees it and ends the join
      }
    };
  }
  return options;
}

struct Arrays {
  Array input;
  Array output;
};

// If `out` is `x`, the operation is in place.
Arrays BorrowBoth(nb::handle x, nb::handle out) {
  Arrays arrays;
  arrays.input = Borrow(x, "x", out.is(x) ? Access::kWrite : Access::kRead);
  arrays.output = out.is(x) ? arrays.input : Borrow(out, "out", Access::kWrite);
  if (arrays.input.dtype != arrays.output.dtype) {
    Refuse(std::string("x has elements of ") + NameOf(arrays.input.dtype) + " and out of " +
           NameOf(arrays.output.dtype) + "; they must be of one dtype");
  }
  return arrays;
}

Arrays BorrowEqual(nb::handle x, nb::handle out) {
  Arrays arrays = BorrowBoth(x, out);
  if (arrays.input.count != arrays.output.count) {
    Refuse("x has " + std::to_string(arrays.input.count) + " elements and out " + std::to_string(arrays.output.count) +
           "; they must have as many");
  }
  return arrays;
}

using Self = nb::pointer_and_handle<PySession>;

// Submits without the GIL, and keeps alive what the operation uses. `submit`: (Session&, const Arrays&) to
// Result<Work>.
template <typename Submit>
PyWork* Start(Self self, Arrays arrays, Submit submit) {
  Work work = ValueOf(Run([&] { return submit(**self.p, arrays); }));
  std::vector<Array> used;
  used.push_back(std::move(arrays.input));
  used.push_back(std::move(arrays.output));
  return new PyWork(std::move(work), nb::borrow(self.h), std::move(used));
}

PyWork* AllReduce(Self self, nb::handle x, nb::handle out, nb::handle op_name, const nb::kwargs& given) {
  const auto submit = [op = ReduceOpFrom(op_name), options = OpOptionsFrom(given)](Session& session, const Arrays& a) {
    return session.AllReduceAsync(a.input.data, a.output.data, a.input.count, a.input.dtype, op, options);
  };
  return Start(self, BorrowEqual(x, out), submit);
}

PyWork* AllReduceMany(Self self, const std::vector<nb::object>& xs, const std::vector<nb::object>& outs,
                      nb::handle op_name, const nb::kwargs& given) {
  if (xs.size() != outs.size()) {
    Refuse("there are " + std::to_string(xs.size()) + " arrays and " + std::to_string(outs.size()) + " outputs");
  }
  std::vector<Tensor> tensors;
  std::vector<Array> used;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    Arrays arrays = BorrowEqual(xs[i], outs[i]);
    if (i > 0 && arrays.input.dtype != used.front().dtype) {
      Refuse("array 0 has elements of " + std::string(NameOf(used.front().dtype)) + " and array " + std::to_string(i) +
             " of " + NameOf(arrays.input.dtype) + "; all must be of one dtype");
    }
    tensors.push_back({arrays.input.data, arrays.output.data, arrays.input.count});
    used.push_back(std::move(arrays.input));
    used.push_back(std::move(arrays.output));
  }
  const DType dtype = used.empty() ? DType::kF32 : used.front().dtype;
  const ReduceOp op = ReduceOpFrom(op_name);
  const OpOptions options = OpOptionsFrom(given);
  Work work = ValueOf(Run([&] { return (**self.p).AllReduceManyAsync(tensors, dtype, op, options); }));
  return new PyWork(std::move(work), nb::borrow(self.h), std::move(used));
}

PyWork* ReduceScatter(Self self, nb::handle x, nb::handle out, nb::handle op_name, const nb::kwargs& given) {
  const auto submit = [op = ReduceOpFrom(op_name), options = OpOptionsFrom(given)](Session& session, const Arrays& a) {
    return session.ReduceScatterAsync(a.input.data, a.output.data, a.input.count, a.input.dtype, op, options);
  };
  return Start(self, BorrowEqual(x, out), submit);
}

PyWork* AllGather(Self self, nb::handle x, nb::handle out, const nb::kwargs& given) {
  const auto submit = [options = OpOptionsFrom(given)](Session& session, const Arrays& a) {
    return session.AllGatherAsync(a.input.data, a.input.count, a.output.data, a.output.count, a.input.dtype, options);
  };
  return Start(self, BorrowBoth(x, out), submit);
}

// At ranks that read or write nothing, x or out is None.
Arrays BorrowThere(nb::handle x, nb::handle out) {
  if (!x.is_none() && !out.is_none()) return BorrowBoth(x, out);
  Arrays arrays;
  if (!x.is_none()) arrays.input = Borrow(x, "x", Access::kRead);
  if (!out.is_none()) arrays.output = Borrow(out, "out", Access::kWrite);
  if (x.is_none() && out.is_none()) Refuse("x and out are both None");
  (x.is_none() ? arrays.input : arrays.output).dtype = (x.is_none() ? arrays.output : arrays.input).dtype;
  return arrays;
}

PyWork* Broadcast(Self self, nb::handle x, nb::handle root_rank, const nb::kwargs& given) {
  const auto submit = [root = IntegerFrom<std::uint32_t>("root", root_rank), options = OpOptionsFrom(given)](
                          Session& session, const Arrays& a) {
    return session.BroadcastAsync(a.output.data, a.output.count, a.output.dtype, root, options);
  };
  return Start(self, BorrowBoth(x, x), submit);
}

PyWork* Reduce(Self self, nb::handle x, nb::handle out, nb::handle root_rank, nb::handle op_name,
               const nb::kwargs& given) {
  const auto submit = [root = IntegerFrom<std::uint32_t>("root", root_rank), op = ReduceOpFrom(op_name),
                       options = OpOptionsFrom(given)](Session& session, const Arrays& a) {
    return session.ReduceAsync(a.input.data, a.output.data, a.input.count, a.input.dtype, op, root, options);
  };
  return Start(self, out.is_none() ? BorrowThere(x, out) : BorrowEqual(x, out), submit);
}

PyWork* Gather(Self self, nb::handle x, nb::handle out, nb::handle root_rank, const nb::kwargs& given) {
  const auto submit = [root = IntegerFrom<std::uint32_t>("root", root_rank), options = OpOptionsFrom(given)](
                          Session& session, const Arrays& a) {
    return session.GatherAsync(a.input.data, a.input.count, a.output.data, a.output.count, a.input.dtype, root,
                               options);
  };
  return Start(self, BorrowThere(x, out), submit);
}

PyWork* Scatter(Self self, nb::handle x, nb::handle out, nb::handle root_rank, const nb::kwargs& given) {
  const auto submit = [root = IntegerFrom<std::uint32_t>("root", root_rank), options = OpOptionsFrom(given)](
                          Session& session, const Arrays& a) {
    return session.ScatterAsync(a.input.data, a.input.count, a.output.data, a.output.count, a.output.dtype, root,
                                options);
  };
  return Start(self, BorrowThere(x, out), submit);
}

PyWork* AllToAll(Self self, nb::handle x, nb::handle out, const nb::kwargs& given) {
  const auto submit = [options = OpOptionsFrom(given)](Session& session, const Arrays& a) {
    return session.AllToAllAsync(a.input.data, a.output.data, a.input.count, a.input.dtype, options);
  };
  return Start(self, BorrowEqual(x, out), submit);
}

// An array has all elements that counts say of it.
void CheckHolds(const Array& array, const char* name, const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    if (part.begin <= array.count && part.count <= array.count - part.begin) continue;
    Refuse(std::string(name) + " has " + std::to_string(array.count) + " elements, and the counts say more");
  }
}

PyWork* AllToAllV(Self self, nb::handle x, nb::handle out, nb::handle sent, nb::handle received, nb::handle begins,
                  const nb::kwargs& given) {
  const std::vector<std::size_t> send_counts = IntegersFrom("send_counts", sent);
  const std::vector<std::size_t> receive_counts = IntegersFrom("receive_counts", received);
  const std::vector<std::size_t> send_begins = IntegersFrom("send_begins", begins);
  Arrays arrays = BorrowBoth(x, out);
  std::vector<Part> sends = PartsOf(send_counts);
  if (!send_begins.empty() && send_begins.size() != sends.size())
    Refuse("there are " + std::to_string(send_begins.size()) + " begins and " + std::to_string(sends.size()) +
           " counts");
  for (std::size_t rank = 0; rank < send_begins.size(); ++rank) sends[rank].begin = send_begins[rank];
  CheckHolds(arrays.input, "x", sends);
  CheckHolds(arrays.output, "out", PartsOf(receive_counts));
  const auto submit = [&, options = OpOptionsFrom(given)](Session& session, const Arrays& a) {
    return session.AllToAllVAsync(a.input.data, sends, a.output.data, receive_counts, a.input.dtype, options);
  };
  return Start(self, std::move(arrays), submit);
}

PyWork* AllGatherV(Self self, nb::handle x, nb::handle out, nb::handle count_list, const nb::kwargs& given) {
  const std::vector<std::size_t> counts = IntegersFrom("counts", count_list);
  Arrays arrays = BorrowBoth(x, out);
  CheckHolds(arrays.output, "out", PartsOf(counts));
  const std::uint32_t rank = (**self.p).rank();
  // An update that is still under way may give this rank another number at any time.
  const bool may_change = self.p->update_is_open() && !counts.empty();
  const std::size_t own =
      may_change ? *std::max_element(counts.begin(), counts.end()) : (rank < counts.size() ? counts[rank] : 0);
  CheckHolds(arrays.input, "x", {{0, own}});
  const auto submit = [&, options = OpOptionsFrom(given)](Session& session, const Arrays& a) {
    return session.AllGatherVAsync(a.input.data, a.output.data, counts, a.input.dtype, options);
  };
  return Start(self, std::move(arrays), submit);
}

PyWork* ReduceScatterV(Self self, nb::handle x, nb::handle out, nb::handle count_list, nb::handle op_name,
                       const nb::kwargs& given) {
  const std::vector<std::size_t> counts = IntegersFrom("counts", count_list);
  Arrays arrays = BorrowEqual(x, out);
  CheckHolds(arrays.input, "x", PartsOf(counts));
  const auto submit = [&, op = ReduceOpFrom(op_name), options = OpOptionsFrom(given)](Session& session,
                                                                                      const Arrays& a) {
    return session.ReduceScatterVAsync(a.input.data, a.output.data, counts, a.input.dtype, op, options);
  };
  return Start(self, std::move(arrays), submit);
}

PyWork* Send(Self self, nb::handle x, nb::handle to_rank, nb::handle tag_number, const nb::kwargs& given) {
  const auto submit = [to = IntegerFrom<std::uint32_t>("to", to_rank),
                       tag = IntegerFrom<std::uint32_t>("tag", tag_number),
                       options = OpOptionsFrom(given)](Session& session, const Arrays& a) {
    return session.SendAsync(a.input.data, a.input.count, a.input.dtype, to, tag, options);
  };
  return Start(self, {Borrow(x, "x", Access::kRead), {}}, submit);
}

PyWork* Recv(Self self, nb::handle x, nb::handle from_rank, nb::handle tag_number, const nb::kwargs& given) {
  const auto submit = [from = IntegerFrom<std::uint32_t>("source", from_rank),
                       tag = IntegerFrom<std::uint32_t>("tag", tag_number),
                       options = OpOptionsFrom(given)](Session& session, const Arrays& a) {
    return session.RecvAsync(a.output.data, a.output.count, a.output.dtype, from, tag, options);
  };
  return Start(self, {{}, Borrow(x, "x", Access::kWrite)}, submit);
}

PyWork* Barrier(Self self, const nb::kwargs& given) {
  const auto submit = [options = OpOptionsFrom(given)](Session& session, const Arrays& /*none*/) {
    return session.BarrierAsync(options);
  };
  return Start(self, {}, submit);
}

Exported Allocate(PySession& session, nb::handle lengths, nb::handle dtype_name) {
  const std::vector<std::size_t> shape = IntegersFrom("a length of the shape", lengths);
  const DType dtype = DTypeFrom(dtype_name);
  std::size_t bytes = SizeOf(dtype);
  for (const std::size_t length : shape) {
    if (__builtin_mul_overflow(bytes, length, &bytes)) Refuse("the shape has more elements than memory has addresses");
  }
  return Export(ValueOf(Run([&] { return session->Allocate(bytes); })), shape, dtype);
}

nb::tuple TupleOf(const std::vector<std::uint64_t>& ids) {
  nb::list peers;
  for (const std::uint64_t peer : ids) peers.append(peer);
  return nb::tuple(peers);
}
nb::tuple Contributors(const OpResult& result) { return TupleOf(result.contributors); }
nb::tuple Absent(const OpResult& result) { return TupleOf(result.absent); }

nb::object PartOfOutput(const OpResult& result) {
  return nb::slice(static_cast<Py_ssize_t>(result.part.begin),
                   static_cast<Py_ssize_t>(result.part.begin + result.part.count));
}

// The same of fewer contributors, for which the output is scaled.
OpResult Counting(const OpResult& result, const std::vector<std::uint64_t>& contributors, float scale) {
  OpResult counted = result;
  counted.contributors = contributors;
  counted.error_bound *= scale;
  return counted;
}

// Returns the state for pickle.
nb::tuple StateOf(const OpResult& result) {
  return nb::make_tuple(result.epoch, result.rank, result.world_size, result.contributors, result.wire_bytes,
                        result.retries, result.update_waits, static_cast<std::uint8_t>(result.algorithm),
                        result.error_bound, result.part.begin, result.part.count, result.absent, result.is_late,
                        result.behind, result.weight, result.is_kept);
}

// A state that is not StateOf's raises before the result is made.
void SetState(OpResult& result, const nb::tuple& state) {
  OpResult made;
  made.epoch = nb::cast<std::uint64_t>(state[0]);
  made.rank = nb::cast<std::uint32_t>(state[1]);
  made.world_size = nb::cast<std::uint32_t>(state[2]);
  made.contributors = nb::cast<std::vector<std::uint64_t>>(state[3]);
  made.wire_bytes = nb::cast<std::uint64_t>(state[4]);
  made.retries = nb::cast<std::uint32_t>(state[5]);
  made.update_waits = nb::cast<bool>(state[6]);
  const auto algorithm = nb::cast<std::uint8_t>(state[7]);
  if (algorithm >= kAlgorithmCount) Refuse("this state of a ringway.Result is another release's");
  made.algorithm = static_cast<Algorithm>(algorithm);
  made.error_bound = nb::cast<float>(state[8]);
  made.part = {nb::cast<std::size_t>(state[9]), nb::cast<std::size_t>(state[10])};
  made.absent = nb::cast<std::vector<std::uint64_t>>(state[11]);
  made.is_late = nb::cast<bool>(state[12]);
  made.behind = nb::cast<std::uint64_t>(state[13]);
  made.weight = nb::cast<double>(state[14]);
  made.is_kept = nb::cast<bool>(state[15]);
  new (&result) OpResult(std::move(made));
}

void DefineResult(nb::module_& module) {
  nb::class_<OpResult>(
      module, "Result",
      "Result of a successful operation; `epoch`, `contributors` and `update_waits` are the same on all ranks.")
      .def_ro("epoch", &OpResult::epoch, "Of the view: term * 2**32 + counter.")
      .def_ro("rank", &OpResult::rank, "This peer's, among the members.")
      .def_ro("world_size", &OpResult::world_size, "Number of members: fewer than before where a peer was lost.")
      .def_prop_ro("contributors", Contributors, nb::sig("def contributors(self) -> tuple[int, ...]"),
                   "Peer ids of those whose inputs are in the result, in rank order.")
      .def_prop_ro("absent", Absent, nb::sig("def absent(self) -> tuple[int, ...]"),
                   "With a quorum: members whose inputs came too late, and are not in.")
      .def_ro("is_late", &OpResult::is_late, "Whether this peer's input is not in.")
      .def_ro("is_kept", &OpResult::is_kept, "Whether it is late, and added to this peer's next one.")
      .def_ro(
          "behind", &OpResult::behind,
          "Later operations of the channel that went on without this peer and are done: submit as many to catch up.")
      .def_ro("weight", &OpResult::weight, "The sum of the weights of the inputs; without weights their number.")
      .def_ro("wire_bytes", &OpResult::wire_bytes, "Sent by this peer for the operation, headers and retries included.")
      .def_ro("retries", &OpResult::retries, "Attempts that were aborted before, because a peer was lost.")
      .def_ro("update_waits", &OpResult::update_waits,
              "Newcomers, or a better plan, wait: call `Session.update_view` on every rank.")
      .def_prop_ro(
          "algorithm", [](const OpResult& result) { return NameOf(result.algorithm); }, "Schedule that was used.")
      .def_ro("error_bound", &OpResult::error_bound,
              "Times the largest magnitude of any contribution: what a codec took at most. 0 without one.")
      .def_prop_ro("part", PartOfOutput, nb::sig("def part(self) -> slice"),
                   "Elements of the flat output that hold the result: out.reshape(-1)[result.part].")
      .def("_counting", Counting, nb::arg("contributors"), nb::arg("scale"),
           nb::sig("def _counting(self, contributors: list[int], scale: float) -> Result"))
      .def("__getstate__", StateOf, nb::sig("def __getstate__(self) -> tuple[typing.Any, ...]"))
      .def("__setstate__", SetState, nb::sig("def __setstate__(self, state: tuple[typing.Any, ...], /) -> None"))
      .def("__repr__", [](const OpResult& result) {
        return "<ringway.Result world_size=" + std::to_string(result.world_size) +
               " rank=" + std::to_string(result.rank) + " epoch=" + std::to_string(result.epoch) +
               " retries=" + std::to_string(result.retries) +
               " update_waits=" + (result.update_waits ? "True" : "False") + ">";
      });
}

void DefineMember(nb::module_& module) {
  nb::class_<Member>(module, "Member", "A peer of the view.")
      .def_ro("peer_id", &Member::peer_id, "Never repeats.")
      .def_ro("name", &Member::name, "What it joined as, or what its daemon chose.")
      .def_ro("site", &Member::site, "Of its daemon.")
      .def("__repr__", [](const Member& member) {
        return "<ringway.Member " + member.name + " site=" + member.site +
               " peer_id=" + std::to_string(member.peer_id) + ">";
      });
}

}  // namespace

PySession::PySession(nb::handle on_waiting, nb::handle state, const nb::kwargs& options) {
  // The last copy may end on a thread that must not wait for the GIL.
  kept_ = std::shared_ptr<Kept>(new Kept, [](Kept* kept) {
    const auto drop = [](void* arrays) {
      delete static_cast<Kept*>(arrays);
      return 0;
    };
    if (kept->empty() || HoldsGil())
      delete kept;
    else
      CallLater(drop, kept);
  });
  JoinOptions join = MakeJoinOptions(on_waiting, options);
  join.interrupted = [kept = kept_] { return Interrupted(); };
  SharedState* const shared = state.is_none() ? nullptr : &SharedStateOf(state);
  session_ = ValueOf(Run([&] { return shared != nullptr ? shared->Join(join) : Session::Join(join); }));
  EndAtExit(session_);
}

void PySession::Keep(std::vector<Array> arrays) { std::move(arrays.begin(), arrays.end(), std::back_inserter(*kept_)); }

OpResult PySession::UpdateView(nb::handle timeout) {
  const Milliseconds patience = TimeoutFrom(timeout);
  Update update(*this);
  OpResult result = ValueOf(Run([&] { return session_->UpdateView(patience); }));
  update.Succeeded();
  return result;
}

PySession::Update::Update(PySession& session) : session_(session), kept_(std::exchange(*session.kept_, {})) {
  session.update_is_open_ = true;
}

void PySession::Update::Succeeded() {
  session_.update_is_open_ = false;
  const std::vector<Array> dropped = std::exchange(kept_, {});  // whose end may run Python
}

PySession::Update::~Update() { session_.Keep(std::move(kept_)); }

PySession::~PySession() {
  const WithoutGil released;  // it may wait for a thread that rejoins
  session_.reset();
}

void DefineSession(nb::module_& module) {
  DefineResult(module);
  DefineMember(module);
  const auto x = nb::arg("x").none(), out = nb::arg("out").none(), root = nb::arg("root").none();
  const auto op = nb::arg("op"), options = nb::arg("options");
  nb::class_<PySession>(module, "Session", nb::is_weak_referenceable())
      .def(nb::init<nb::handle, nb::handle, const nb::kwargs&>(), nb::arg("on_waiting").none(),
           nb::arg("_state").none() = nb::none(), options)
      .def("_all_reduce", AllReduce, x, out, op, options)
      .def("_all_reduce_many", AllReduceMany, nb::arg("xs"), nb::arg("outs"), op, options)
      .def("_all_gather", AllGather, x, out, options)
      .def("_reduce_scatter", ReduceScatter, x, out, op, options)
      .def("_broadcast", Broadcast, x, root, options)
      .def("_reduce", Reduce, x, out, root, op, options)
      .def("_gather", Gather, x, out, root, options)
      .def("_scatter", Scatter, x, out, root, options)
      .def("_all_to_all", AllToAll, x, out, options)
      .def("_all_to_all_v", AllToAllV, x, out, nb::arg("send_counts").none(), nb::arg("receive_counts").none(),
           nb::arg("send_begins").none(), options)
      .def("_all_gather_v", AllGatherV, x, out, nb::arg("counts").none(), options)
      .def("_reduce_scatter_v", ReduceScatterV, x, out, nb::arg("counts").none(), op, options)
      .def("_send", Send, x, nb::arg("to").none(), nb::arg("tag").none(), options)
      .def("_recv", Recv, x, nb::arg("from_").none(), nb::arg("tag").none(), options)
      .def("_barrier", Barrier, options)
      .def("_allocate", Allocate)
      .def("update_view", &PySession::UpdateView, nb::arg("timeout").none() = nb::none(),
           nb::sig("def update_view(self, timeout: float | None = None) -> Result"),
           R"(Adopts the newest prepared view on all ranks at once, with its newcomers: a collective on channel 0.

No other operation of the session may be in flight. Call it where a result has `update_waits`, which all ranks see in the
same result; then share the training state with those who are new. Times out after `timeout` seconds (Timeout; the update
goes on, and the next call waits for the same one).)")
      .def(
          "leave",
          [](PySession& session, nb::handle timeout) {
            const Milliseconds patience = TimeoutFrom(timeout);
            RaiseUnlessOk(Run([&] { return session->Leave(patience); }));
          },
          nb::arg("timeout").none() = 30.0, nb::sig("def leave(self, timeout: float | None = 30.0) -> None"),
          "Finishes what is running, then leaves the group. Later calls raise Left.")
      .def(
          "abort",
          [](PySession& session) {
            const WithoutGil released;
            session->Abort();
          },
          R"(Leaves without waiting, from any thread: blocked calls of all threads raise Left at once, later ones too.

The others get the operations that were submitted, with the inputs as they were.)")
      .def(
          "members", [](PySession& session) { return ValueOf(Run([&] { return session->Members(); })); },
          nb::sig("def members(self) -> list[Member]"),
          "Members of the newest view known to the daemon, in rank order. Never blocks.")
      .def_prop_ro(
          "rank", [](PySession& session) { return session->rank(); },
          "In the newest view known from joining or a result, from 0.")
      .def_prop_ro(
          "world_size", [](PySession& session) { return session->world_size(); }, "Number of peers in that view.")
      .def_prop_ro(
          "epoch", [](PySession& session) { return session->epoch(); }, "Of that view: term * 2**32 + counter.")
      .def_prop_ro(
          "peer_id", [](PySession& session) { return session->peer_id(); },
          "Of this membership; another one after Rejoined.");
}

}  // namespace ringway::python
