// Masters that share a store, on simulated time: real elections, a model of the store, and faults drawn from a seed.
//
// Each master that leads decides again and again, as a coordinator does: it writes an epoch of its term into a record,
// and announces it once the store has acknowledged it. Every later tenure has to begin with what was announced, however
// late a master that was stopped announces it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "master/leadership/election.h"
#include "proto/ids.h"
#include "tests/sim/events.h"
#include "tests/sim/kv_model.h"

namespace ringway::sim {

struct MastersOptions {
  std::uint64_t seed = 1;
  std::uint32_t masters = 3;
  bool faults = true;  // requests and replies come late or never, masters stop, die and are cut off
  bool lies = false;   // the store acknowledges one write in 50 and forgets it
};

class Masters {
 public:
  explicit Masters(const MastersOptions& options);

  // Runs for so long; ends early at a failure.
  void Run(Duration time);
  // No fault begins any more, and those that last end.
  void Heal();
  void Kill(std::uint32_t master) { masters_[master].election.reset(); }
  // It neither hears nor does anything until it continues: by SIGSTOP or, as a paused virtual machine, with its clock.
  void Stop(std::uint32_t master, bool with_clock = false);
  void Continue(std::uint32_t master);
  // Requests wait meanwhile.
  void LoseStore(bool lost) { store_lost_ = lost; }

  // The one that leads as the store has it; nothing if none does, or if it does not know yet.
  std::optional<std::uint32_t> Leader() const;
  TimePoint now() const { return events_.now(); }
  std::uint64_t announced() const { return announcements_; }
  std::uint32_t tenures() const { return tenures_; }
  std::uint64_t store_failures() const { return store_failures_; }
  // What is broken; empty: nothing.
  const std::string& failure() const { return failure_; }

 private:
  struct Master {
    std::unique_ptr<Election> election;  // null: dead
    std::uint64_t life = 0;
    bool stopped = false;
    std::optional<TimePoint> clock_stopped = {};
    Duration behind{};  // its clock is
    bool cut_off = false;
    std::vector<kv::Reply> waiting = {};  // replies while it is stopped
    std::uint32_t term = 0;
    std::uint32_t counter = 0;  // of its epochs
    std::uint64_t writes = 0;   // the epoch that is being written; 0: none
  };

  void Start(std::uint32_t index);
  void Tick(std::uint32_t index, std::uint64_t life);
  void Carry(std::uint32_t index, kv::Request request);
  void Hear(std::uint32_t index, std::uint64_t life, const kv::Reply& reply);
  void Drain(std::uint32_t index);
  void Take(std::uint32_t index, const Election::Lead& lead);
  void Take(std::uint32_t index, const Election::Standby& standby);
  void Take(std::uint32_t index, const Election::Written& written);
  void BeginFault();
  Duration Delay();
  TimePoint ClockOf(const Master& master) const { return events_.now() - master.behind; }
  std::uint32_t last_term() const { return found_.empty() ? 0 : found_.rbegin()->first; }
  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  void Fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }

  const MastersOptions options_;
  bool faults_;
  std::mt19937_64 random_;
  EventQueue events_;
  KvModel store_;
  bool store_lost_ = false;
  std::vector<Master> masters_;
  std::uint64_t last_announced_ = 0;              // epoch
  std::map<std::uint32_t, std::uint64_t> found_;  // by term: the epoch that it began with
  std::uint64_t announcements_ = 0;
  std::uint32_t tenures_ = 0;
  std::uint64_t store_failures_ = 0;
  std::string failure_;
};

}  // namespace ringway::sim
