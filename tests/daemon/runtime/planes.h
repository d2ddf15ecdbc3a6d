// Two daemons in one process, on one event loop: their data planes with real dialers, listeners and lanes over streams
// in memory, the master's coordinator called directly, and trainers on socket pairs. No network.
//
// What is wrong is returned as a text; "" if nothing is. One thread.
#pragma once

#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/net/dialer.h"
#include "daemon/net/listener.h"
#include "daemon/runtime/data_plane.h"
#include "master/coordination/coordinator.h"
#include "proto/check.h"
#include "proto/frame_codec.h"
#include "tests/daemon/local/client_packets.h"
#include "tests/daemon/local/memfd.h"
#include "tests/proto/stream/memory_stream.h"

namespace ringway::daemon {

inline constexpr std::chrono::seconds kPatience(10);  // far beyond what anything here takes
inline constexpr std::size_t kDaemons = 2;
inline constexpr std::size_t kSummed = 1 << 20;
inline constexpr std::size_t kSummedBytes = kSummed * sizeof(float);

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
class Node final : public ControlPort {
 public:
  Node(World& world, std::uint64_t id);
  ~Node() override;

  void Join();
  // Hears its daemon. Returns whether it has been told that it is a member.
  bool HasJoined();
  void Submit();
  bool is_done() const { return page_.as<abi::SessionPage>()->slots[0].state.load() == abi::SlotState::kDone; }
  const abi::Slot& slot() const { return page_.as<abi::SessionPage>()->slots[0]; }
  float* input() const { return input_.as<float>(); }
  const float* result() const { return result_.as<float>(); }
  void OnMaster(const control::FromMaster& message);
  net::Listener& listener() { return listener_; }

  // ---- ControlPort
  void ToMaster(control::ToMaster message) override;
  bool Dial(PeerId self, std::uint64_t serial, net::DialRequest request) override;
  void SetCounters(control::DaemonHeartbeat counters) override;
  void Log(LogLine) override {}
  void OnDrained() override {}

 private:
  template <typename T>
  void Send(const T& packet, const std::vector<int>& fds = {}) {
    RINGWAY_CHECK(local::SendRaw(trainer_.get(), local::BytesOf(packet), fds) > 0);
  }

  World& world_;
  const std::uint64_t id_;
  DataPlane data_;
  net::Listener listener_;
  net::UniqueFd trainer_;
  std::shared_ptr<local::TrainerSession> session_;
  bool joined_ = false;
  SharedFile page_{sizeof(abi::SessionPage)};
  SharedFile input_{kSummedBytes};
  SharedFile result_{kSummedBytes};
};

// The event loop, the master and what connects them.
class World {
 public:
  World() : tick_(context_) {
    for (std::uint64_t id = 0; id < kDaemons; ++id) nodes_.push_back(std::make_unique<Node>(*this, id));
    Tick();
  }

  // Returns false if it does not come to that.
  bool RunUntil(const std::function<bool()>& done) {
    const TimePoint limit = MonotonicNow() + kPatience;
    while (!done()) {
      if (MonotonicNow() > limit) return false;
      context_.run_one_for(std::chrono::milliseconds(10));
    }
    return true;
  }
  void ToMaster(std::uint64_t from, const control::ToMaster& message) {
    asio::post(context_, [this, from, message] {
      master_.OnMessage(from, message, MonotonicNow());
      Drain();
    });
  }
  // A connection to the node that listens at `address`.
  std::unique_ptr<net::Stream> Connect(const std::string& address, bool lane) {
    const net::MemoryFaults faults{.seed = ++connections_, .piece_max = 64 * 1024, .stall_percent = 5};
    net::MemoryPair pair({.a_to_b = faults, .b_to_a = faults});
    if (lane) lanes_.push_back(pair.a->SharePath());
    nodes_.at(std::stoul(address))->listener().Take(std::move(pair.b));
    return std::move(pair.a);
  }

  asio::io_context& context() { return context_; }
  Node& node(std::size_t i) { return *nodes_[i]; }
  // Every lane that was ever opened.
  std::vector<std::unique_ptr<net::StreamPath>>& lanes() { return lanes_; }

 private:
  void Tick() {
    tick_.expires_after(std::chrono::milliseconds(20));
    tick_.async_wait([this](asio::error_code error) {
      if (error) return;
      master_.Tick(MonotonicNow());
      Drain();
      Tick();
    });
  }
  void Drain() {
    for (Coordinator::Action& action : master_.TakeActions()) {
      if (!action.message) continue;
      asio::post(context_, [this, to = action.connection, message = std::move(*action.message)] {
        nodes_.at(to)->OnMaster(message);
      });
    }
  }

  asio::io_context context_{1};
  Coordinator master_{CoordinatorOptions{}};
  asio::steady_timer tick_;
  std::uint64_t connections_ = 0;
  std::vector<std::unique_ptr<net::StreamPath>> lanes_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

inline DataPlaneOptions OptionsOf(std::uint64_t id) {
  DataPlaneOptions options;
  options.identity.name = "d" + std::to_string(id);
  options.instance = id + 1;
  return options;
}

inline Node::Node(World& world, std::uint64_t id)
    : world_(world),
      id_(id),
      data_(world.context(), OptionsOf(id), this),
      listener_(world.context(), {}, [this](net::LinkOffer offer) { data_.OnOffer(std::move(offer)); }) {
  data_.SetAddress(std::to_string(id));
  control::ToMaster message;
  message.mutable_hello()->set_version_min(kProtocolVersionMin);
  message.mutable_hello()->set_version_max(kProtocolVersionMax);
  message.mutable_hello()->set_name("d" + std::to_string(id));
  message.mutable_hello()->set_address(std::to_string(id));
  message.mutable_hello()->set_instance(id + 1);
  ToMaster(std::move(message));
  data_.Start();
}

inline Node::~Node() { data_.Stop(); }

inline void Node::Join() {
  std::array<int, 2> fds{};
  RINGWAY_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) == 0);
  trainer_.Reset(fds[1]);
  session_ = std::make_shared<local::TrainerSession>(world_.context(), &data_, local::SessionLimits{});
  RINGWAY_CHECK(session_->Start(net::UniqueFd(fds[0])).ok());
  Send(local::HelloPacket(), {page_.fd()});
  abi::Join join = local::JoinPacket("job");
  join.wait_world = join.min_world = kDaemons;
  Send(join);
}

inline bool Node::HasJoined() {
  std::array<std::byte, abi::kPacketBytesMax> packet;
  while (::recv(trainer_.get(), packet.data(), packet.size(), MSG_DONTWAIT) > 0) {
    abi::PacketHeader header;
    std::memcpy(&header, packet.data(), sizeof header);
    joined_ = joined_ || header.type == abi::PacketType::kJoinReply;
  }
  return joined_;
}

inline void Node::Submit() {
  if (slot().state.load() == abi::SlotState::kFree) {
    Send(local::RegisterPacket(0, kSummedBytes), {input_.fd()});
    Send(local::RegisterPacket(1, kSummedBytes), {result_.fd()});
  }
  auto submit = local::SubmitPacket(0);
  submit.count = submit.result_count = kSummed;
  page_.as<abi::SessionPage>()->slots[0].state.store(abi::SlotState::kSubmitted);
  Send(submit);
}

inline void Node::OnMaster(const control::FromMaster& message) {
  if (message.has_hello_reply()) return data_.OnMasterUp(message.hello_reply());
  if (!message.has_heartbeat()) data_.OnMasterMessage(message);
}

inline void Node::ToMaster(control::ToMaster message) { world_.ToMaster(id_, message); }

inline bool Node::Dial(PeerId self, std::uint64_t serial, net::DialRequest request) {
  const bool lane = !request.control;
  net::Dialer dialer(
      world_.context(), {},
      [this, lane](asio::io_context& context, const net::ConnectOptions& options, const net::Connector::Done& done) {
        asio::post(context, [this, lane, address = options.address, done] {
          done(net::Connection{.stream = world_.Connect(address, lane), .loopback = true});
        });
      });
  dialer.Dial(std::move(request), [this, self, serial](Result<net::DialedLinks> outcome) {
    data_.OnDialed(self, serial, std::move(outcome));
  });
  return true;
}

inline void Node::SetCounters(control::DaemonHeartbeat counters) {
  control::ToMaster message;
  *message.mutable_heartbeat() = std::move(counters);
  ToMaster(std::move(message));
}

// The two, once their trainers are in one group.
class Planes {
 public:
  std::string Join() {
    for (std::size_t i = 0; i < kDaemons; ++i) world_.node(i).Join();
    const bool joined = world_.RunUntil([&] { return world_.node(0).HasJoined() && world_.node(1).HasJoined(); });
    return joined ? "" : "the trainers do not get into their group";
  }

  // Sums numbers that are another for each `round`; `meanwhile` is called between any two events.
  std::string AllReduce(
      float round, const std::function<void()>& meanwhile = [] {}) {
    for (std::size_t i = 0; i < kDaemons; ++i) {
      Node& node = world_.node(i);
      for (std::size_t k = 0; k < kSummed; ++k) node.input()[k] = round + static_cast<float>(i * (k % 1000));
      node.Submit();
    }
    const bool done = world_.RunUntil([&] {
      meanwhile();
      return world_.node(0).is_done() && world_.node(1).is_done();
    });
    if (!done) return "an all-reduce does not end";
    for (std::size_t i = 0; i < kDaemons; ++i) {
      if (std::string why = WhyWrong(world_.node(i), round); !why.empty()) return why;
    }
    return "";
  }

  // The first lane that has carried an eighth of it breaks.
  std::string AllReduceOverABreakingLane(float round) {
    const std::size_t opened = world_.lanes().size();
    std::vector<std::uint64_t> before;
    for (const auto& lane : world_.lanes()) before.push_back(lane->Traffic().delivered_bytes);
    bool broken = false;
    std::string why = AllReduce(round, [&] {
      for (std::size_t i = 0; i < opened && !broken; ++i) {
        if (world_.lanes()[i]->Traffic().delivered_bytes < before[i] + kSummedBytes / 8) continue;
        world_.lanes()[i]->Shutdown();
        broken = true;
      }
    });
    if (!why.empty()) return why;
    if (!broken) return "no lane was there to break";
    return world_.RunUntil([&] { return world_.lanes().size() > opened; }) ? "" : "a broken lane is not opened again";
  }

 private:
  static std::string WhyWrong(const Node& node, float round) {
    if (node.slot().code != Code::kOk) return node.slot().text;
    if (node.slot().world_size != kDaemons) return "a sum of another world";
    for (std::size_t k = 0; k < kSummed; ++k) {
      if (node.result()[k] != 2 * round + static_cast<float>(k % 1000)) return "element " + std::to_string(k);
    }
    return "";
  }

  World world_;
};

}  // namespace ringway::daemon
