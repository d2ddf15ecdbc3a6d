// The processes of a chaos run: one master and kSeats seats, each a daemon behind a relay and its trainer.
//
//   trainer -- local socket -- daemon <== relay <== the other daemons
//                                daemon ==> relay ==> master
//
// Threads: one, the main thread (tests/e2e/processes.h).
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/chaos/fleet_host.h"
#include "tests/chaos/record.h"
#include "tests/e2e/processes.h"
#include "tests/e2e/relay.h"
#include "tests/history/history.h"

namespace ringway::chaos {

inline constexpr std::size_t kSeats = 6;

struct FleetOptions {
  std::uint64_t seed = 1;
  int heartbeat_ms = 50;
  int detect_ms = 300;
  int op_deadline_ms = 2000;
  bool tls = false;  // mutual TLS: then relays do not see whose a connection is, and do to each what a pair was to meet
  bool host_faults = false;  // wall clocks, names, a disk and a local user are among the faults
  bool gpu = false;          // device memory is of this host's GPU, not of the tests' device
  bool previous = false;     // each process that is started is of this release or of the one before, by chance
};

// Resources of a process, for comparison with its own or a similar one's at another idle moment.
struct Holdings {
  std::size_t descriptors = 0;
  std::size_t regions = 0;  // mapped memfds
  std::size_t anonymous_kib = 0;
};

class Fleet {
 public:
  // Starts all processes and waits until they are ready.
  explicit Fleet(const FleetOptions& options);
  // Keeps the logs if anything failed.
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  e2e::Process& master() { return *master_; }
  e2e::Process& daemon(std::size_t seat) { return *seats_[seat].daemon; }
  e2e::Process& trainer(std::size_t seat) { return *seats_[seat].trainer; }
  e2e::Relay& relay(std::size_t seat) { return *seats_[seat].relay; }
  // The newest membership of the seat's trainer; 0 before the first.
  std::uint64_t PeerOf(std::size_t seat) const { return seats_[seat].peer; }
  // The newest operation of the seat's trainer that succeeded.
  const std::optional<Record>& LastOf(std::size_t seat) const { return seats_[seat].last; }

  // Each replaces a process that has ended, or ends it first. Waits for the master's port only.
  void StartMaster();
  void StartDaemon(std::size_t seat);
  void StartTrainer(std::size_t seat);
  // Kills it and records the end of its membership, which it cannot do itself.
  void KillTrainer(std::size_t seat);

  bool has_host_faults() const { return options_.host_faults; }
  // The surroundings that the master, and the seat's daemon, see.
  Surroundings& master_surroundings() { return *master_surrounded_; }
  Surroundings& surroundings(std::size_t seat) { return **seats_[seat].surrounded; }
  // Ends all connections between daemons and master.
  void CutMaster() { (void)master_relay_.Cut({}); }
  // The disk that holds the master's journal.
  SmallDisk& disk() { return disk_; }
  // The name server by which half of the daemons find the master, if it resolves anything.
  NameServer& names() { return names_; }
  // A new certificate for the seat's daemon, which it reads at once, in place of the one that it has. REQUIRES: TLS;
  // the daemon is up.
  void Certify(std::size_t seat, std::chrono::seconds lasts);
  bool has_tls() const { return options_.tls; }
  // Floods the daemon's socket, by another user if there may be one.
  void StartFlood(std::size_t seat);
  void EndFlood(std::size_t seat) { seats_[seat].flooder.reset(); }

  // Returns whether the seat's daemon listens.
  bool IsUp(std::size_t seat) const { return seats_[seat].aimed; }
  // Returns whether a fault of this flow is struck at the seat's relay: with TLS at one end alone.
  bool IsStruckAt(std::size_t seat, const e2e::Flow& flow) const {
    const std::uint64_t peer = flow.to != 0 ? flow.to : flow.from;
    return !options_.tls || peer == 0 || peer == seats_[seat].peer;
  }
  // A fault of a flow, at all seats' relays or at the master's.
  struct PathFault {
    enum class Kind { kDelay, kBlackHole, kNoise };
    Kind kind = Kind::kBlackHole;
    e2e::Flow flow;
    bool at_master = false;
    std::chrono::milliseconds delay{};
    std::size_t noise_one_of = 0;  // bytes
  };
  // Replaces the previous faults.
  void SetPaths(const std::vector<PathFault>& faults);

  // Points relays at started daemons, and returns the trainers' new records, each once.
  std::vector<Record> Poll();

  // Returns where the histories of all trainers are (tests/history). EndHistory: nothing follows, and nobody was lost
  // since.
  std::string histories() const { return directory_ / "histories"; }
  void EndHistory() const { history_->Write("over", {}); }

  // Returns the logs of all processes so far that contain this event.
  std::vector<std::string> LogsWith(const std::string& event) const;
  // Returns how many lines of all logs so far contain one of these words.
  std::size_t LinesWith(const std::vector<std::string>& words) const;

  static Holdings HoldingsOf(const e2e::Process& process);
  // Connections that the daemon keeps for later lanes.
  std::size_t KeptBy(std::size_t seat) const { return e2e::KeptAt(Socket(seat)); }
  const std::string& directory() const { return directory_.path().native(); }
  void KeepLogs() { directory_.Keep(); }

 private:
  struct Seat {
    std::unique_ptr<e2e::Relay> relay;
    std::unique_ptr<Surrounded> surrounded;  // the daemon's
    std::unique_ptr<e2e::Process> daemon, trainer, flooder;
    bool aimed = false;
    int daemons = 0, trainers = 0, flooders = 0;
    std::ifstream records;
    std::string partial;  // an incomplete last line
    std::uint64_t peer = 0;
    std::optional<Record> last;
  };

  std::string MasterAddressOf(std::size_t seat) const;
  std::string Socket(std::size_t seat) const { return directory_ / ("d" + std::to_string(seat) + ".sock"); }
  std::string HistoryOf(std::size_t seat) const { return histories() + "/t" + std::to_string(seat) + ".jsonl"; }
  std::string RecordsOf(std::size_t seat) const { return directory_ / ("t" + std::to_string(seat) + ".records"); }
  void ReadRecords(Seat& seat, std::vector<Record>* out);
  std::vector<std::string> TlsOptionsOf(const std::string& name, const std::string& role) const;
  static void Apply(const PathFault& fault, e2e::Relay& relay);

  // The program of this name, `here` or in the directory of the release before.
  std::string ProgramOf(const std::string& here);

  const FleetOptions options_;
  std::mt19937_64 dice_{~options_.seed};
  e2e::TemporaryDirectory directory_;
  SmallDisk disk_{directory_ / "disk", options_.host_faults};
  NameServer names_{directory_, disk_.can_be_filled()};
  Surrounded master_surrounded_{directory_ / "master.surroundings"};
  e2e::Relay master_relay_;
  std::unique_ptr<e2e::Process> master_;
  std::string master_address_ = "127.0.0.1:0";
  int masters_ = 0;
  std::vector<Seat> seats_;
  std::vector<Record> noted_;
  std::optional<history::Writer> history_;  // what the trainers cannot record themselves
};

}  // namespace ringway::chaos
