#include "tests/sim/masters.h"

#include <algorithm>

namespace ringway::sim {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(20);
constexpr char kGroup[] = "g";

record::Group GroupAt(std::uint64_t epoch) {
  record::Group group;
  group.set_name(kGroup);
  group.mutable_current()->set_epoch(epoch);
  group.add_members();
  return group;
}

}  // namespace

Masters::Masters(const MastersOptions& options)
    : options_(options), faults_(options.faults), random_(options.seed), masters_(options.masters) {
  for (std::uint32_t index = 0; index < options_.masters; ++index) Start(index);
}

void Masters::Start(std::uint32_t index) {
  Master& master = masters_[index];
  master = {.election =
                std::make_unique<Election>(ElectionOptions{.address = "m" + std::to_string(index), .seed = random_()}),
            .life = master.life + 1};
  Tick(index, master.life);
}

void Masters::Run(Duration time) {
  const TimePoint end = events_.now() + time;
  bool over = false;
  events_.At(end, [&over] { over = true; });
  while (!over && failure_.empty()) events_.Step();
}

void Masters::Heal() {
  faults_ = false;
  store_lost_ = false;
  for (std::uint32_t index = 0; index < options_.masters; ++index) {
    masters_[index].cut_off = false;
    if (masters_[index].election == nullptr) Start(index);
    Continue(index);
  }
}

std::optional<std::uint32_t> Masters::Leader() const {
  for (std::uint32_t index = 0; index < options_.masters; ++index) {
    const Master& master = masters_[index];
    if (master.election != nullptr && master.term == last_term() && master.election->leads()) return index;
  }
  return std::nullopt;
}

void Masters::Tick(std::uint32_t index, std::uint64_t life) {
  Master& master = masters_[index];
  if (master.election == nullptr || master.life != life) return;
  events_.After(kTick, [this, index, life] { Tick(index, life); });
  if (index == 0 && faults_ && Below(100) == 0) BeginFault();
  if (master.stopped) return;
  master.election->Tick(ClockOf(master));
  Drain(index);
  if (!master.election->leads() || master.writes != 0 || Below(4) != 0) return;
  master.writes = Epoch::Of(master.term, ++master.counter).value;
  master.election->Write({GroupAt(master.writes)}, ClockOf(master));
  Drain(index);
}

void Masters::BeginFault() {
  const auto index = static_cast<std::uint32_t>(Below(options_.masters));
  const Duration time = std::chrono::milliseconds(Below(6000));
  Master& master = masters_[index];
  switch (Below(4)) {
    case 0:
      Stop(index, Below(2) == 0);
      return events_.After(time, [this, index] { Continue(index); });
    case 1:
      if (index == 0) return;  // it begins the faults
      Kill(index);
      return events_.After(time, [this, index] {
        if (masters_[index].election == nullptr) Start(index);
      });
    case 2:
      master.cut_off = true;
      return events_.After(time, [this, index] { masters_[index].cut_off = false; });
    default:
      store_lost_ = true;
      return events_.After(time / 2, [this] { store_lost_ = false; });
  }
}

void Masters::Stop(std::uint32_t index, bool with_clock) {
  Master& master = masters_[index];
  if (std::exchange(master.stopped, true)) return;
  if (with_clock) master.clock_stopped = events_.now();
}

void Masters::Continue(std::uint32_t index) {
  Master& master = masters_[index];
  if (!std::exchange(master.stopped, false)) return;
  if (const auto since = std::exchange(master.clock_stopped, std::nullopt)) master.behind += events_.now() - *since;
  for (const kv::Reply& reply : std::exchange(master.waiting, {})) Hear(index, master.life, reply);
}

// Most are quick; few are later than any deadline.
Duration Masters::Delay() {
  if (faults_ && Below(20) == 0) return std::chrono::milliseconds(Below(4000));
  return std::chrono::microseconds(500 + Below(5000));
}

void Masters::Carry(std::uint32_t index, kv::Request request) {
  const std::uint64_t life = masters_[index].life;
  const bool request_is_lost = faults_ && Below(50) == 0;
  const bool reply_is_lost = faults_ && Below(50) == 0;
  if (request_is_lost || masters_[index].cut_off) return;
  events_.After(Delay(), [this, index, life, request = std::move(request), reply_is_lost] {
    if (store_lost_) {
      Master& master = masters_[index];
      if (master.life == life) events_.After(Delay(), [this, index, request] { Carry(index, request); });
      return;
    }
    const bool is_write = std::holds_alternative<kv::Transact>(request.what);
    KvModel lied = store_;
    kv::Reply reply = store_.Carry(request, events_.now());
    if (options_.lies && is_write && faults_ && Below(50) == 0) store_ = lied;
    if (reply_is_lost) return;
    events_.After(Delay(), [this, index, life, reply = std::move(reply)] { Hear(index, life, reply); });
  });
}

void Masters::Hear(std::uint32_t index, std::uint64_t life, const kv::Reply& reply) {
  Master& master = masters_[index];
  if (master.election == nullptr || master.life != life) return;
  if (master.stopped) return master.waiting.push_back(reply);
  master.election->OnReply(reply, ClockOf(master));
  Drain(index);
}

void Masters::Drain(std::uint32_t index) {
  for (kv::Request& request : masters_[index].election->TakeRequests()) Carry(index, std::move(request));
  for (const Election::Event& event : masters_[index].election->TakeEvents()) {
    std::visit([&](const auto& what) { Take(index, what); }, event);
  }
}

void Masters::Take(std::uint32_t index, const Election::Lead& lead) {
  Master& master = masters_[index];
  master.term = lead.tenure.term;
  master.counter = 0;
  master.writes = 0;
  ++tenures_;
  if (master.term <= last_term()) Fail("term " + std::to_string(master.term) + " has been there before");
  std::uint64_t found = 0;
  for (const record::Group& group : lead.tenure.groups) found = group.current().epoch();
  found_[master.term] = found;
  if (found < last_announced_) {
    Fail("term " + std::to_string(master.term) + " begins with " + ToString(Epoch(found)) + ", and " +
         ToString(Epoch(last_announced_)) + " was announced");
  }
}

void Masters::Take(std::uint32_t index, const Election::Standby&) { masters_[index].writes = 0; }

void Masters::Take(std::uint32_t index, const Election::Written& written) {
  Master& master = masters_[index];
  const std::uint64_t epoch = std::exchange(master.writes, 0);
  if (!written.status.ok()) {
    ++store_failures_;
    return;
  }
  for (auto later = found_.upper_bound(master.term); later != found_.end(); ++later) {
    if (later->second >= epoch) continue;
    Fail(ToString(Epoch(epoch)) + " is announced, and term " + std::to_string(later->first) + " began with " +
         ToString(Epoch(later->second)));
  }
  last_announced_ = std::max(last_announced_, epoch);
  ++announcements_;
}

}  // namespace ringway::sim
