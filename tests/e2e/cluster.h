// A master and daemons as real processes, and trainers that are sessions of this process.
//
// Threads: one (see processes.h), but Join may be called from any.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ringway/ringway.hpp>
#include <string>
#include <vector>

#include "client/bench/check_values.h"
#include "client/bench/memory.h"
#include "tests/e2e/processes.h"
#include "tests/e2e/release.h"
#include "tests/sanitized.h"

namespace ringway::e2e {

using Sessions = std::vector<std::unique_ptr<Session>>;
using Outcome = Result<OpResult>;

// Returns what the environment says (RINGWAY_TEST_DATA_THREADS), so that whole tests can be run with any; else 0.
int DataThreads();
// Likewise (RINGWAY_TEST_TLS); else false.
bool Tls();

struct ClusterOptions {
  int daemons = 0;
  int heartbeat_ms = 50;
  static constexpr int kShortDetectMs = kSanitized ? 2500 : 500;
  int detect_ms = kSanitized ? 5000 : 2000;  // long enough for a loaded machine
  int grace_ms = 10000;
  std::string host = "127.0.0.1";    // where master and daemons listen
  int data_threads = DataThreads();  // of each daemon; 0: its own choice
  std::vector<std::string> master_options = {};
  std::string store = {};  // etcd://..., of all masters; empty: a file
  int masters = 1;
  bool tls = Tls();  // certificates for all: the master m, daemons by their labels, the operator op
  Release release = {};
};

// The place where a daemon runs. `wrapper` is a command that runs the command after it.
struct Place {
  std::string host;
  std::vector<std::string> wrapper = {};
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  // Ends what still runs with SIGTERM and expects exit code 0 of it.
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  Process& master(std::size_t index = 0) { return *masters_[index]; }
  std::size_t master_count() const { return masters_.size(); }
  // The master that leads, as the masters say; nothing if none does.
  std::optional<std::size_t> Leader() const;
  // What is started from now on is of this release.
  void Use(const Release& release) { options_.release = release; }
  // A new one on the address and journal of the old, which must have ended. Waits until it listens.
  void RestartMaster(std::size_t index = 0);
  Process& daemon(std::size_t index) { return *daemons_[index]; }
  std::size_t daemon_count() const { return daemons_.size(); }
  // All of them, with commas between.
  const std::string& master_address() const { return master_address_; }
  const std::string& master_address(std::size_t index) const { return master_addresses_[index]; }
  std::string socket(std::size_t index) const { return directory_ / ("d" + std::to_string(index) + ".sock"); }
  const TemporaryDirectory& directory() const { return directory_; }

  // Starts one more daemon and waits until it is ready; its index.
  std::size_t AddDaemon(const std::vector<std::string>& more = {}) { return AddDaemonAt({options_.host}, more); }
  std::size_t AddDaemonAt(const Place& place, const std::vector<std::string>& more = {});
  // A new one with the address, socket and name of the old, which must have ended. Waits until it is ready.
  void RestartDaemon(std::size_t index);
  // Options with this daemon's socket; the caller sets the rest.
  JoinOptions At(std::size_t daemon, const std::string& group, std::uint32_t wait_world) const;
  // Joins them all at once and expects success; in the order of `options`.
  Sessions JoinAll(const std::vector<JoinOptions>& options) const;
  // One trainer at each of the first `world` daemons.
  Sessions JoinWorld(std::uint32_t world, const std::string& group = "job") const;

  // Issues one more certificate of the cluster's authority, in certificates().
  void Issue(const std::string& name, const std::string& role) const;
  std::string certificates() const { return directory_ / "tls"; }
  // The options of who has the certificate `name`; none without TLS.
  std::vector<std::string> TlsOptionsOf(const std::string& name) const;

  // Returns what ringwayctl prints; an empty object if it fails.
  nlohmann::json MasterStatus() const { return StatusOfMaster(master_address_); }
  nlohmann::json StatusOfMaster(const std::string& address) const;
  nlohmann::json DaemonStatus(std::size_t index) const;
  bool MasterConnected(std::size_t index) const {
    return DaemonStatus(index).value("/daemon/master_connected"_json_pointer, false);
  }

 private:
  void StartMaster(std::size_t index, const std::string& listen);
  std::unique_ptr<Process> StartDaemon(std::size_t index, const std::string& listen, const Place& place,
                                       const std::vector<std::string>& more) const;
  // The options that addresses beyond this host need; those of who has the certificate `name`.
  std::vector<std::string> Secured(const std::string& name) const;

  TemporaryDirectory directory_;
  ClusterOptions options_;
  std::vector<std::unique_ptr<Process>> masters_;
  int masters_started_ = 0;
  std::vector<std::string> master_addresses_;
  std::string master_address_;
  std::vector<std::unique_ptr<Process>> daemons_;
};

// The kind of memory of an operation's input and output.
enum class Memory { kHeap, kHeapInPlace, kBuffer, kBufferInPlace, kUnaligned, kDevice, kDeviceInPlace };

struct RoundOptions {
  bench::Reduction reduction;
  std::size_t count = 1000;
  std::uint64_t number = 0;  // makes the inputs
  Memory memory = Memory::kBuffer;
  std::uint32_t channel = 0;
  std::optional<Algorithm> algorithm = std::nullopt;
  OpKind collective = OpKind::kAllReduce;
};

// One operation on several sessions: submits it everywhere, waits for all, checks every byte against answers that are
// computed without the code under test.
class Round {
 public:
  // REQUIRES: `ranks` outlive the round.
  Round(std::vector<Session*> ranks, const RoundOptions& options);
  explicit Round(const Sessions& ranks, const RoundOptions& options = {});

  void Submit();
  void SubmitOn(std::size_t index);
  Outcome Wait(std::size_t index, Milliseconds timeout = kForever) { return works_[index].Wait(timeout); }
  Work& work(std::size_t index) { return works_[index]; }
  // Waits for the submitted ones. Expects that all succeed with the same epoch, contributors and (but for parts) bytes,
  // none wrong, and inputs as they were. Returns the first rank's.
  OpResult Check();
  // Waits for the submitted ones; expects that all fail with this code. Returns the first text.
  std::string CheckFailure(Code code);

 private:
  struct Place {
    std::vector<std::byte> heap_in, heap_out;
    Buffer buffer_in, buffer_out;
    std::optional<bench::Memory> device_in, device_out;
    std::byte* input = nullptr;
    std::byte* output = nullptr;
    // The host writes and reads them here.
    std::byte* host_input = nullptr;
    std::byte* host_output = nullptr;
  };

  std::size_t bytes() const { return options_.count * SizeOf(options_.reduction.dtype); }
  std::size_t output_count() const {
    return options_.count * (options_.collective == OpKind::kAllGather ? ranks_.size() : 1);
  }
  std::size_t output_bytes() const { return output_count() * SizeOf(options_.reduction.dtype); }
  std::vector<std::byte> InputOf(const Session& session) const;
  Place MakePlace(Session& session) const;
  Place MakeHeapPlace(bool in_place) const;
  Place MakeDevicePlace(Session& session, bool in_place) const;
  void CheckRank(std::size_t index, const OpResult& result);

  std::vector<Session*> ranks_;
  RoundOptions options_;
  std::vector<Place> places_;
  std::vector<Work> works_;
};

// Runs rounds on all sessions until the condition holds for the last result; expects that it does within the patience.
OpResult RoundsUntil(const Sessions& ranks, const std::function<bool(const OpResult&)>& condition);

// UpdateView on all sessions at once; expects that all succeed alike. The first one's result.
OpResult UpdateAll(const Sessions& ranks);

}  // namespace ringway::e2e
