// One of several masters that share a store: seeks to lead, and writes while it does. Pure: replies of the store and
// the time go in, requests and events come out.
//
//   standby --no leader--> grants a lease, puts the key `leader` under it, reads all, puts the next term --> leads
//      ^                                                                                                      |
//      +---------- the lease is over, or was not renewed in time; another one leads --------------------------+
//
//   key       value
//   leader    address of the master that leads; goes with its lease
//   state     the term; put by each write
//   groups/N  record of group N
//
// A write compares, in the store:
//
//   revision at which `leader` was created   the fence: a write of a master that leads no more fails
//   revision of `state`                      the order: a write that arrives after a later one fails
//
// So a write that nobody has answered may be repeated: if it arrives nevertheless, it fails, or was the same. The lease
// only limits how long a master that cannot renew it keeps its daemons: no decision depends on a clock.
//
// Requests about the lease may overtake others: one of each of the two kinds is in flight at most, and one that is not
// answered within `answer_within` has failed.
//
// Threads: one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "master/leadership/kv.h"
#include "master/leadership/store.h"
#include "proto/clock.h"
#include "proto/result.h"

namespace ringway {

struct ElectionOptions {
  std::string address;     // HOST:PORT of this master, for those who look for the leader
  std::uint64_t seed = 0;  // random: the ids of its leases begin there
  std::int64_t lease_s = 2;
  Duration look_every = std::chrono::milliseconds(250);

  // How long a request may take. A lease is renewed in time though two renewals in a row get no answer.
  Duration answer_within() const {
    return std::min(Duration(std::chrono::seconds(lease_s)) / 4, Duration(std::chrono::seconds(1)));
  }
};

class Election {
 public:
  struct Lead {
    Tenure tenure;
  };
  struct Standby {
    std::string leader;
    Status why;
  };
  struct Written {
    Status status;
  };
  using Event = std::variant<Lead, Standby, Written>;

  explicit Election(ElectionOptions options) : options_(std::move(options)) {}

  // To be called every 50 ms or more often.
  void Tick(TimePoint now);
  void OnReply(const kv::Reply& reply, TimePoint now);
  // Stands by from now on, and lets others lead at once. To be called at the end.
  void Resign() { StandBy({Code::kShuttingDown, "it ends"}); }
  // Written follows, unless the tenure ends before. REQUIRES: leads, and no Write is pending.
  void Write(const std::vector<record::Group>& groups, TimePoint now);

  std::vector<kv::Request> TakeRequests() { return std::exchange(requests_, {}); }
  std::vector<Event> TakeEvents() { return std::exchange(events_, {}); }

  bool leads() const { return phase_ == Phase::kLeads; }
  // Returns the failure of the last request, or Ok.
  const Status& status() const { return status_; }
  // The lease that it holds; 0: none.
  kv::LeaseId lease() const { return lease_; }

 private:
  enum class Phase : std::uint8_t { kStandby, kGranting, kAcquiring, kLoading, kBeginning, kLeads };
  struct Flight {
    std::uint64_t number = 0;  // 0: nothing is in flight
    TimePoint sent{};
  };

  // Keeps where it was sent: to the lease, or to the rest.
  void Send(Flight& flight, decltype(kv::Request::what) what, TimePoint now);
  void SendWrite(TimePoint now);
  Duration RenewEvery() const { return Duration(std::chrono::seconds(options_.lease_s)) / 4; }
  void CheckLease(TimePoint now);
  void Look(TimePoint now);
  void Load(TimePoint now);
  void OnFailure(const Status& status, TimePoint now);
  void OnAnswer(const kv::Reply& reply, TimePoint now);
  void OnRenewal(const kv::Reply& reply, TimePoint sent);
  void OnLooked(const kv::Reply& reply, TimePoint now);
  void OnLoaded(const kv::Reply& reply, TimePoint now);
  void OnWrite(const kv::Reply& reply, TimePoint now);
  // A comparison of the write did not hold.
  void OnRefused(const kv::Reply& reply, TimePoint now);
  void FinishWrite(Status status);
  // Gives up the lease and what it has of the leadership.
  void StandBy(Status why);
  void NoteLeader(const std::string& leader);

  const ElectionOptions options_;
  Phase phase_ = Phase::kStandby;
  std::uint64_t next_number_ = 1;
  Flight data_, renewal_;
  TimePoint next_look_{}, next_renewal_{};
  std::string leader_;  // another one, as seen last
  Status status_;

  kv::LeaseId lease_ = 0;
  std::uint64_t leases_ = 0;  // so far
  TimePoint lease_until_{};   // reckoned from before it was granted or renewed
  kv::Revision fence_ = 0;    // at which `leader` was created
  kv::Revision order_ = 0;    // of `state`, as this tenure knows it
  std::uint32_t term_ = 0;
  std::vector<record::Group> groups_;  // as loaded, until it leads
  std::deque<kv::Transact> writes_;    // of the pending Write; the first is in flight
  int repeats_ = 0;                    // of the first
  std::vector<kv::Request> requests_;
  std::vector<Event> events_;
};

}  // namespace ringway
