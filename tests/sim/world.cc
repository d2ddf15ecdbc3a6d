#include <algorithm>
#include <set>
#include <utility>

#include "tests/sim/world_impl.h"

namespace ringway::sim {
namespace {

using std::chrono::milliseconds;

constexpr Duration kProgressBound = std::chrono::seconds(60);
constexpr std::uint64_t kEventsMax = 1'000'000;  // a world has some thousands, one in ten thousand some 300,000

constexpr Duration kHung = std::chrono::seconds(2);  // far more than any pause, where trainers may hang

bool IsAsynchronous(std::uint64_t seed) { return seed % 4 == 2 || seed % 16 == 15; }

bool HasQuorums(std::uint64_t seed) { return seed % 16 == 3 || seed % 32 == 6; }

bool HasMessages(std::uint64_t seed) { return seed % 16 == 8 || seed % 32 == 19; }

bool TrainersHang(std::uint64_t seed) { return seed % 16 == 10 || seed % 16 == 11; }
// How many daemons all trainers share at first; 0: each has its own.
std::uint32_t SharedHosts(std::uint64_t seed) { return seed % 64 == 35 ? 1 : seed % 64 == 52 ? 2 : 0; }

}  // namespace

ClusterOptions World::DrawCluster(std::uint64_t seed, Dice& dice) {
  ClusterOptions options;
  options.seed = seed;
  options.lanes = static_cast<std::uint32_t>(dice.Between(1, 3));
  if (seed % 8 == 0) {
    options.lanes = 9;  // so many that there may be more
    options.lanes_max = 12;
  }
  options.master.heartbeat_ms = static_cast<std::uint32_t>(dice.Between(50, 200));
  options.master.detect_ms = options.master.heartbeat_ms * static_cast<std::uint32_t>(dice.Between(3, 6));
  if (dice.OneOf(4)) options.probe_bytes = dice.Between(1, 300'000);
  if (seed % 4 == 1) options.master.detect_far_ms = 2 * options.master.detect_ms;  // there are two sites
  options.master.partition_grace_ms = options.master.detect_ms + 5000;
  options.master.segment_bytes_max = 4096;
  options.master.small_bytes_max = dice.Pick<std::uint64_t>({1, 1024, 4096, 8192});
  options.delays_are_known = seed % 3 == 0;
  options.master.retained_bytes_max = seed % 3 == 0 ? 10'000 * (seed % 2 + 1) : 0;
  if (seed % 4 == 0) options.retained_bytes_max = 25'000;
  if (seed % 5 < 2) options.slice_bytes = seed % 5 == 0 ? 1000 : 20'000;
  if (seed % 7 < 2) options.memory_max = seed % 7 == 0 ? 20'000 : 100'000;
  options.master.eager_bytes_max = dice.Pick<std::uint64_t>({1, 5000, 16384, 1 << 20});
  const bool wan = dice.OneOf(3) || SharedHosts(seed) > 1;
  options.network.delay_min = Duration(wan ? 1000 : 50);
  options.network.delay_max = Duration(wan ? 20000 : dice.Between(100, 2000));
  if (SharedHosts(seed) > 1) {  // plans make a site of each
    options.delays_are_known = true;
    options.site_uplink = 1'000'000;
  }
  if (dice.OneOf(3)) {
    options.network.far = Cluster::kMaster;
    const auto far_ms = static_cast<std::uint32_t>(dice.Between(5, 60));
    options.network.far_delay_max = options.network.delay_max + milliseconds(far_ms);
    options.master.detect_ms = std::max(options.master.detect_ms, 2 * options.master.heartbeat_ms + 8 * far_ms);
  }
  if (dice.OneOf(2)) {
    options.network.late_one_of = static_cast<std::uint32_t>(dice.Between(10, 200));
    options.network.late_max = milliseconds(dice.Between(1, 60));
  }
  if (dice.OneOf(3)) options.staged_one_of = static_cast<std::uint32_t>(dice.Between(1, 8));
  if (dice.OneOf(3)) options.empty_one_of = static_cast<std::uint32_t>(dice.Between(2, 8));
  if (dice.OneOf(5)) options.op_deadline = milliseconds(dice.Between(20, 4000));
  if (seed % 9 == 4 && !TrainersHang(seed)) {
    options.staged_one_of = static_cast<std::uint32_t>(1 + seed % 3);
    options.staging_fails_one_of = static_cast<std::uint32_t>(2 + seed % 13);
  }
  return options;
}

TrainerOptions World::DrawTrainers(std::uint64_t seed, Dice& dice) {
  TrainerOptions options;
  options.seed = seed;
  options.channels = static_cast<std::uint32_t>(dice.Between(1, 3));
  options.ops_per_round_max = static_cast<std::uint32_t>(dice.Between(1, 6));
  options.count_max = dice.Pick<std::uint64_t>({200, 2000, 6000});
  options.codecs = dice.OneOf(3);
  options.pause_max = milliseconds(dice.Between(1, 60));
  options.update_one_of = static_cast<std::uint32_t>(dice.Between(4, 40));
  if (dice.OneOf(6)) options.mismatch_one_of = static_cast<std::uint32_t>(dice.Between(20, 60));
  if (dice.OneOf(4)) options.cancel_one_of = static_cast<std::uint32_t>(dice.Between(2, 40));
  if (TrainersHang(seed)) options.mismatch_one_of = options.cancel_one_of = 0;  // whom nobody waits for may hang on
  options.asynchronous = IsAsynchronous(seed);
  options.quorums = HasQuorums(seed);
  options.every_kind = seed % 16 == 7 || seed % 16 == 14;
  return options;
}

// Two peers that nobody can dial cannot reach each other, so at most one is blocked.
Inbound World::InboundOf(std::uint64_t seed, std::uint32_t place) const {
  if (seed % 6 != 1 || seed / 6 % world_size_ != place) return Inbound::kOpen;
  return seed % 12 == 1 ? Inbound::kBlocked : Inbound::kBlockedAndSaid;
}

ClusterOptions World::WithRecording(ClusterOptions options, bool trace, const Recording& recording) {
  options.trace = trace;
  options.history = recording.history;
  options.judges = recording.judges;
  return options;
}

World::World(std::uint64_t seed, bool trace, const Recording& recording)
    : dice_(seed),
      cluster_(WithRecording(DrawCluster(seed, dice_), trace, recording)),
      trainers_(cluster_, dice_.generator(), DrawTrainers(seed, dice_)),
      groups_(dice_.OneOf(4) ? std::vector<std::string>{"a", "b"} : std::vector<std::string>{"a"}),
      world_size_(static_cast<std::uint32_t>(dice_.Between(2, dice_.OneOf(3) ? 6 : 4))),
      min_world_max_(dice_.OneOf(5) ? 2 : 1),
      fail_on_peer_loss_(dice_.OneOf(8)) {
  hangs_ = TrainersHang(seed);
  cluster_.SetOnNews([this](std::uint32_t node) { OnNews(node); });
  draws_min_world_ = IsAsynchronous(seed) && seed % 8 >= 6;
  if (draws_min_world_) min_world_max_ = static_cast<std::uint32_t>(dice_.Between(2, world_size_ + 1));
  for (std::uint32_t i = 0; i < world_size_; ++i) {
    const bool is_drawn = dice_.OneOf(2);
    const bool is_far = SharedHosts(seed) > 1 ? i % 2 == 1 : is_drawn;
    const Host host = cluster_.AddDaemon(is_far ? "eu" : "us", InboundOf(seed, i));
    for (const std::string& group : groups_) {
      cluster_.Join(SharedHosts(seed) > 0 ? i % SharedHosts(seed) : host, OrderOf(group, world_size_));
    }
  }
  for (const Kind& kind : Kinds()) {
    if (kind.name != "trainer hangs" && dice_.OneOf(3)) kinds_.push_back(kind);  // that has worlds of its own
  }
  if (seed % 16 == 9) KeepOnly({"newcomer", "newcomer dies", "control link"});
  if (TrainersHang(seed)) KeepOnly({"trainer hangs", "newcomer", "lane", "control link"});
  if (seed % 16 == 5) KeepOnly({"master cut off in a recovery", "newcomer"});
  if (seed % 16 == 12) KeepOnly({"master partition", "newcomer", "control link", "lane"});
  if (seed % 16 == 13) KeepOnly({"master cut off from most", "newcomer"});
  const bool scribbles = seed % 11 == 3 && !TrainersHang(seed);
  if (HasMessages(seed)) traffic_.emplace(cluster_, seed).Begin();
  // A late trainer whose daemon has no room for results is dropped.
  const bool falls_behind = HasQuorums(seed) && cluster_.options().memory_max != MemoryBudget::kUnlimited;
  calm_ = IsCalm() && !falls_behind;
  peaceful_ = IsPeaceful() && !scribbles && !falls_behind;
  fault_gap_ = milliseconds(dice_.Between(5, 600));
  const Duration first = Duration(static_cast<std::int64_t>(dice_.Below(300'000)));
  // What the master waits for comes, or does not.
  const bool patient = seed % 16 == 5 || seed % 16 == 13 || seed % 16 == 12;
  const Duration faulty = patient ? Duration(milliseconds(cluster_.options().master.partition_grace_ms))
                                  : std::min<Duration>(fault_gap_ * 6, std::chrono::seconds(2));
  if (patient) fault_gap_ = faulty / 4;
  faults_end_ = cluster_.events_queue().now() + first + faulty;
  cluster_.events_queue().After(first, [this] { NextFault(); });
  if (scribbles) cluster_.events_queue().After(first + seed * 7919 % 200 * milliseconds(1), [this] { ScribbleOnce(); });
}

// One trainer of each group writes to an output that is in flight.
void World::ScribbleOnce() {
  for (const std::string& group : groups_) {
    const std::vector<std::uint32_t> members = Members(group);
    if (members.size() >= 2) cluster_.ScribbleOnce(members.back());
  }
}

// Faults whose meeting is rare where there are many kinds.
void World::KeepOnly(const std::set<std::string>& names) {
  kinds_.clear();
  for (const Kind& kind : Kinds()) {
    if (names.contains(kind.name)) kinds_.push_back(kind);
  }
}

bool World::AnswersInTime() const {
  const ClusterOptions& options = cluster_.options();
  const Duration late = options.network.late_one_of == 0 ? Duration() : options.network.late_max;
  const Duration delay = std::max(options.network.delay_max, options.network.far_delay_max);
  const Duration answer = 4 * delay + 2 * late + milliseconds(2 * options.master.heartbeat_ms);
  return answer < milliseconds(options.master.detect_ms);
}

bool World::IsCalm() const {
  return AnswersInTime() && std::none_of(kinds_.begin(), kinds_.end(), [](const Kind& kind) { return kind.silences; });
}

bool World::IsPeaceful() const {
  return AnswersInTime() && std::none_of(kinds_.begin(), kinds_.end(), [](const Kind& kind) { return kind.harms; }) &&
         !trainers_.GiveUp() && !draws_min_world_ && cluster_.options().op_deadline == Duration::zero() &&
         cluster_.options().staging_fails_one_of == 0;
}

// No operation was disturbed by anything that is not a member's end.
void World::CheckPeace(const std::string& group) {
  if (!peaceful_ || hangs_ || cluster_.HadALossInAView(group)) return;
  for (const std::uint32_t node : Members(group)) {
    for (const auto& [op, outcome] : cluster_.OutcomesOf(node)) {
      if (outcome.code == Code::kOk && outcome.retries == 0) continue;
      if (outcome.code == Code::kWorldTooSmall) continue;  // a newcomer may form a group alone
      cluster_.Fail("operation " + ToString(op) +
                    " was disturbed though no member was: " + ringway::NameOf(outcome.code));
    }
  }
}

JoinOrder World::OrderOf(const std::string& group, std::uint32_t wait_world) {
  const auto drawn = [this] { return static_cast<std::uint32_t>(dice_.Between(1, min_world_max_)); };
  return {.group = group,
          .wait_world = wait_world,
          .min_world = draws_min_world_ ? drawn() : min_world_max_,
          .fail_on_peer_loss = fail_on_peer_loss_,
          .hung = hangs_ ? kHung : Duration()};
}

// Messages that beget messages would fill the memory before the time is up.
void World::CheckForStorm() {
  if (cluster_.events() > kEventsMax) cluster_.Fail("a storm: more than " + std::to_string(kEventsMax) + " events");
}

WorldReport World::Run() {
  while (!healed_ && cluster_.failure().empty() && cluster_.events_queue().Step()) CheckForStorm();
  const auto settled = [this] {
    CheckForStorm();
    return std::all_of(groups_.begin(), groups_.end(), [this](const std::string& group) { return Settled(group); });
  };
  if (cluster_.RunUntil(settled, kProgressBound)) {
    RecordOver();
    Finish();
  } else if (cluster_.failure().empty()) {
    cluster_.Fail("no progress after everything healed: " + WhatWaits());
  }
  report_.failure = cluster_.failure();
  report_.events = cluster_.events();
  for (std::uint32_t node = 0; node < cluster_.nodes(); ++node) {
    for (const auto& [op, outcome] : cluster_.OutcomesOf(node)) {
      Count(std::string("reported ") + ringway::NameOf(outcome.code));
      if (outcome.retries > 0) Count("reported after a retry");
    }
    if (cluster_.Here(node) && cluster_.Joined(node) && !cluster_.StatusOf(node).shares.empty())
      Count("ended with unequal shares");
  }
  for (const auto& [code, count] : cluster_.messages().Counts())
    report_.counts[std::string("message ") + ringway::NameOf(code)] += count;
  report_.trace = cluster_.trace();
  return std::move(report_);
}

// ---------------------------------------------------------------------------------------------- who is there

std::vector<std::uint32_t> World::NodesHere(const std::string& group) const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t node = 0; node < cluster_.nodes(); ++node) {
    if (cluster_.GroupOf(node) == group && cluster_.Here(node)) out.push_back(node);
  }
  return out;
}

std::vector<std::uint32_t> World::Members(const std::string& group) const {
  std::vector<std::uint32_t> out = NodesHere(group);
  std::erase_if(out, [this](std::uint32_t node) { return !cluster_.Joined(node); });
  return out;
}

std::vector<std::uint32_t> World::Able(const std::string& group) const {
  std::vector<std::uint32_t> out = Members(group);
  std::erase_if(out, [this](std::uint32_t node) { return trainers_.Hangs(node); });
  return out;
}

std::optional<std::uint32_t> World::AnyMember() {
  const std::vector<std::uint32_t> members = Members(dice_.Pick(groups_));
  if (members.empty()) return std::nullopt;
  return dice_.Pick(members);
}

std::optional<Host> World::AnyDaemon() {
  std::vector<Host> alive;
  for (Host host = 0; host < cluster_.daemons(); ++host) {
    if (cluster_.Alive(host)) alive.push_back(host);
  }
  if (alive.size() < 2) return std::nullopt;  // one is left in peace
  return dice_.Pick(alive);
}

std::optional<std::pair<Host, Host>> World::AnyPair() {
  const std::optional<Host> a = AnyDaemon();
  const std::optional<Host> b = AnyDaemon();
  if (!a || *a == *b) return std::nullopt;
  return std::pair(*a, *b);
}

void World::OnNews(std::uint32_t node) {
  trainers_.OnNews(node);
  if (!cluster_.Ended(node)) return;
  const bool evicted = cluster_.EndedCode(node) == Code::kEvicted && !trainers_.Hangs(node);
  if (calm_ && evicted) cluster_.Fail("a peer is evicted that was never silent");
  if (peaceful_ && evicted && cluster_.Joined(node)) cluster_.Fail("a member is evicted that no member has lost");
  Count(std::string("ended ") + ringway::NameOf(cluster_.EndedCode(node)));
  const Host host = cluster_.HostOf(node);
  if (cluster_.Alive(host) && !dice_.OneOf(3)) JoinLater(host, cluster_.GroupOf(node));
}

void World::JoinLater(Host host, const std::string& group) {
  cluster_.events_queue().After(milliseconds(dice_.Between(1, 300)), [this, host, group] {
    if (cluster_.nodes() < kNodesMax && cluster_.Alive(host)) cluster_.Join(host, OrderOf(group, 1));
  });
}

// ---------------------------------------------------------------------------------------------- the end

void World::Heal() {
  cluster_.HealAll();
  trainers_.Behave();
  if (traffic_) traffic_->Stop();
  cluster_.MendStaging();
  for (const std::string& group : groups_) trainers_.StopAt(group, Furthest(group) + 4);
  healed_ = true;
  HelpForming();
}

std::uint64_t World::Furthest(const std::string& group) const {
  std::uint64_t furthest = 0;
  for (const std::uint32_t node : Members(group)) furthest = std::max(furthest, trainers_.Position(node));
  return furthest;
}

// Peers that wait for others which will never come do so rightly: these come.
void World::HelpForming() {
  for (const std::string& group : groups_) {
    // A group that was formed anew counts from one.
    if (Furthest(group) + 50 < trainers_.StopsAt(group)) trainers_.StopAt(group, Furthest(group) + 4);
    if (!Members(group).empty()) continue;
    for (Host host = 0; host < cluster_.daemons(); ++host) {
      if (!cluster_.Alive(host)) Restart(host);  // the master waits for its peers
    }
    for (auto here = NodesHere(group).size(); here > 0 && here < world_size_; ++here) {
      cluster_.Join(cluster_.AddDaemon(), OrderOf(group, 1));
    }
  }
  cluster_.events_queue().After(std::chrono::seconds(1), [this] { HelpForming(); });
}

bool World::Settled(const std::string& group) const {
  const std::vector<std::uint32_t> members = Able(group);
  if (members.empty()) return NodesHere(group).empty();
  if (traffic_ && !traffic_->Done()) return false;
  return std::all_of(members.begin(), members.end(),
                     [this](std::uint32_t node) { return trainers_.Finished(node) && cluster_.IsMember(node); });
}

std::string World::WhatWaits() const {
  std::string out;
  for (const std::string& group : groups_) {
    if (Settled(group)) continue;
    for (const std::uint32_t node : NodesHere(group)) {
      out += cluster_.Describe(node) + (cluster_.Joined(node) && trainers_.Finished(node) ? " (finished)" : "") +
             (cluster_.IsMember(node) ? "" : " (no member to the master)") + "; ";
    }
  }
  return out;
}

std::string World::Memory(const std::vector<std::uint32_t>& nodes) const {
  std::string out;
  for (const std::uint32_t node : nodes) {
    const agreement::PeerStatus status = cluster_.StatusOf(node);
    out += cluster_.Describe(node) + " holds " + std::to_string(status.held_bytes) + ", retains " +
           std::to_string(status.retained_bytes) + "; ";
  }
  return out;
}

void World::RecordOver() {
  std::vector<std::uint32_t> stayed;
  for (const std::string& group : groups_) {
    const std::vector<std::uint32_t> members = Able(group);
    stayed.insert(stayed.end(), members.begin(), members.end());
  }
  cluster_.RecordOver(stayed);
}

void World::Finish() {
  for (const std::string& group : groups_) {
    const std::vector<std::uint32_t> members = Able(group);
    std::string broken = cluster_.WhyBroken(members);
    if (!broken.empty()) return cluster_.Fail(broken);
    CheckPeace(group);
    const auto agreed = [&] {
      std::set<Epoch> epochs;  // some may end only now: they had not learned of it
      for (const std::uint32_t node : members) {
        if (cluster_.Here(node)) epochs.insert(cluster_.StatusOf(node).epoch);
      }
      return epochs.size() <= 1;
    };
    if (!cluster_.RunUntil(agreed)) return cluster_.Fail("members stay in different views");
    const auto clean = [&] {
      return std::all_of(members.begin(), members.end(), [&](std::uint32_t node) {
        const agreement::PeerStatus status = cluster_.StatusOf(node);
        return !cluster_.Here(node) || (status.held_bytes == 0 && status.retained_bytes == 0);
      });
    };
    if (!cluster_.RunUntil(clean)) return cluster_.Fail("memory is not given back: " + Memory(members));
  }
}

WorldReport RunWorld(std::uint64_t seed, bool trace, const Recording& recording) {
  return World(seed, trace, recording).Run();
}

}  // namespace ringway::sim
