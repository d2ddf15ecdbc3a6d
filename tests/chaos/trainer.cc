// A trainer that runs the program (program.h) with whoever is there, through the loss of anybody, and records all
// outcomes that are reported to it (record.h).
//
//   chaos_trainer --socket PATH --group G --records FILE --seed N [--history FILE] [--deadline-ms N]
//
//   join, take the state --> share the step: all take the newest --> step --> step --> advance, share the step ...
//     ^                                                                     |
//     +---- membership lost: join anew, or the session has rejoined by itself and takes the state ----+
//
// The state (carried_state.h) is large enough to be taken in the background, which every second join does; the others
// take it when they are admitted. A trainer that fails to take it, as where a deadline is over, joins anew.
//
// Odd seeds' sessions look for a daemon that went away; those of even seeds end with it.
//
// SIGTERM: leaves the group, exit code 0.
#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <ringway/ringway.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/bench/collective.h"
#include "client/bench/memory.h"
#include "proto/device/loader.h"
#include "tests/chaos/carried_state.h"
#include "tests/chaos/program.h"
#include "tests/chaos/record.h"
#include "tests/chaos/trainer_history.h"

namespace ringway::chaos {
namespace {

std::atomic<bool> asked_to_leave{false};

struct Options {
  JoinOptions join{.wait_world = 1};
  std::string records, history;
  std::uint64_t seed = 1;
};

[[noreturn]] void Die(const std::string& what, const Status& error) {
  std::fprintf(stderr, "%s: %s: %s\n", what.c_str(), NameOf(error.code()), error.text().c_str());
  std::exit(1);
}

std::uint64_t NowMs() {
  using std::chrono::steady_clock, std::chrono::milliseconds;
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count());
}

// A file that keeps every line once written, however the writer ends.
class Journal {
 public:
  explicit Journal(const std::string& path)
      : fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
    if (fd_ < 0) Die(path, Status(Code::kIo, std::strerror(errno)));
  }
  void Write(Record record) const {
    record.time_ms = NowMs();
    const std::string line = Format(record);
    if (::write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      Die("record", Status(Code::kIo, std::strerror(errno)));
    }
  }

 private:
  int fd_;
};

// Memory of an operation's input and result, of all kinds: any of a session's, of a device where the process has one,
// in place or not.
class Place {
 public:
  Status Allocate(Session& session) {
    for (Buffer* buffer : {&shared_in_, &shared_out_}) {
      auto allocated = session.Allocate(kBytesMax);
      if (!allocated.ok()) return allocated.status();
      *buffer = std::move(*allocated);
    }
    if (device::Load().library == nullptr) return {};
    for (std::optional<bench::Memory>* memory : {&device_in_, &device_out_}) {
      auto allocated = bench::Memory::Allocate(&session, kBytesMax, 0);
      if (!allocated.ok()) return allocated.status();
      *memory = std::move(*allocated);
    }
    return {};
  }

  // Fills the input; `way`: which memory.
  Status Prepare(const PlannedOp& op, const bench::InputName& name, std::uint64_t way) {
    bytes_ = op.count * SizeOf(op.reduction.dtype);
    copy_.resize(bytes_ + 8);
    bench::FillInput(op.reduction, name, copy_.data(), op.count);
    heap_in_.resize(bytes_ + 8);
    heap_out_.resize(bytes_ + 8);
    const Side shared_in{shared_in_.data()};
    const Side heap_in{heap_in_.data()};
    const Side heap_out{heap_out_.data()};
    std::vector<std::pair<Side, Side>> ways = {{shared_in, {shared_out_.data()}},
                                               {shared_in, shared_in},
                                               {heap_in, heap_out},
                                               {heap_in, heap_in},
                                               {shared_in, heap_out}};
    if (device_in_) {
      const Side device_in{device_in_->data(), &*device_in_};
      const Side device_out{device_out_->data(), &*device_out_};
      ways.insert(ways.end(), {{device_in, device_out}, {device_in, device_in}, {device_in, heap_out}});
      ways.insert(ways.end(), {{shared_in, device_out}, {device_in, shared_in}});
    }
    std::tie(in_, out_) = ways.at(way % ways.size());
    std::memcpy(in_.host(), copy_.data(), bytes_);
    return in_.device != nullptr ? in_.device->Push(bytes_) : Status();
  }

  // Makes Intact and output see what there is now. REQUIRES: the operation is over.
  Status Collect() {
    for (const Side& side : {in_, out_}) {
      if (side.device == nullptr) continue;
      if (Status error = side.device->Pull(bytes_); !error.ok()) return error;
    }
    return {};
  }
  bool Intact(Code code) const {
    const bool may_be_written = code == Code::kOk || code == Code::kDeviceFailed;
    return (may_be_written && in_.data == out_.data) || std::memcmp(in_.host(), copy_.data(), bytes_) == 0;
  }
  std::uint64_t Hash() const { return XXH3_64bits(output(), bytes_); }

  bool gives_to_device() const { return out_.device != nullptr; }
  void* input_memory() const { return in_.data; }
  void* output_memory() const { return out_.data; }
  const void* output() const { return out_.host(); }
  const void* input() const { return copy_.data(); }

 private:
  struct Side {
    void* data = nullptr;
    bench::Memory* device = nullptr;
    void* host() const { return device != nullptr ? device->host() : data; }
  };

  Buffer shared_in_, shared_out_;
  std::optional<bench::Memory> device_in_, device_out_;
  std::vector<std::byte> heap_in_, heap_out_, copy_;
  Side in_, out_;
  std::size_t bytes_ = 0;
};

class Membership {
 public:
  Membership(Session& session, CarriedState& state, const Journal& journal, const TrainerHistory& history,
             std::uint64_t seed)
      : session_(session),
        state_(state),
        journal_(journal),
        history_(history),
        peer_(session.peer_id()),
        dice_(seed ^ peer_) {
    Note(RecordKind::kJoin, Code::kOk);
    history_.Join(peer_);
  }

  // Returns whether the session has rejoined, and has taken the state as a newcomer.
  bool took_state() const { return took_state_; }

  // Runs until the membership ends and returns why; Ok if a signal asked it to leave. REQUIRES: it has the state.
  Status Run() {
    Status over = Allocate();
    if (over.ok()) over = Share();
    while (over.ok() && !asked_to_leave) {
      over = Step();
      if (over.ok()) over = Advance();
    }
    if (over.ok()) return session_.Leave();
    Note(RecordKind::kEnd, over.code());
    history_.End(peer_, over.code());
    return over;
  }

 private:
  Status Allocate() {
    for (Place& place : places_) {
      if (Status error = place.Allocate(session_); !error.ok()) return error;
    }
    return {};
  }

  void Note(RecordKind kind, Code code) const {
    Record record;
    record.kind = kind;
    record.peer = peer_;
    record.code = code;
    journal_.Write(record);
  }

  // The newest step and life of all; a group of newcomers only begins a life. Agreed failures are tried again by all.
  Status Share() {
    for (;;) {
      std::array<std::uint64_t, 4> state = {life_, step_, state_.Hash(), ~state_.Hash()};
      const auto shared = session_.AllReduce(state.data(), state.data(), state.size(), DType::kU64, ReduceOp::kMax);
      if (shared.ok()) {
        if (state[2] != ~state[3]) Die("the ranks' states differ", Status(Code::kInternal, std::to_string(step_)));
        life_ = state[0] != 0 ? state[0] : shared.value().epoch;
        step_ = state[1];
        update_waits_ = shared.value().update_waits;
        Know(shared.value());
        return {};
      }
      if (IsEndOfMembership(shared.status().code())) return shared.status();
    }
  }

  // An agreed failure leaves the members' states alike: newcomers that have not got it come again.
  Status Advance() {
    state_.Change(step_);
    const bool updates = std::exchange(update_waits_, false);
    const auto advanced = state_.shared().Advance(session_, updates);
    if (session_.peer_id() != peer_) {
      took_state_ = advanced.ok();
      return took_state_ ? Status(Code::kRejoined, "and it has the others' state") : session_.Leave();
    }
    if (advanced.ok()) return updates ? Share() : Status();
    return IsEndOfMembership(advanced.status().code()) ? advanced.status() : Status();
  }

  // Whose ranks the session gives next; nobody's where that is not known.
  void Know(const OpResult& result) {
    if (result.epoch < known_epoch_ || (result.epoch == known_epoch_ && !known_.empty())) return;
    known_epoch_ = result.epoch;
    known_ = {};
    std::vector<std::uint64_t> members = result.contributors;
    if (!result.absent.empty()) {  // their places are those of the daemon's newest view, if that has the same members
      members.insert(members.end(), result.absent.begin(), result.absent.end());
      std::vector<std::uint64_t> ranked;
      const auto newest = session_.Members();
      for (const Member& member : newest.ok() ? *newest : std::vector<Member>()) ranked.push_back(member.peer_id);
      if (!std::is_permutation(members.begin(), members.end(), ranked.begin(), ranked.end())) return;
      members = std::move(ranked);
    }
    known_ = std::move(members);
  }

  Submitted SubmittedOf(const PlannedOp& op, std::uint32_t index) const {
    return {.name = {life_, step_, index},
            .channel = op.channel,
            .kind = OpKind::kAllReduce,
            .reduction = op.reduction,
            .count = op.count,
            .algorithm = AlgorithmOf(index),
            .root = 0,
            .world = session_.world_size(),
            .quorum = op.quorum};
  }

  // Now and then a rank is late where the others need not wait for it.
  void ComeLate(const PlannedOp& op) {
    if (op.quorum == Quorum::All() || dice_() % 8 != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(dice_() % 100));
  }

  Status Step() {
    const std::vector<PlannedOp> ops = OpsOf(step_);
    std::vector<Work> works;
    Status over;
    for (std::uint32_t i = 0; i < ops.size() && over.ok(); ++i) {
      over = places_[i].Prepare(ops[i], {peer_, InputNumber(step_, i)}, dice_());
      if (!over.ok()) break;
      history_.Submit(peer_, SubmittedOf(ops[i], i), places_[i].input(), ops[i].count);
      ComeLate(ops[i]);
      auto work = Submit(ops[i], i);
      // A device may have had no pinned memory for once; a session may have ended for a lack of something else.
      for (int tries = 0; tries < 10 && work.status().code() == Code::kResourceExhausted; ++tries) {
        work = Submit(ops[i], i);
      }
      over = work.status();
      if (!work.ok()) break;
      if (dice_() % 128 == 0) {
        history_.Cancel(peer_, SubmittedOf(ops[i], i));
        (void)work->Cancel();
      }
      works.push_back(std::move(*work));
    }
    // Operations before one that could not be submitted are awaited, too: they may have been committed.
    for (std::uint32_t i = 0; i < works.size(); ++i) {
      const Status outcome = Finish(i, ops[i], &works[i]);
      if (IsEndOfMembership(outcome.code())) over = outcome;
    }
    if (over.ok()) over = Move();
    ++step_;
    return over;
  }

  // Each third step one of the collectives of which ranks have different parts; their bytes are not compared.
  Status Move() {
    if (step_ % 3 != 0) return {};
    constexpr std::array kKinds = {OpKind::kBroadcast, OpKind::kReduce,     OpKind::kGather,
                                   OpKind::kScatter,   OpKind::kAllToAll,   OpKind::kBarrier,
                                   OpKind::kAllToAllV, OpKind::kAllGatherV, OpKind::kReduceScatterV};
    const OpKind kind = kKinds[step_ / 3 % kKinds.size()];
    constexpr std::uint32_t kIndex = 4;
    const std::size_t count = IsEmpty(kind) ? 0 : 1 + step_ * 7919 % 20'000;
    const std::uint32_t world = session_.world_size();
    const std::size_t input_count = SizesOf(kind, count, world, session_.rank() == bench::kRoot).input;
    std::vector<float> input(count * world), output(count * world);
    bench::FillInput({}, {peer_, InputNumber(step_, kIndex)}, input.data(), input_count);
    if (kind == OpKind::kBroadcast) output = input;
    const Submitted submitted{.name = {life_, step_, kIndex},
                              .channel = 0,
                              .kind = kind,
                              .reduction = {},
                              .count = count,
                              .algorithm = std::nullopt,
                              .root = HasRoot(kind) && !known_.empty() ? known_.at(bench::kRoot) : 0,
                              .world = world};
    history_.Submit(peer_, submitted, input.data(), input_count);
    auto work = bench::StartCollective(session_, kind, {}, {input.data(), count, output.data(), output.size()}, {});
    if (!work.ok()) return work.status();
    const auto outcome = work->Wait();
    Record record = RecordOf({life_, step_, kIndex}, count * sizeof(float), outcome);
    if (IsEndOfMembership(record.code)) return outcome.status();
    history_.Outcome(peer_, submitted, outcome, output.data(), true);
    if (outcome.ok()) {
      record.wrong = bench::CountWrong({}, outcome->contributors, InputNumber(step_, kIndex),
                                       {kind, output.data(), count, outcome->part, outcome->rank});
    }
    journal_.Write(record);
    return {};
  }

  Record RecordOf(const OpName& name, std::uint64_t bytes, const Result<OpResult>& outcome) {
    Record record;
    record.kind = RecordKind::kOp;
    record.peer = peer_;
    record.code = outcome.status().code();
    record.name = name;
    record.bytes = bytes;
    if (!outcome.ok()) return record;
    Know(*outcome);
    update_waits_ = update_waits_ || outcome->update_waits;
    record.epoch = outcome->epoch;
    record.retries = outcome->retries;
    record.contributors = outcome->contributors;
    record.absent = outcome->absent;
    return record;
  }

  Result<Work> Submit(const PlannedOp& op, std::uint32_t index) {
    return session_.AllReduceAsync(places_[index].input_memory(), places_[index].output_memory(), op.count,
                                   op.reduction.dtype, op.reduction.op,
                                   {.channel = op.channel,
                                    .codec = op.reduction.codec,
                                    .algorithm = AlgorithmOf(index),
                                    .quorum = op.quorum,
                                    .grace = op.grace});
  }

  // Each in turn, and the plan's choice; the same on all ranks.
  std::optional<Algorithm> AlgorithmOf(std::uint32_t index) const {
    const std::uint64_t turn = (step_ + 3 * index) % (kAlgorithmCount + 1);
    if (turn == kAlgorithmCount) return std::nullopt;
    return static_cast<Algorithm>(turn);
  }

  Status Finish(std::uint32_t index, const PlannedOp& op, Work* work) {
    // Half of what a device gets is read by copies that the default stream has before there is a result.
    const bool reads_ahead = places_[index].gives_to_device() && dice_() % 2 == 0;
    const bool has_read = reads_ahead && work->WaitOnStream(nullptr).ok() && places_[index].Collect().ok();
    const auto outcome = work->Wait();
    Record record = RecordOf({life_, step_, index}, op.count * SizeOf(op.reduction.dtype), outcome);
    if (IsEndOfMembership(record.code)) return outcome.status();
    if (Status error = has_read ? Status() : places_[index].Collect(); !error.ok()) return error;
    record.intact = places_[index].Intact(record.code);
    history_.Outcome(peer_, SubmittedOf(op, index), outcome, places_[index].output(), record.intact);
    if (outcome.ok()) {
      record.hash = places_[index].Hash();
      record.wrong = bench::CountWrong(op.reduction, outcome->contributors, InputNumber(step_, index),
                                       {.collective = OpKind::kAllReduce,
                                        .output = places_[index].output(),
                                        .count = op.count,
                                        .part = {0, op.count},
                                        .absent = outcome->absent.size()});
    }
    journal_.Write(record);
    return outcome.status();
  }

  Session& session_;
  CarriedState& state_;
  const Journal& journal_;
  const TrainerHistory& history_;
  const std::uint64_t peer_;  // the session's may be the next one's by now
  std::mt19937_64 dice_;
  std::array<Place, 4> places_;
  std::uint64_t life_ = 0, step_ = 0;
  bool update_waits_ = false;
  bool took_state_ = false;
  std::vector<std::uint64_t> known_;  // the members by rank, as of
  std::uint64_t known_epoch_ = 0;
};

std::atomic<std::uint64_t> give_up_at_ms{UINT64_MAX};

// A newcomer whose sources have all died looks for them for a minute. This one gives up before.
Result<std::unique_ptr<Session>> JoinInBackground(const JoinOptions& options, SharedState& state) {
  constexpr std::uint64_t kPatienceMs = 5000;
  give_up_at_ms = NowMs() + kPatienceMs;
  auto session = state.Join(options);
  give_up_at_ms = UINT64_MAX;
  return session;
}

Result<std::unique_ptr<Session>> JoinAtOnce(const JoinOptions& options, SharedState& state) {
  auto session = Session::Join(options);
  if (!session.ok()) return session;
  if (const auto synced = state.Sync(**session); !synced.ok()) return synced.status();
  return session;
}

int Run(const Options& options) {
  const Journal journal(options.records);
  const TrainerHistory history(options.history, options.join.group);
  auto state = CarriedState::Make();
  if (!state.ok()) Die("state", state.status());
  Code said = Code::kOk;
  auto joins = static_cast<std::uint64_t>(::getpid());  // trainers that are started anew begin with either way
  while (!asked_to_leave) {
    const auto join = ++joins % 2 == 0 ? JoinInBackground : JoinAtOnce;
    auto session = join(options.join, state->shared());
    if (!session.ok()) {
      if (const Status error = session.status(); std::exchange(said, error.code()) != error.code()) {
        std::fprintf(stderr, "join: %s: %s\n", NameOf(error.code()), error.text().c_str());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its daemon may not be back yet
      continue;
    }
    said = Code::kOk;
    Status over;
    bool has_state = true;
    do {
      if (!has_state && !state->shared().Sync(**session).ok()) break;  // and join anew
      Membership membership(**session, *state, journal, history, options.seed);
      over = membership.Run();
      has_state = membership.took_state();
      std::fprintf(stderr, "over: %s: %s\n", NameOf(over.code()), over.text().c_str());
      const bool may_end = IsEndOfMembership(over.code()) || over.code() == Code::kDeviceFailed;
      if (!over.ok() && !may_end) Die("unexpected end", over);
    } while (over.code() == Code::kRejoined);
  }
  return 0;
}

}  // namespace
}  // namespace ringway::chaos

int main(int argc, char** argv) {
  using namespace ringway;
  chaos::Options options;
  std::int64_t deadline_ms = 0;
  CLI::App app("A trainer of the chaos run");
  app.add_option("--socket", options.join.socket_path)->required();
  app.add_option("--group", options.join.group)->required();
  app.add_option("--records", options.records)->required();
  app.add_option("--history", options.history);
  app.add_option("--seed", options.seed)->required();
  app.add_option("--deadline-ms", deadline_ms);
  app.add_flag_callback("--gpu", device::LoadDriver);
  CLI11_PARSE(app, argc, argv);
  options.join.op_deadline = Milliseconds(deadline_ms);
  options.join.reconnect = std::chrono::seconds(options.seed % 2 == 0 ? 0 : 20);
  options.join.interrupted = [] { return chaos::NowMs() > chaos::give_up_at_ms; };
  options.join.timeout = std::chrono::seconds(20);  // then it checks whether it has to leave
  std::signal(SIGTERM, [](int) { chaos::asked_to_leave = true; });
  return chaos::Run(options);
}
