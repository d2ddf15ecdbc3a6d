// The faults of a random world.
#include <algorithm>

#include "tests/sim/world_impl.h"

namespace ringway::sim {

using std::chrono::milliseconds;

const std::vector<World::Kind>& World::Kinds() {
  static const std::vector<Kind> kKinds = {
      {"kill", false, true, [](World& w) { return w.Kill(false); }},
      {"power loss", false, true, [](World& w) { return w.Kill(true); }},
      {"stop", true, true, [](World& w) { return w.Stop(); }},
      {"partition", true, true, [](World& w) { return w.SilencePair(true); }},
      {"one-way partition", true, true, [](World& w) { return w.SilencePair(false); }},
      {"master partition", true, false, [](World& w) { return w.SilenceMaster(); }},
      {"master cut off", false, false, [](World& w) { return w.CutOffMaster(); }},
      {"master cut off in a recovery", false, true, [](World& w) { return w.CutOffMasterInRecovery(); }},
      {"master cut off from most", false, true, [](World& w) { return w.CutOffMost(); }},
      {"master link", true, false, [](World& w) { return w.BreakMaster(); }},
      {"master killed", false, false, [](World& w) { return w.KillMaster(false); }},
      {"master killed when it recorded", false, false, [](World& w) { return w.KillMaster(true); }},
      {"master's disk full", true, false, [](World& w) { return w.FillDisk(); }},
      {"control link", false, false, [](World& w) { return w.CutControl(); }},
      {"flipped bit", false, false, [](World& w) { return w.FlipABit(); }},
      {"flipped bits", true, true, [](World& w) { return w.FlipBits(); }},
      {"lane", false, false, [](World& w) { return w.CutLane(); }},
      {"lanes", false, false, [](World& w) { return w.WantLanes(); }},
      {"rates", false, false, [](World& w) { return w.ChangeRates(); }},
      {"newcomer", false, false, [](World& w) { return w.AddNewcomer(); }},
      {"newcomer dies", false, false, [](World& w) { return w.KillNewcomer(); }},
      {"trainer sleeps", false, false, [](World& w) { return w.LetTrainerSleep(); }},
      {"trainer hangs", false, false, [](World& w) { return w.LetTrainerHang(); }},
      {"leave", false, true, [](World& w) { return w.LeaveGroup(false); }},
      {"trainer dies", false, true, [](World& w) { return w.LeaveGroup(true); }},
  };
  return kKinds;
}

void World::NextFault() {
  if (cluster_.events_queue().now() >= faults_end_) return Heal();
  if (!kinds_.empty()) {
    const Kind& kind = dice_.Pick(kinds_);
    if (kind.strike(*this)) Count("fault: " + kind.name);
  }
  const auto gap = static_cast<std::int64_t>(dice_.Below(static_cast<std::uint64_t>(2 * fault_gap_.count())));
  cluster_.events_queue().After(Duration(gap), [this] { NextFault(); });
}

bool World::Kill(bool silently) {
  const std::optional<Host> host = AnyDaemon();
  if (!host) return false;
  cluster_.KillDaemon(*host, silently);
  if (!dice_.OneOf(3)) {
    // It is restarted and joins as new.
    const bool elsewhere = dice_.OneOf(2);
    cluster_.events_queue().After(milliseconds(dice_.Between(1, 500)), [this, host, elsewhere] {
      if (elsewhere) {
        AddNewcomer();
      } else if (!cluster_.Alive(*host) && cluster_.nodes() < kNodesMax) {
        Restart(*host);
      }
    });
  }
  return true;
}

void World::Restart(Host host) {
  cluster_.RestartDaemon(host);
  for (const std::string& group : groups_) cluster_.Join(host, OrderOf(group, 1));
}

bool World::Stop() {
  const std::optional<Host> host = AnyDaemon();
  if (!host || cluster_.Stopped(*host)) return false;
  cluster_.StopDaemon(*host);
  const milliseconds until(dice_.Between(1, dice_.OneOf(2) ? 100 : 2000));
  cluster_.events_queue().After(until, [this, host] { cluster_.ContinueDaemon(*host); });
  return true;
}

bool World::Silence(Host from, Host to, bool both) {
  cluster_.Trace("network", "silence between " + std::to_string(from) + " and " + std::to_string(to));
  cluster_.Silence(from, to);
  if (both) cluster_.Silence(to, from);
  const milliseconds until(dice_.Between(1, dice_.OneOf(2) ? 100 : 2000));
  cluster_.events_queue().After(until, [this, from, to] { cluster_.Unsilence(from, to); });
  return true;
}

bool World::SilencePair(bool both) {
  const auto pair = AnyPair();
  return pair && Silence(pair->first, pair->second, both);
}

// Any daemons, in either direction or both, for any time.
bool World::SilenceMaster() {
  std::vector<Host> hosts;
  for (Host host = 0; host < cluster_.daemons(); ++host) {
    if (cluster_.Alive(host) && dice_.OneOf(2)) hosts.push_back(host);
  }
  const std::uint64_t ways = dice_.Between(1, 3);
  for (const Host host : hosts) {
    if ((ways & 1) != 0) cluster_.Silence(host, Cluster::kMaster);
    if ((ways & 2) != 0) cluster_.Silence(Cluster::kMaster, host);
  }
  cluster_.Trace("network", "silence between the master and " + std::to_string(hosts.size()) + " daemons, " +
                                (ways == 3   ? "both ways"
                                 : ways == 1 ? "towards it"
                                             : "from it"));
  const auto longest = 2 * cluster_.options().master.partition_grace_ms;
  const milliseconds until(dice_.Between(1, dice_.OneOf(2) ? 100 : longest));
  cluster_.events_queue().After(until, [this, hosts] {
    for (const Host host : hosts) cluster_.Unsilence(host, Cluster::kMaster);
  });
  return !hosts.empty();
}

bool World::CutOffMaster() {
  cluster_.CutOffMaster();
  const milliseconds until(dice_.Between(1, dice_.OneOf(2) ? 100 : 10'000));
  cluster_.events_queue().After(until, [this] { cluster_.RejoinMaster(); });
  return true;
}

bool World::CutOffMasterInRecovery() {
  if (!Kill(dice_.OneOf(2))) return false;
  cluster_.events_queue().After(Duration(static_cast<std::int64_t>(dice_.Below(3000))), [this] { CutOffMaster(); });
  return true;
}

// Cuts the master off from all but one, for less than the grace and the time that daemons take to connect again.
bool World::CutOffMost() {
  constexpr milliseconds kConnect(1500);
  for (const std::string& group : groups_) {
    if (Members(group).size() < 3) return false;
  }
  const std::optional<Host> heard = AnyDaemon();
  if (!heard || cluster_.now() < cut_off_until_) return false;  // one after the other would be longer than the grace
  cluster_.CutOffMaster();
  cluster_.Unsilence(*heard, Cluster::kMaster);
  const auto grace_ms = cluster_.options().master.partition_grace_ms;
  const milliseconds longest = milliseconds(grace_ms) - kConnect;
  const milliseconds until = dice_.OneOf(2) ? longest : milliseconds(dice_.Between(1, longest.count()));
  cut_off_until_ = cluster_.now() + until + 2 * kConnect;
  const std::vector<std::uint32_t> members = Members(groups_.front());
  for (const std::uint32_t node : members) {  // a recovery, for another reason
    const std::uint64_t next = cluster_.NextSequence(node, 0);
    if (cluster_.HostOf(node) == *heard && next > 1) cluster_.Cancel(node, {ChannelId(0), next - 1});
  }
  cluster_.events_queue().After(until, [this] { cluster_.RejoinMaster(); });
  return true;
}

bool World::BreakMaster() {
  const std::optional<Host> host = AnyDaemon();
  if (!host) return false;
  cluster_.BreakMasterLink(*host, static_cast<Cluster::Break>(dice_.Below(3)));
  return true;
}

bool World::KillMaster(bool when_recorded) {
  if (!cluster_.MasterAlive()) return false;
  cluster_.KillMaster(when_recorded);
  cluster_.events_queue().After(milliseconds(dice_.Between(1, dice_.OneOf(2) ? 200 : 2000)), [this] {
    if (!cluster_.MasterAlive()) cluster_.StartMaster();
  });
  return true;
}

bool World::FillDisk() {
  cluster_.Trace("master", "has a full disk");
  cluster_.SetDiskFull(true);
  cluster_.events_queue().After(milliseconds(dice_.Between(1, 500)), [this] { cluster_.SetDiskFull(false); });
  return true;
}

// One after the other: each is repaired before the detection time is over.
bool World::MayBreakALink() {
  const TimePoint now = cluster_.now();
  if (now - link_broken_ < milliseconds(cluster_.options().master.detect_ms)) return false;
  link_broken_ = now;
  return true;
}

bool World::CutControl() {
  const std::vector<std::uint32_t> members = Members(dice_.Pick(groups_));
  if (members.size() < 2 || !MayBreakALink()) return false;
  const std::uint32_t a = dice_.Pick(members);
  const std::uint32_t b = dice_.Pick(members);
  if (a == b) return false;
  cluster_.CutControl(a, b);
  return true;
}

bool World::FlipABit() {
  if (!MayBreakALink()) return false;
  cluster_.FlipNext();
  return true;
}

bool World::FlipBits() {
  cluster_.FlipOneOf(static_cast<std::uint32_t>(dice_.Between(4, 200)));
  cluster_.events_queue().After(milliseconds(dice_.Between(1, dice_.OneOf(2) ? 100 : 2000)),
                                [this] { cluster_.FlipOneOf(0); });
  return true;
}

bool World::CutLane() {
  const std::vector<std::uint32_t> members = Members(dice_.Pick(groups_));
  if (members.size() < 2) return false;
  const std::uint32_t a = dice_.Pick(members);
  const std::uint32_t b = dice_.Pick(members);
  if (a == b) return false;
  const std::uint32_t lanes = std::max(cluster_.options().lanes, cluster_.options().lanes_max);
  cluster_.CutLane(a, b, LaneId(static_cast<std::uint32_t>(dice_.Below(lanes))));
  return true;
}

bool World::WantLanes() {
  const std::vector<std::uint32_t> members = Members(dice_.Pick(groups_));
  if (members.size() < 2 || cluster_.options().lanes_max == 0) return false;
  const std::uint32_t a = dice_.Pick(members);
  const std::uint32_t b = dice_.Pick(members);
  if (a == b) return false;
  cluster_.WantLanes(a, b, static_cast<std::uint32_t>(dice_.Between(8, 14)));
  return true;
}

// Paths turn out to be other than they were, and so does the plan.
bool World::ChangeRates() {
  const std::vector<std::uint32_t> members = Members(dice_.Pick(groups_));
  for (const std::uint32_t from : members) {
    for (const std::uint32_t to : members) {
      if (from != to) cluster_.SayRate(from, to, dice_.Pick<std::uint64_t>({1'000'000, 10'000'000, 1'000'000'000}));
    }
  }
  return members.size() >= 2;
}

bool World::AddNewcomer() {
  if (cluster_.nodes() >= kNodesMax) return false;
  const Host host = cluster_.AddDaemon(dice_.OneOf(2) ? "eu" : "us");
  for (const std::string& group : groups_) cluster_.Join(host, OrderOf(group, 1));
  return true;
}

// On a daemon of which no peer is in a group yet.
bool World::KillNewcomer() {
  for (std::uint32_t node = cluster_.nodes(); node-- > 0;) {
    const Host host = cluster_.HostOf(node);
    bool joined = !cluster_.Here(node);
    for (std::uint32_t other = 0; other < cluster_.nodes(); ++other) {
      joined = joined || (cluster_.HostOf(other) == host && cluster_.Joined(other));
    }
    if (joined || Members(cluster_.GroupOf(node)).empty()) continue;
    if (cluster_.HasPeer(node) && dice_.OneOf(3)) {
      cluster_.Leave(node);
      return true;
    }
    cluster_.KillDaemon(host, dice_.OneOf(2));
    if (dice_.OneOf(2)) cluster_.events_queue().After(milliseconds(dice_.Between(1, 300)), [this] { AddNewcomer(); });
    return true;
  }
  return AddNewcomer();
}

// It submits nothing meanwhile, and all wait for it.
bool World::LetTrainerSleep() {
  const std::optional<std::uint32_t> node = AnyMember();
  if (node) trainers_.Sleep(*node, milliseconds(dice_.Between(1, dice_.OneOf(2) ? 100 : 8000)));
  return node.has_value();
}

// Lets trainers of at most half of a group hang: only a majority that submits can name those that hang.
bool World::LetTrainerHang() {
  const std::optional<std::uint32_t> node = AnyMember();
  if (!node || !hangs_ || trainers_.Hangs(*node)) return false;
  const std::string& group = cluster_.GroupOf(*node);
  const std::size_t members = Members(group).size();
  if (2 * (members - Able(group).size() + 1) > members) return false;
  trainers_.Hang(*node);
  cluster_.StopStaging(*node);
  return true;
}

bool World::LeaveGroup(bool abandon) {
  const std::optional<std::uint32_t> node = AnyMember();
  if (!node || cluster_.Stopped(cluster_.HostOf(*node))) return false;
  if (abandon) {
    cluster_.AbandonTrainer(*node);
  } else {
    cluster_.Leave(*node);
  }
  return true;
}

std::vector<std::string> FaultKinds() {
  std::vector<std::string> names;
  for (const World::Kind& kind : World::Kinds()) names.push_back(kind.name);
  return names;
}

}  // namespace ringway::sim
