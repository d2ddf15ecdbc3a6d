// The peers of one group, members and pendings, and what the master has heard of each: its links, its silence, who
// accuses it, and whether it goes for another reason.
//
// Accusations outlive the recovery in which they are made, for a peer that was accused once is in no view with its
// accuser again. They end with either of the two.
//
// A value; threads: one.
#pragma once

#include <ringway/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "master/coordination/former_peers.h"
#include "master/coordination/group_record.pb.h"
#include "master/coordination/membership.h"
#include "master/coordination/op_history.h"
#include "master/coordination/traffic_bill.h"
#include "master/coordination/view_chain.h"
#include "master/planning/price_list.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway {

// State of the master's connection to a peer's daemon.
enum class Contact : std::uint8_t {
  kOnline,
  kClosed,  // closed by the daemon's host: the network works and the process is probably dead
  kSilent,  // silent, or the connection ended in another way: either side may be cut off
};

struct PeerState {
  control::PeerInfo info;
  std::uint32_t wait_world = 1;
  std::uint32_t min_world = 1;
  std::uint32_t hung_ms = 0;
  Contact contact = Contact::kOnline;
  TimePoint since{};          // when `contact` began; in the future after a restart of the master
  std::set<PeerId> standing;  // peers with which it is connected, as this side reports
  std::map<PeerId, std::string> dial_errors;
  std::string explained;  // the Pending text sent last
  control::PeerCounters counters;
  std::map<PeerId, std::uint64_t> sent;  // to others, as it has reported last
  bool is_restored = false;              // from the journal: its first counts, as to others restored, are of before
  bool online() const { return contact == Contact::kOnline; }
};

// Where what peers send is put down.
struct Billing {
  const PriceList* prices = nullptr;  // null: there are none
  std::array<TrafficBill*, 2> bills = {};
  std::size_t world = 0;  // members: each counts its share of the operations
};

// Why a peer is pending.
struct PendingReason {
  Code code = Code::kOk;  // kPeerUnreachable: it, or a peer that it has to reach, cannot be dialled
  std::string text;
};

class GroupPeers {
 public:
  explicit GroupPeers(std::string group) : group_(std::move(group)) {}
  // Restores journaled peers, which are offline. `missed`: since when.
  GroupPeers(const record::Group& record, TimePoint missed);
  // Appends these peers to the record.
  void SaveTo(record::Group* record, const std::set<PeerId>& ids) const;

  void Add(const control::PeerInfo& info, const control::JoinRequest& request, TimePoint now);
  // Forgets the peer, and what it and others have said about each other.
  void Erase(PeerId id);

  const std::map<PeerId, PeerState>& all() const { return peers_; }
  bool contains(PeerId id) const { return peers_.contains(id); }
  // REQUIRES: contains(id).
  const PeerState& at(PeerId id) const { return peers_.at(id); }
  PeerState& at(PeerId id) { return peers_.at(id); }
  // Those of `ids` that are in the group.
  std::set<PeerId> Known(std::set<PeerId> ids) const;
  // Returns whether the master hears the peer; false for an unknown one.
  bool IsOnline(PeerId id) const;
  // Returns whether the peer is in the group and the master does not hear it.
  bool IsOffline(PeerId id) const { return contains(id) && !IsOnline(id); }

  // Returns whether both sides have reported their connection. REQUIRES: both are in the group.
  bool AreConnected(PeerId a, PeerId b) const;
  // Returns the largest subset that is fully connected; `as_wanted`: and as large as each of its peers waits for.
  std::set<PeerId> LargestConnected(const std::vector<PeerId>& ids, bool as_wanted) const;

  // Adds the accusations of a report against others of `in_view`; returns whether one of them is new. `current`: the
  // epoch of the current view.
  bool AddAccusations(const control::Report& report, const std::set<PeerId>& in_view, Epoch current);
  // Each lasts until Erase. Leave returns whether this is news.
  bool Leave(PeerId id) { return leaving_.insert(id).second; }
  void Replace(PeerId id) { replaced_.insert(id); }  // its daemon was replaced by another process
  // It goes although its daemon is healthy.
  void Expel(PeerId id, const std::string& why) { expelled_[id] = why; }

  const Accusations& accusations() const { return accusations_; }
  bool IsAccused(PeerId id) const { return accusations_.contains(id); }
  bool IsLeaving(PeerId id) const { return leaving_.contains(id); }
  bool IsReplaced(PeerId id) const { return replaced_.contains(id); }
  bool IsExpelled(PeerId id) const { return expelled_.contains(id); }
  // Leavers, replaced and expelled ones: no accusation is needed to drop them.
  bool IsGoing(PeerId id) const { return IsLeaving(id) || IsReplaced(id) || IsExpelled(id); }
  std::set<PeerId> Going() const;

  // Takes a peer's checked report, and puts down what it has sent and done since the one before; what it has sent to
  // peers of its own daemon has left no host. REQUIRES: contains the peer.
  void TakeCounters(control::PeerCounters counters, const Billing& billing, TimePoint now);

  // What the members' operations do now: the longest mean time, and the lowest number a second, of those that say so.
  OpHistory::Sample SampleOf(const std::set<PeerId>& members, TimePoint now) const;

  // Texts for trainers and logs. REQUIRES: the peer is in the group.
  std::string Label(PeerId id) const;
  // Before the first view all peers count, afterwards only those that a pending peer has to be connected to.
  PendingReason WhyPending(PeerId id, const ViewChain& views) const;
  // Returns the record of a peer that is dropped; its host fills in the fields about the daemon.
  FormerPeer Former(PeerId id, TimePoint now) const;

 private:
  std::string WhyGone(PeerId id, TimePoint now) const;
  std::string Accusers(PeerId id) const;

  std::string group_;  // its name
  std::map<PeerId, PeerState> peers_;
  Accusations accusations_;
  std::set<PeerId> leaving_;
  std::set<PeerId> replaced_;
  std::map<PeerId, std::string> expelled_;  // and why
};

}  // namespace ringway
