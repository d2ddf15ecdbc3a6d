// A Peer whose trainer takes the members' state before it is admitted, and a member that hears of it.
#include <gtest/gtest.h>

#include <optional>
#include <variant>
#include <vector>

#include "daemon/agreement/peer.h"

namespace ringway::agreement {
namespace {

constexpr PeerId kMember{1};
constexpr PeerId kNewcomer{2};

class HeldNewcomerTest : public testing::Test {
 protected:
  struct Seen {
    std::vector<PeerId> held;       // of the newest StateHeld
    std::vector<PeerId> askers;     // of NewcomerAsks
    std::vector<PeerId> former;     // likewise, that do not ask any more
    std::vector<PeerId> connected;  // reported to the master
    bool asks = false;              // the newest heartbeat
  };

  static control::PeerInfo InfoOf(PeerId peer) {
    control::PeerInfo info;
    info.set_peer_id(peer.value);
    info.set_address("127.0.0.1:1");
    return info;
  }
  static void Connect(Peer& peer, PeerId other, bool formed, TimePoint now) {
    control::Candidates candidates;
    candidates.set_formed(formed);
    *candidates.add_others() = InfoOf(other);
    peer.OnCandidates(candidates, now);
    peer.OnLinkUp({other, true, {}}, {}, now);
    peer.OnLinkUp({other, false, LaneId(0)}, {.lanes = 1, .generation = 1}, now);
  }
  static Seen Hear(Peer& member, PeerId newcomer, bool takes_state, TimePoint now) {
    control::PeerMessage heartbeat;
    heartbeat.mutable_heartbeat()->set_takes_state(takes_state);
    EXPECT_TRUE(member.OnPeerMessage(newcomer, heartbeat, now).ok());
    return Take(member);
  }
  static Seen Install(Peer& peer, std::uint32_t counter, const std::vector<PeerId>& members, TimePoint now) {
    control::ViewFor view;
    view.mutable_view()->set_epoch(Epoch::Of(1, counter).value);
    for (const PeerId member : members) {
      view.mutable_view()->add_ring(static_cast<std::uint32_t>(view.view().members_size()));
      *view.mutable_view()->add_members() = InfoOf(member);
    }
    peer.OnView(view, now);
    return Take(peer);
  }
  static Seen Take(Peer& peer) {
    Seen seen;
    for (Action& action : peer.TakeActions()) {
      if (const auto* held = std::get_if<StateHeld>(&action)) seen.held = held->members;
      if (const auto* asks = std::get_if<NewcomerAsks>(&action))
        (asks->asks ? seen.askers : seen.former).push_back(asks->newcomer);
      if (const auto* to_peer = std::get_if<ToPeer>(&action); to_peer != nullptr && to_peer->message.has_heartbeat())
        seen.asks = to_peer->message.heartbeat().takes_state();
      if (const auto* to_master = std::get_if<ToMaster>(&action); to_master != nullptr) {
        if (to_master->message.has_connected()) seen.connected.emplace_back(to_master->message.connected().other());
      }
    }
    return seen;
  }
  Seen TickOf(Peer& peer) {
    now_ += std::chrono::milliseconds(500);
    peer.Tick(now_);
    return Take(peer);
  }

  TimePoint now_{std::chrono::seconds(1)};
};

TEST_F(HeldNewcomerTest, NewcomerIsNotReportedBeforeItHasTheStateAndSaysSoInItsHeartbeats) {
  Peer newcomer(kNewcomer, "g", {.takes_state = true});
  Connect(newcomer, kMember, true, now_);
  const Seen first = Take(newcomer);
  EXPECT_EQ(first.held, std::vector{kMember});
  EXPECT_TRUE(first.connected.empty());
  EXPECT_TRUE(TickOf(newcomer).asks);
  newcomer.OnMasterBack(now_);
  EXPECT_TRUE(Take(newcomer).connected.empty()) << "a master that is back must not admit it either";

  newcomer.OnStateTaken(now_);
  EXPECT_EQ(Take(newcomer).connected, std::vector{kMember});
  EXPECT_FALSE(TickOf(newcomer).asks);
  newcomer.OnStateTaken(now_);
  EXPECT_TRUE(Take(newcomer).connected.empty());
}

TEST_F(HeldNewcomerTest, GroupThatFormsAndTrainersThatTakeNothingAreNotHeld) {
  for (const bool takes_state : {false, true}) {
    Peer peer(kNewcomer, "g", {.takes_state = takes_state});
    Connect(peer, kMember, !takes_state, now_);
    const Seen seen = Take(peer);
    EXPECT_TRUE(seen.held.empty()) << takes_state;
    EXPECT_EQ(seen.connected, std::vector{kMember}) << takes_state;
    EXPECT_FALSE(TickOf(peer).asks) << takes_state;
  }
}

TEST_F(HeldNewcomerTest, MemberHearsOfEachNewcomerOnceAndWhenItAsksNoMore) {
  Peer member(kMember, "g");
  Connect(member, kNewcomer, true, now_);
  const auto hear = [&](bool takes_state = true) { return Hear(member, kNewcomer, takes_state, now_); };
  EXPECT_TRUE(hear().askers.empty()) << "this peer is no member yet";
  const std::vector<PeerId> newcomer = {kNewcomer};
  EXPECT_TRUE(Install(member, 1, {kMember}, now_).former.empty());
  EXPECT_EQ(hear().askers, newcomer);
  EXPECT_TRUE(hear().askers.empty());

  control::Forget forget;
  forget.add_others(kNewcomer.value);
  member.OnForget(forget, now_);
  EXPECT_EQ(Take(member).former, newcomer) << "it is gone";
  EXPECT_TRUE(hear().askers.empty());
  Connect(member, kNewcomer, true, now_);
  EXPECT_EQ(hear().askers, newcomer) << "it is back";
  EXPECT_EQ(hear(false).former, newcomer) << "it has the state";
  EXPECT_TRUE(hear(false).former.empty());
  EXPECT_EQ(hear().askers, newcomer);
  EXPECT_EQ(Install(member, 2, {kMember, kNewcomer}, now_).former, newcomer) << "it is a member";
  EXPECT_TRUE(hear().askers.empty());
}

TEST_F(HeldNewcomerTest, NewcomersForWhomThePageHasNoEntryAreNamedWhenOneIsFree) {
  Peer member(kMember, "g");
  Install(member, 1, {kMember}, now_);
  std::vector<PeerId> named;
  for (std::uint64_t i = 0; i < abi::kNewcomersMax + 2; ++i) {
    const PeerId newcomer(kNewcomer.value + i);
    Connect(member, newcomer, true, now_);
    for (const PeerId asks : Hear(member, newcomer, true, now_).askers) named.push_back(asks);
  }
  ASSERT_EQ(named.size(), abi::kNewcomersMax);
  const PeerId ninth(kNewcomer.value + abi::kNewcomersMax);
  const PeerId tenth(ninth.value + 1);
  EXPECT_TRUE(Hear(member, ninth, false, now_).former.empty()) << "it was never named";
  const Seen freed = Hear(member, kNewcomer, false, now_);
  EXPECT_EQ(freed.former, std::vector{kNewcomer});
  EXPECT_EQ(freed.askers, std::vector{tenth});
}

}  // namespace
}  // namespace ringway::agreement
