// The inside of Cluster, shared by its source files:
//
//   cluster.cc          processes, the actions of peers
//   cluster_trainers.cc submissions, the copying of inputs
//   cluster_messages.cc sends and recvs
//   cluster_history.cc  what becomes of all that, for another checker
//   cluster_master.cc   the master, and each daemon's connection to it
//   cluster_links.cc    connections between peers: dials, control messages, frames
#pragma once

#include "tests/sim/cluster.h"
#include "tests/sim/oracle.h"

namespace ringway::sim {

inline std::string AddressOf(Host host) { return "127.0.0.1:" + std::to_string(1000 + host); }
inline Host HostAt(const std::string& address) {
  return static_cast<Host>(std::stoul(address.substr(address.find(':') + 1)) - 1000);
}

struct Cluster::Operation {
  OpName name;
  Descriptor descriptor;
  Laid laid;
  std::shared_ptr<std::vector<std::byte>> input;
  std::shared_ptr<std::vector<std::byte>> result;
  std::size_t staged = 0;  // bytes of the input
  bool scribbled = false;  // the trainer has written to its output
};

struct Cluster::OpenMessage {
  MessageKey key;
  bool sends = false;
  std::shared_ptr<std::vector<std::byte>> memory;
};

struct Cluster::Node {
  Host host = 0;
  JoinOrder order;
  std::string name;
  PeerId id;                              // 0: not accepted yet
  bool works = false;                     // an event for the next slice is queued
  std::unique_ptr<agreement::Peer> peer;  // once accepted; stays when ended, for its status
  bool joined = false;
  bool ended = false;
  bool takes_state = false;  // it is held, and its trainer has not said that it has the state
  std::set<PeerId> askers;   // newcomers that take this one's state
  bool unreachable = false;
  bool refused = false;
  bool stages = true;      // its trainer copies inputs in
  bool corrupted = false;  // a payload failed its checksum
  bool scribbles = false;  // its trainer writes to its output once, as soon as that is detectable
  bool scribbled = false;  // and has done so
  Code ended_code = Code::kOk;
  std::string pending;
  std::uint32_t world = 0;
  std::vector<PeerId> known;  // whom its trainer takes for the members, since:
  Epoch known_epoch;
  std::map<LinkId, Link> links;
  std::map<std::uint64_t, links::Dial> dialled;  // open, by serial
  links::DialTracker dials;
  std::map<std::uint64_t, Operation> operations;  // by token, until reported
  std::vector<Descriptor> OpenDescriptors() const {
    std::vector<Descriptor> out;
    for (const auto& [token, op] : operations) out.push_back(op.descriptor);
    return out;
  }
  std::uint32_t submitted = 0;
  std::map<std::uint64_t, OpenMessage> messages;     // by token, until reported
  std::map<MessageKey, std::uint64_t> message_seqs;  // the last of each stream, by its message 0
  std::uint64_t messages_submitted = 0;
};

struct Cluster::Daemon {
  std::string name;
  std::string site;
  std::uint64_t instance = 0;
  Inbound inbound = Inbound::kOpen;
  bool alive = true;
  bool powered = true;  // false: its address does not answer
  bool stopped = false;
  std::vector<EventQueue::Run> deferred;  // events of a stopped process
  std::vector<std::uint32_t> nodes;
  Connection* master = nullptr;  // this end is 0
  bool up = false;               // the master has answered the hello
  TimePoint heard{};
  TimePoint next_heartbeat{};
  std::shared_ptr<flow::ProbeBook> probes = std::make_shared<flow::ProbeBook>();
  std::shared_ptr<collective::HostBoard> board = std::make_shared<collective::HostBoard>();
};

}  // namespace ringway::sim
