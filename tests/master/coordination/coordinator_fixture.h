// A coordinator and daemons that a test drives by hand: what was sent to each connection lies in its inbox.
#pragma once

#include <gtest/gtest.h>
#include <ringway/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "master/coordination/coordinator.h"
#include "proto/frame_codec.h"

namespace ringway {

inline constexpr Duration kDetect = std::chrono::milliseconds(3000);
inline constexpr Duration kWeigh = kDetect / 10;
inline constexpr Duration kBack = std::chrono::seconds(3);
inline constexpr Duration kGrace = std::chrono::seconds(30);

// Daemons by connection number, one peer each, driven by hand.
class CoordinatorTest : public testing::Test {
 protected:
  void Hello(std::uint64_t connection, const std::string& name, std::uint64_t instance,
             const std::string& address = "") {
    control::ToMaster message;
    message.mutable_hello()->set_version_min(kProtocolVersionMin);
    message.mutable_hello()->set_version_max(kProtocolVersionMax);
    message.mutable_hello()->set_name(name);
    message.mutable_hello()->set_address(address.empty() ? name + ".example:1" : address);
    message.mutable_hello()->set_site(sites_[connection]);
    message.mutable_hello()->set_site_uplink(site_uplink_);
    message.mutable_hello()->set_instance(instance);
    Say(connection, message);
    control::ToMaster roster;  // of a daemon that has kept all its peers
    roster.mutable_roster();
    for (const auto& [id, daemon] : coordinator_->daemons()) {
      if (daemon.connection != connection) continue;
      for (const PeerId peer : daemon.peers) roster.mutable_roster()->add_peers(peer.value);
    }
    if (!closed_.contains(connection)) Say(connection, roster);
  }

  // Sends Hello and joins. Returns the peer id, or 0 if refused.
  std::uint64_t Join(std::uint64_t connection, std::uint32_t wait_world, const std::string& group = "g",
                     bool fail_on_peer_loss = false, const std::string& name = "", std::uint32_t min_world = 1) {
    if (!said_hello_.contains(connection)) Hello(connection, "d" + std::to_string(connection), connection);
    said_hello_.insert(connection);
    control::ToMaster message;
    message.mutable_join()->set_group(group);
    message.mutable_join()->set_name(name.empty() ? "p" + std::to_string(connection) : name);
    message.mutable_join()->set_wait_world(wait_world);
    message.mutable_join()->set_min_world(min_world);
    message.mutable_join()->set_fail_on_peer_loss(fail_on_peer_loss);
    message.mutable_join()->set_hung_ms(hung_ms_);
    Say(connection, message);
    const auto* accepted = Last(connection, &control::FromMaster::has_join_accepted);
    return accepted == nullptr ? 0 : accepted->join_accepted().peer();
  }

  void Say(std::uint64_t connection, const control::ToMaster& message) {
    coordinator_->OnMessage(connection, message, now_);
    Collect();
  }

  void Connect(std::uint64_t a, std::uint64_t b) {
    for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
      control::ToMaster message;
      message.mutable_connected()->set_round_trip_us(static_cast<std::uint32_t>(round_trip_.count()));
      message.mutable_connected()->set_peer(peers_[x]);
      message.mutable_connected()->set_other(peers_[y]);
      Say(x, message);
    }
  }

  void CannotReach(std::uint64_t from, std::uint64_t to, const std::string& why) {
    control::ToMaster message;
    message.mutable_dial_failed()->set_peer(peers_[from]);
    message.mutable_dial_failed()->set_other(peers_[to]);
    message.mutable_dial_failed()->set_text(why);
    Say(from, message);
  }

  // Connection `id` joins the formed group and stands with `others`. Returns the prepared epoch; 0: none was prepared.
  std::uint64_t Newcomer(std::uint64_t id, std::initializer_list<std::uint64_t> others) {
    peers_[id] = Join(id, 1);
    for (const std::uint64_t other : others) Connect(id, other);
    const auto* view = Last(id, &control::FromMaster::has_view);
    return view != nullptr && view->view().prepared() ? view->view().view().epoch() : 0;
  }

  void Withdraw(std::uint64_t connection) {
    control::ToMaster message;
    message.mutable_withdraw()->set_peer(peers_[connection]);
    Say(connection, message);
  }

  void Installed(std::uint64_t connection, std::uint64_t epoch) {
    control::ToMaster message;
    message.mutable_installed()->set_peer(peers_[connection]);
    message.mutable_installed()->set_epoch(epoch);
    Say(connection, message);
  }

  bool Has(std::uint64_t connection, bool (control::FromMaster::*has)() const) {
    return Last(connection, has) != nullptr;
  }

  const Group& TheGroup() { return *coordinator_->groups().at("g"); }

  // A formed group of connections 1 .. world.
  void Form(std::uint64_t world, bool fail_on_peer_loss = false) {
    for (std::uint64_t i = 1; i <= world; ++i) {
      peers_[i] = Join(i, static_cast<std::uint32_t>(world), "g", fail_on_peer_loss);
    }
    for (std::uint64_t a = 1; a <= world; ++a) {
      for (std::uint64_t b = a + 1; b <= world; ++b) Connect(a, b);
    }
    ASSERT_EQ(ViewOf(1).members_size(), static_cast<int>(world));
  }

  control::ToMaster Report(std::uint64_t from, std::uint64_t stop, std::initializer_list<std::uint64_t> lost = {}) {
    control::ToMaster message;
    message.mutable_report()->set_peer(peers_[from]);
    message.mutable_report()->set_stop(stop);
    message.mutable_report()->set_epoch(ViewOf(from).epoch());
    for (const std::uint64_t peer : lost) message.mutable_report()->add_lost(peers_[peer]);
    return message;
  }

  void Advance(Duration by) {
    now_ += by;
    coordinator_->Tick(now_);
    Collect();
  }

  // Half a second at a time, so that nobody seems silent who is not.
  void Wait(Duration time, std::initializer_list<std::uint64_t> alive) {
    for (Duration waited{}; waited < time; waited += std::chrono::milliseconds(500)) {
      Advance(std::chrono::milliseconds(500));
      Heartbeats(alive);
    }
  }

  // Everybody but these connections stays alive.
  void Heartbeats(std::initializer_list<std::uint64_t> connections) {
    for (const std::uint64_t connection : connections) {
      control::ToMaster message;
      message.mutable_heartbeat();
      Say(connection, message);
    }
  }

  // Writes down what is to be written down, unless the disk is full, or the test itself does it.
  void Collect() {
    while (coordinator_->NeedsRecord() && !disk_full_ && !slow_disk_) {
      for (const record::Group& group : coordinator_->BeginRecord()) {
        journal_.erase(group.name());
        if (!group.members().empty()) journal_[group.name()] = group;
      }
      coordinator_->OnRecorded(now_);
    }
    if (coordinator_->NeedsRecord() && disk_full_) coordinator_->OnRecordFailed();
    for (Coordinator::Action& action : coordinator_->TakeActions()) {
      if (action.message) inbox_[action.connection].push_back(*action.message);
      if (action.close) closed_.insert(action.connection);
    }
  }

  const control::FromMaster* Last(std::uint64_t connection, bool (control::FromMaster::*has)() const) {
    auto& messages = inbox_[connection];
    for (auto it = messages.rbegin(); it != messages.rend(); ++it) {
      if (((*it).*has)()) return &*it;
    }
    return nullptr;
  }

  control::View ViewOf(std::uint64_t connection) {
    const auto& messages = inbox_[connection];
    for (auto it = messages.rbegin(); it != messages.rend(); ++it) {
      if (it->has_view() && !it->view().prepared()) return it->view().view();
    }
    return {};
  }

  static std::vector<std::uint32_t> RingOf(const control::View& view) {
    return {view.ring().begin(), view.ring().end()};
  }

  std::string PendingText(std::uint64_t connection) {
    const auto* pending = Last(connection, &control::FromMaster::has_pending);
    return pending == nullptr ? "" : pending->pending().text();
  }

  std::optional<Coordinator> coordinator_{std::in_place, CoordinatorOptions{}};
  TimePoint now_{std::chrono::seconds(1)};
  std::map<std::string, record::Group> journal_;  // by group name
  bool disk_full_ = false;
  bool slow_disk_ = false;
  std::map<std::uint64_t, std::vector<control::FromMaster>> inbox_;
  std::set<std::uint64_t> closed_;
  std::set<std::uint64_t> said_hello_;
  std::map<std::uint64_t, std::uint64_t> peers_;
  std::map<std::uint64_t, std::string> sites_;  // by connection
  std::uint64_t site_uplink_ = 0;               // bytes per second, in every hello
  Duration round_trip_{};                       // between any two; 0: not known
  std::uint32_t hung_ms_ = 600'000;             // that joins ask for
};

}  // namespace ringway
