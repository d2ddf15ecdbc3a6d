// The master without I/O: daemons, their peers and the groups they form. Events and the time go in, messages come out.
//
// A connection is whatever number the server gives it. A daemon is known by the random instance number of its process
// and keeps its peers over a reconnect. Every id in a message is checked: a daemon speaks only for its own peers; what
// it says about others' is ignored and counted.
//
// Not on the path of a healthy operation: groups only change here.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "master/group.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway {

struct CoordinatorOptions {
  std::uint32_t term = 1;  // epochs are ordered by it first; without a journal every master has the same
  std::uint32_t heartbeat_ms = 500;
  std::uint32_t detect_ms = 3000;
  std::uint64_t segment_bytes_max = 256 * 1024;
  std::uint64_t small_bytes_max = 64 * 1024;
  std::uint64_t eager_bytes_max = 4 << 20;
};

class Coordinator final : public GroupHost {
 public:
  using Connection = std::uint64_t;
  struct Action {
    Connection connection = 0;
    std::optional<control::FromMaster> message;
    bool close = false;  // after the message
  };
  struct Daemon {
    std::uint64_t instance = 0;
    std::string name, site, address;
    std::optional<Connection> connection;
    TimePoint heard{};
    TimePoint gone_since{};
    std::set<PeerId> peers;
  };

  explicit Coordinator(const CoordinatorOptions& options) : options_(options) {}

  void OnMessage(Connection connection, const control::ToMaster& message, TimePoint now);
  void OnDisconnect(Connection connection, TimePoint now);
  // Silence and deadlines. Call at least every 20 ms.
  void Tick(TimePoint now);

  std::vector<Action> TakeActions() { return std::exchange(actions_, {}); }

  // For status.
  const CoordinatorOptions& options() const { return options_; }
  const std::map<DaemonId, Daemon>& daemons() const { return daemons_; }
  const std::map<std::string, std::unique_ptr<Group>>& groups() const { return groups_; }
  std::uint64_t ignored_messages() const { return ignored_; }
  std::uint64_t contradictions() const { return contradictions_; }

 private:
  Epoch NextEpoch() override { return Epoch::Of(options_.term, ++counter_); }
  void Send(PeerId peer, control::FromMaster message) override;
  void Retire(PeerId peer) override;
  void CountContradiction() override { ++contradictions_; }

  void OnHello(Connection connection, const control::DaemonHello& hello, TimePoint now);
  void OnJoin(DaemonId id, const control::JoinRequest& request, TimePoint now);
  void OnPeerWord(DaemonId id, const control::ToMaster& message, TimePoint now);
  void Refuse(Connection connection, Code code, std::string text);
  void TellEvicted(Connection connection, PeerId peer);
  void SetOnline(const Daemon& daemon, bool online, TimePoint now);
  void SendTo(Connection connection, control::FromMaster message) {
    actions_.push_back({connection, std::move(message), false});
  }
  // The group of a peer that belongs to this daemon, or nothing.
  Group* GroupOf(DaemonId id, PeerId peer);
  void DropEmptyGroups();

  const CoordinatorOptions options_;
  std::uint32_t counter_ = 0;  // of epochs
  std::uint64_t next_daemon_ = 1;
  std::uint64_t next_peer_ = 1;
  std::uint64_t ignored_ = 0;
  std::uint64_t contradictions_ = 0;
  std::map<DaemonId, Daemon> daemons_;
  std::map<Connection, DaemonId> connections_;
  std::map<std::string, std::unique_ptr<Group>> groups_;
  struct PeerHome {
    DaemonId daemon;
    std::string group;
  };
  std::map<PeerId, PeerHome> homes_;
  std::vector<Action> actions_;
};

}  // namespace ringway
