// Any messages of several daemons, mixed with silence and disconnects: what goes out goes to connections that stand,
// views are well formed, and no group keeps a member that nobody knows.
//
// The input is a list of steps. Ids are drawn from those that exist, so that short inputs reach far.
#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "master/coordination/coordinator.h"
#include "proto/frame_codec.h"
#include "tests/fuzz/input.h"

namespace ringway {
namespace {

constexpr std::uint32_t kConnections = 5;
constexpr int kStepsMax = 600;

class World {
 public:
  explicit World(fuzz::Input input) : input_(input), coordinator_(CoordinatorOptions{}) {}

  void Run() {
    for (int step = 0; step < kStepsMax && !input_.empty(); ++step) {
      Step();
      Drain();
      CheckGroups();
    }
  }

 private:
  void Step() {
    const std::uint64_t connection = 1 + input_.Below(kConnections);
    switch (input_.Below(12)) {
      case 0:
        if (up_.erase(connection) > 0) coordinator_.OnDisconnect(connection, Contact::kClosed, now_);
        return;
      case 1:
        now_ += std::chrono::milliseconds(8 * input_.Below(256));
        return coordinator_.Tick(now_);
      case 2:
        return Deliver(connection, Raw());
      default:
        return Deliver(connection, Message(connection));
    }
  }

  void Deliver(std::uint64_t connection, const control::ToMaster& message) {
    if (up_.insert(connection).second && !message.has_hello()) {
      control::ToMaster hello;
      FillHello(*hello.mutable_hello(), connection);
      coordinator_.OnMessage(connection, hello, now_);
    }
    coordinator_.OnMessage(connection, message, now_);
  }

  // Bytes as they are: fields and kinds that no sender of ours makes.
  control::ToMaster Raw() {
    control::ToMaster message;
    const auto bytes = input_.Take(input_.Below(256));
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) message.Clear();
    return message;
  }

  void FillHello(control::DaemonHello& hello, std::uint64_t connection) {
    hello.set_version_min(kProtocolVersionMin);
    hello.set_version_max(kProtocolVersionMax);
    hello.set_name("d" + std::to_string(connection));
    hello.set_address("127.0.0.1:1");
    hello.set_instance(connection);
  }

  control::ToMaster Message(std::uint64_t connection) {
    control::ToMaster message;
    switch (input_.Below(9)) {
      case 0:
        FillHello(*message.mutable_hello(), 1 + input_.Below(kConnections));
        break;
      case 1:
        message.mutable_join()->set_group(input_.OneIn(4) ? "h" : "g");
        message.mutable_join()->set_wait_world(input_.Below(4));
        break;
      case 2:
      case 3:
        message.mutable_connected()->set_peer(SomePeer(connection));
        message.mutable_connected()->set_other(SomePeer(0));
        break;
      case 4:
        message.mutable_installed()->set_peer(SomePeer(connection));
        message.mutable_installed()->set_epoch(SomeEpoch());
        break;
      case 5:
        message.mutable_withdraw()->set_peer(SomePeer(connection));
        break;
      case 6:
        for (std::uint32_t i = input_.Below(3); i > 0; --i) message.mutable_roster()->add_peers(SomePeer(connection));
        break;
      case 7:
        message.mutable_measured()->set_peer(SomePeer(connection));
        message.mutable_measured()->set_other(SomePeer(0));
        message.mutable_measured()->set_bytes_per_second(input_.Number<std::uint64_t>());
        message.mutable_measured()->set_round_trip_us(input_.Number<std::uint32_t>());
        break;
      default:
        FillReport(*message.mutable_report(), connection);
    }
    return message;
  }

  void FillReport(control::Report& report, std::uint64_t connection) {
    report.set_peer(SomePeer(connection));
    report.set_stop(SomeEpoch());
    report.set_epoch(SomeEpoch());
    report.set_leaving(input_.OneIn(8));
    if (input_.OneIn(2)) report.add_lost(SomePeer(0));
    for (std::uint32_t i = input_.Below(4); i > 0; --i) {
      control::OpReport& op = *report.add_ops();
      op.set_seq(input_.Below(5));
      op.set_stage(static_cast<control::OpStage>(input_.Below(4)));  // one of them unknown
      op.set_code(input_.OneIn(3) ? input_.Number<std::uint32_t>() : 0);
      op.set_result_epoch(SomeEpoch());
      op.set_prepared_epoch(SomeEpoch());
      op.set_update_view(input_.OneIn(2));
      op.set_cancel(input_.OneIn(5));
      if (input_.OneIn(5)) op.set_mismatch("a; b");
      if (input_.OneIn(3)) op.add_contributors(SomePeer(0));
    }
    if (input_.OneIn(3)) report.add_finished_upto()->set_seq(input_.Below(5));
  }

  // One that this connection was given, or with connection 0 any; sometimes any number.
  std::uint64_t SomePeer(std::uint64_t connection) {
    if (input_.OneIn(32)) return input_.Number<std::uint64_t>();
    const std::vector<std::uint64_t>& known = peers_.at(connection);
    return known.empty() ? 0 : known[input_.Below(256) % known.size()];
  }

  std::uint64_t SomeEpoch() {
    if (input_.OneIn(32)) return input_.Number<std::uint64_t>();
    return newest_epoch_ - std::min<std::uint64_t>(newest_epoch_, input_.Below(4) / 2) + input_.Below(16) / 15;
  }

  void Drain() {
    Take();
    // As in the server, a refused connection is gone; messages to it about the other refused ones cross its closing.
    const std::set<std::uint64_t> closing = std::exchange(closing_, {});
    for (const std::uint64_t connection : closing) coordinator_.OnDisconnect(connection, Contact::kClosed, now_);
    Take();
    REQUIRE(closing_.empty());
    for (const std::uint64_t connection : closing) up_.erase(connection);
  }

  void Take() {
    for (const Coordinator::Action& action : coordinator_.TakeActions()) {
      REQUIRE(up_.contains(action.connection));
      if (action.message.has_value()) OnAction(action.connection, *action.message);
      if (action.close) closing_.insert(action.connection);
    }
  }

  void OnAction(std::uint64_t connection, const control::FromMaster& message) {
    if (message.has_join_accepted()) {
      peers_.at(connection).push_back(message.join_accepted().peer());
      peers_.at(0).push_back(message.join_accepted().peer());
    }
    if (message.has_view()) CheckView(message.view());
  }

  void CheckView(const control::ViewFor& message) {
    std::set<std::uint64_t> members, ring;
    for (const control::PeerInfo& info : message.view().members()) REQUIRE(members.insert(info.peer_id()).second);
    for (const std::uint32_t rank : message.view().ring()) REQUIRE(ring.insert(rank).second && rank < members.size());
    REQUIRE(ring.size() == members.size() && members.contains(message.peer()));
    REQUIRE(!message.prepared() || message.view().verdicts().empty());
    newest_epoch_ = std::max<std::uint64_t>(newest_epoch_, message.view().epoch());
  }

  void CheckGroups() {
    REQUIRE(coordinator_.daemons().size() <= kStepsMax);
    for (const auto& [name, group] : coordinator_.groups()) {
      REQUIRE(!group->empty());
      if (group->collecting()) continue;  // a view adopted while it was taken back has members that are gone
      for (const control::PeerInfo& info : group->current().members()) {
        REQUIRE(group->peers().contains(PeerId(info.peer_id())));
      }
    }
  }

  fuzz::Input input_;
  Coordinator coordinator_;
  TimePoint now_{std::chrono::hours(1)};
  std::set<std::uint64_t> up_, closing_;
  std::array<std::vector<std::uint64_t>, kConnections + 1> peers_;  // by connection; 0: all
  std::uint64_t newest_epoch_ = 0;
};

}  // namespace
}  // namespace ringway

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ringway::World(ringway::fuzz::Input(data, size)).Run();
  return 0;
}
