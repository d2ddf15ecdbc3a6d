// A few daemons in one process, on one event loop and on simulated time: their data planes with real dialers, listeners
// and lanes over streams in memory, the master's coordinator called directly, and trainers on socket pairs. No network.
//
// All that is random comes from the seed: when links and messages arrive, in which pieces, and what stalls. So a world
// runs the same way each time.
//
// Calls return what is wrong as a text; "" if nothing is. One thread.
#pragma once

#include <sys/mman.h>

#include <asio/io_context.hpp>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "daemon/net/dialer.h"
#include "daemon/net/listener.h"
#include "daemon/runtime/data_plane.h"
#include "master/coordination/coordinator.h"
#include "proto/check.h"
#include "tests/daemon/local/client_packets.h"
#include "tests/daemon/local/memfd.h"
#include "tests/proto/stream/memory_stream.h"
#include "tests/proto/stream/simulated_clock.h"

namespace ringway::daemon {

inline constexpr Duration kPatience = std::chrono::minutes(1);  // simulated; far beyond what anything here takes
inline constexpr std::size_t kSummed = 1 << 20;
inline constexpr std::size_t kSummedBytes = kSummed * sizeof(float);

struct WorldOptions {
  std::size_t daemons = 2;
  std::uint64_t seed = 1;
  bool far = false;  // 20 to 40 ms round trip, and narrow; else they are taken for one host's
};

// A memory file that both sides map.
class SharedFile {
 public:
  explicit SharedFile(std::size_t bytes)
      : fd_(local::MakeMemfd(bytes)),
        bytes_(bytes),
        memory_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0)) {}
  ~SharedFile() { ::munmap(memory_, bytes_); }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  int fd() const { return fd_.get(); }
  void Clear() const { std::memset(memory_, 0, bytes_); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  net::UniqueFd fd_;
  std::size_t bytes_;
  void* memory_;
};

class World;

// A daemon without its threads and sockets, and its one trainer.
class Node final : public DataPlaneSink {
 public:
  Node(World& world, std::size_t id);
  ~Node() override;

  // Says hello to the master.
  void Greet();
  void OnMasterDown() { data_.OnMasterDown(); }
  void Join(std::uint32_t world);
  // Reads the daemon's packets. Returns whether one of them said that it is a member.
  bool HasJoined();
  // Its trainer's process ends.
  void LoseTrainer();
  void Submit();
  bool is_done() const { return slot().state.load() == abi::SlotState::kDone; }
  const abi::Slot& slot() const { return page_.as<abi::SessionPage>()->slots[0]; }
  float* input() const { return input_.as<float>(); }
  const float* result() const { return result_.as<float>(); }
  void OnMaster(const control::FromMaster& message);
  net::Listener& listener() { return listener_; }

  // ---- DataPlaneSink
  void ToMaster(control::ToMaster message) override;
  bool Dial(PeerId self, std::uint64_t serial, net::DialRequest request) override;
  void Keep(net::KeptConnection kept) override { listener_.Keep(std::move(kept)); }
  std::size_t kept() const override { return listener_.kept(); }
  void SetCounters(control::DaemonHeartbeat counters) override;
  void Log(LogLine) override {}
  void WriteDump(FlightDump) override {}
  void OnDrained() override {}

 private:
  template <typename T>
  void Send(const T& packet, const std::vector<int>& fds = {}) {
    RINGWAY_CHECK(local::SendRaw(trainer_.get(), local::BytesOf(packet), fds) > 0);
  }

  World& world_;
  const std::size_t id_;
  std::uint32_t detect_ms_ = 0;
  DataPlane data_;
  net::Listener listener_;
  net::UniqueFd trainer_;
  std::shared_ptr<local::TrainerSession> session_;
  bool joined_ = false;
  SharedFile page_{sizeof(abi::SessionPage)};  // of a trainer, as the next two
  SharedFile input_{kSummedBytes};
  SharedFile result_{kSummedBytes};
};

// A connection that was made, open or not.
struct MadeLink {
  std::size_t from = 0, to = 0;  // nodes
  bool lane = false;
  std::shared_ptr<net::memory::Pipe> out, back;
  std::unique_ptr<net::StreamPath> path;  // of the dialling end

  std::uint64_t bytes() const { return out->read_bytes() + back->read_bytes(); }
  void Break() const { path->Shutdown(); }
  void Silence() const {
    out->Silence();
    back->Silence();
  }
};

// The event loop, the master and what connects them.
class World {
 public:
  explicit World(const WorldOptions& options);
  ~World();

  // Returns false if it does not come to that. `done` is asked between any two events.
  bool RunUntil(const std::function<bool()>& done, Duration patience = kPatience);
  void RunFor(Duration time);
  TimePoint now() const { return clock_.Now(); }
  // Number of events that the loop has run since the beginning.
  std::uint64_t events() const { return events_; }

  // ---- for nodes
  void ToMaster(std::size_t from, const control::ToMaster& message);
  // Over a connection of its own, the newest of the node's.
  void GreetMaster(std::size_t from, const control::ToMaster& hello);
  // Opens a connection to the node that listens at the address; answers later.
  void Connect(std::size_t from, bool lane, const net::ConnectOptions& options, const net::Connector::Done& done);

  // ---- faults
  // Drops everything to and from the node; no connection reports an error.
  void Isolate(std::size_t node);
  bool is_isolated(std::size_t node) const { return isolated_.contains(node); }
  // Every daemon loses its connection to the master; what is under way is lost.
  void LoseMaster();
  void FindMaster();
  // Ends the next `dials` connections before anything has come.
  void FailDials(std::size_t dials) { dials_to_fail_ = dials; }

  asio::io_context& context() { return context_; }
  Node& node(std::size_t i) const { return *nodes_[i]; }
  std::size_t size() const { return nodes_.size(); }
  // All that were ever made.
  const std::vector<MadeLink>& links() const { return links_; }
  // Returns the bytes that all lanes have carried.
  std::uint64_t lane_bytes() const;
  // Returns how many connections were made for lanes.
  std::size_t lanes_made() const;

 private:
  void Tick();
  void Drain();
  Duration RandomDelay();
  template <typename Then>
  void After(Duration delay, Then then);
  // Returns whether what is under way between the node and the master still arrives.
  bool Arrives(std::size_t node, Coordinator::Connection connection) const;

  asio::io_context context_{1};
  net::SimulatedClock& clock_ = net::SimulatedClock::Make(context_);
  const WorldOptions options_;
  std::mt19937_64 random_;
  std::uint64_t events_ = 0;
  Coordinator master_{CoordinatorOptions{}};
  bool master_is_lost_ = false;
  std::vector<Coordinator::Connection> masters_;  // by node: its connection, which is its number modulo theirs
  std::vector<Duration> master_delays_;           // by node
  net::Timer tick_{context_};
  std::vector<MadeLink> links_;
  std::set<std::size_t> isolated_;
  std::size_t dials_to_fail_ = 0;
  std::vector<std::unique_ptr<Node>> nodes_;
};

// The daemons once their trainers are in one group, and what they do there.
class Planes {
 public:
  explicit Planes(const WorldOptions& options = {}) : world_(options) {}

  World& world() { return world_; }
  // May be called again where it takes longer.
  std::string Join(Duration patience = kPatience);
  // The trainers end.
  void LoseTrainers();
  // Sums numbers that are another for each `round`, over all that are not isolated at the end; `meanwhile` is called
  // between any two events.
  std::string AllReduce(
      float round, const std::function<void()>& meanwhile = [] {}, Duration patience = kPatience);
  // The first link that has carried `bytes` of it, a lane or not, has `fault`; it is replaced.
  std::string AllReduceOverABadLink(float round, bool lane, std::uint64_t bytes, void (MadeLink::*fault)() const);
  // Returns the epoch of the view in which the last all-reduce was done.
  std::uint64_t epoch() { return world_.node(0).slot().outcome.epoch; }

 private:
  // Whose operations count.
  std::vector<std::size_t> Present() const;
  std::string WhyWrong(std::size_t i, float round) const;

  World world_;
};

}  // namespace ringway::daemon
