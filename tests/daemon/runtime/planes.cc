#include "tests/daemon/runtime/planes.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "proto/check.h"
#include "proto/frame_codec.h"

namespace ringway::daemon {
namespace {

constexpr Duration kMasterDelayMax = std::chrono::milliseconds(10);
constexpr Duration kMasterTick = std::chrono::milliseconds(20);

DataPlaneOptions OptionsOf(std::size_t id) {
  DataPlaneOptions options;
  options.identity.name = "d" + std::to_string(id);
  options.instance = id + 1;
  return options;
}

}  // namespace

// ---- a node

Node::Node(World& world, std::size_t id)
    : world_(world),
      id_(id),
      data_(world.context(), OptionsOf(id), this),
      listener_(world.context(), {}, [this](net::LinkOffer offer) { data_.OnOffer(std::move(offer)); }) {
  data_.SetAddress(std::to_string(id), std::to_string(id));
  data_.Start();
}

Node::~Node() { data_.Stop(); }

void Node::Greet() {
  control::ToMaster message;
  message.mutable_hello()->set_version_min(kProtocolVersionMin);
  message.mutable_hello()->set_version_max(kProtocolVersionMax);
  message.mutable_hello()->set_name("d" + std::to_string(id_));
  message.mutable_hello()->set_address(std::to_string(id_));
  message.mutable_hello()->set_instance(id_ + 1);
  world_.GreetMaster(id_, message);
}

void Node::Join(std::uint32_t world) {
  if (session_ != nullptr) return;
  std::array<int, 2> fds{};
  RINGWAY_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) == 0);
  trainer_.Reset(fds[1]);
  session_ = std::make_shared<local::TrainerSession>(world_.context(), &data_, local::SessionLimits{});
  RINGWAY_CHECK(session_->Start(net::UniqueFd(fds[0])).ok());
  Send(local::HelloPacket(), {page_.fd()});
  abi::Join join = local::JoinPacket("job");
  join.wait_world = world;
  Send(join);
}

bool Node::HasJoined() {
  std::array<std::byte, abi::kPacketBytesMax> packet;
  while (::recv(trainer_.get(), packet.data(), packet.size(), MSG_DONTWAIT) > 0) {
    abi::PacketHeader header;
    std::memcpy(&header, packet.data(), sizeof header);
    joined_ = joined_ || header.type == abi::PacketType::kJoinReply;
  }
  return joined_;
}

void Node::LoseTrainer() {
  trainer_.Reset();
  session_ = nullptr;
  joined_ = false;
  page_.Clear();
}

void Node::Submit() {
  if (slot().state.load() == abi::SlotState::kFree) {
    Send(local::RegisterPacket(0, kSummedBytes), {input_.fd()});
    Send(local::RegisterPacket(1, kSummedBytes), {result_.fd()});
  }
  auto submit = local::SubmitPacket(0);
  submit.spec.count = submit.input_count = submit.result_count = kSummed;
  page_.as<abi::SessionPage>()->slots[0].state.store(abi::SlotState::kSubmitted);
  Send(submit);
}

void Node::OnMaster(const control::FromMaster& message) {
  if (message.has_hello_reply()) {
    detect_ms_ = message.hello_reply().detect_ms();
    return data_.OnMasterUp(message.hello_reply());
  }
  if (!message.has_heartbeat()) data_.OnMasterMessage(message);
}

void Node::ToMaster(control::ToMaster message) { world_.ToMaster(id_, message); }

bool Node::Dial(PeerId self, std::uint64_t serial, net::DialRequest request) {
  const bool lane = !request.control;
  net::DialOptions keeping;
  keeping.kept = &listener_;
  net::Dialer dialer(world_.context(), std::move(keeping),
                     [this, lane](asio::io_context&, const net::ConnectOptions& options,
                                  const net::Connector::Done& done) { world_.Connect(id_, lane, options, done); });
  dialer.SetDetectMs(detect_ms_);
  dialer.Dial(std::move(request), [this, self, serial](Result<net::DialedLinks> outcome) {
    data_.OnDialed(self, serial, std::move(outcome));
  });
  return true;
}

void Node::SetCounters(control::DaemonHeartbeat counters) {
  control::ToMaster message;
  *message.mutable_heartbeat() = std::move(counters);
  ToMaster(std::move(message));
}

// ---- the world

World::World(const WorldOptions& options) : options_(options), random_(options.seed) {
  for (std::size_t id = 0; id < options.daemons; ++id) {
    masters_.push_back(id);
    master_delays_.emplace_back(random_() % kMasterDelayMax.count());
    nodes_.push_back(std::make_unique<Node>(*this, id));
    nodes_.back()->Greet();
  }
  Tick();
}

World::~World() {
  nodes_.clear();
  for (const MadeLink& link : links_) {  // lanes that retire hold themselves
    link.out->StopWaiting();
    link.back->StopWaiting();
  }
}

bool World::RunUntil(const std::function<bool()>& done, Duration patience) {
  const TimePoint limit = now() + patience;
  while (!done()) {
    context_.restart();
    if (context_.poll_one() > 0) {
      ++events_;
    } else if (!clock_.Step(limit)) {
      return false;
    }
  }
  return true;
}

void World::RunFor(Duration time) {
  (void)RunUntil([] { return false; }, time);
}

Duration World::RandomDelay() {
  const std::int64_t most = options_.far ? 20'000 : 1000;
  return Duration(std::uniform_int_distribution<std::int64_t>(most / 2, most)(random_));
}

// Calls with the same delay keep their order.
template <typename Then>
void World::After(Duration delay, Then then) {
  const auto timer = std::make_shared<net::Timer>(context_);
  timer->After(delay, [timer, then = std::move(then)]() mutable { then(); });
}

bool World::Arrives(std::size_t node, Coordinator::Connection connection) const {
  return !master_is_lost_ && !is_isolated(node) && masters_[node] == connection;
}

void World::GreetMaster(std::size_t from, const control::ToMaster& hello) {
  masters_[from] += options_.daemons;
  ToMaster(from, hello);
}

void World::ToMaster(std::size_t from, const control::ToMaster& message) {
  After(master_delays_[from], [this, from, message, connection = masters_[from]] {
    if (!Arrives(from, connection)) return;
    master_.OnMessage(connection, message, now());
    Drain();
  });
}

void World::Drain() {
  for (Coordinator::Action& action : master_.TakeActions()) {
    if (!action.message) continue;
    const std::size_t to = action.connection % options_.daemons;
    After(master_delays_[to], [this, to, connection = action.connection, message = std::move(*action.message)] {
      if (Arrives(to, connection)) nodes_[to]->OnMaster(message);
    });
  }
}

void World::Tick() {
  tick_.After(kMasterTick, [this] {
    master_.Tick(now());
    Drain();
    Tick();
  });
}

void World::Connect(std::size_t from, bool lane, const net::ConnectOptions& options, const net::Connector::Done& done) {
  const std::size_t to = std::stoul(options.address);
  if (is_isolated(from) || is_isolated(to)) {
    return After(options.timeout, [done] { done(Status(Code::kTimeout, "nothing comes back")); });
  }
  const net::MemoryFaults faults{.seed = random_(),
                                 .capacity = options_.far ? 16 * 1024UL : 64 * 1024UL,
                                 .piece_max = 64 * 1024,
                                 .stall_percent = 5,
                                 .delay = RandomDelay()};
  After(2 * faults.delay, [this, from, to, lane, done, faults] {
    if (dials_to_fail_ > 0) return --dials_to_fail_, done(Status(Code::kIo, "the test ends it"));
    net::MemoryPair pair({.a_to_b = faults,
                          .b_to_a = faults,
                          .peer = {.source = "memory", .loopback = !options_.far, .within_host = !options_.far}});
    links_.push_back({from, to, lane, pair.a_to_b, pair.b_to_a, pair.a->SharePath()});
    if (is_isolated(from) || is_isolated(to)) links_.back().Silence();
    nodes_[to]->listener().Take(std::move(pair.b));
    done(net::Connection{.stream = std::move(pair.a), .loopback = !options_.far});
  });
}

std::uint64_t World::lane_bytes() const {
  std::uint64_t bytes = 0;
  for (const MadeLink& link : links_) bytes += link.lane ? link.bytes() : 0;
  return bytes;
}

std::size_t World::lanes_made() const {
  return static_cast<std::size_t>(
      std::count_if(links_.begin(), links_.end(), [](const MadeLink& link) { return link.lane; }));
}

void World::Isolate(std::size_t node) {
  isolated_.insert(node);
  for (const MadeLink& link : links_) {
    if (link.from == node || link.to == node) link.Silence();
  }
}

void World::LoseMaster() {
  master_is_lost_ = true;
  for (const auto& node : nodes_) node->OnMasterDown();
}

void World::FindMaster() {
  master_is_lost_ = false;
  for (const auto& node : nodes_) node->Greet();
}

// ---- what they do

std::string Planes::Join(Duration patience) {
  for (std::size_t i = 0; i < world_.size(); ++i) world_.node(i).Join(static_cast<std::uint32_t>(world_.size()));
  const bool joined = world_.RunUntil(
      [&] {
        bool all = true;
        for (std::size_t i = 0; i < world_.size(); ++i) all = world_.node(i).HasJoined() && all;
        return all;
      },
      patience);
  return joined ? "" : "the trainers do not get into their group";
}

void Planes::LoseTrainers() {
  for (std::size_t i = 0; i < world_.size(); ++i) world_.node(i).LoseTrainer();
}

std::vector<std::size_t> Planes::Present() const {
  std::vector<std::size_t> out(world_.size());
  std::iota(out.begin(), out.end(), 0);
  std::erase_if(out, [this](std::size_t i) { return world_.is_isolated(i); });
  return out;
}

std::string Planes::AllReduce(float round, const std::function<void()>& meanwhile, Duration patience) {
  for (const std::size_t i : Present()) {
    Node& node = world_.node(i);
    for (std::size_t k = 0; k < kSummed; ++k) node.input()[k] = round + static_cast<float>(i * (k % 1000));
    node.Submit();
  }
  const bool done = world_.RunUntil(
      [&] {
        meanwhile();
        const auto present = Present();
        return std::all_of(present.begin(), present.end(), [this](std::size_t i) { return world_.node(i).is_done(); });
      },
      patience);
  if (!done) return "an all-reduce does not end";
  for (const std::size_t i : Present()) {
    if (std::string why = WhyWrong(i, round); !why.empty()) return why;
  }
  return "";
}

std::string Planes::WhyWrong(std::size_t i, float round) const {
  const abi::Slot& slot = world_.node(i).slot();
  if (slot.outcome.code != Code::kOk) return slot.text;
  const std::vector<std::size_t> present = Present();
  if (slot.outcome.world_size != present.size()) return "a sum of " + std::to_string(slot.outcome.world_size);
  const auto numbers = static_cast<float>(std::accumulate(present.begin(), present.end(), 0UL));
  for (std::size_t k = 0; k < kSummed; ++k) {
    const float sum = static_cast<float>(present.size()) * round + numbers * static_cast<float>(k % 1000);
    if (world_.node(i).result()[k] != sum) return "element " + std::to_string(k);
  }
  return "";
}

std::string Planes::AllReduceOverABadLink(float round, bool lane, std::uint64_t bytes,
                                          void (MadeLink::*fault)() const) {
  const std::size_t made = world_.links().size();
  std::vector<std::uint64_t> before;
  for (const MadeLink& link : world_.links()) before.push_back(link.bytes());
  std::optional<std::size_t> bad;
  std::string why = AllReduce(round, [&] {
    for (std::size_t i = 0; i < made && !bad; ++i) {
      const MadeLink& link = world_.links()[i];
      if (link.lane == lane && link.bytes() >= before[i] + bytes) bad = i, (link.*fault)();
    }
  });
  if (!why.empty()) return why;
  if (!bad) return "there was no such link";
  const auto replaces = [&](const MadeLink& link) {
    const MadeLink& old = world_.links()[*bad];
    return link.lane == lane && link.from == old.from && link.to == old.to;
  };
  const bool replaced = world_.RunUntil([&] {
    return std::any_of(world_.links().begin() + static_cast<std::ptrdiff_t>(made), world_.links().end(), replaces);
  });
  return replaced ? "" : "the link is not replaced";
}

}  // namespace ringway::daemon
