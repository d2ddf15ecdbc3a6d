#include "master/leadership/election.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "proto/check.h"
#include "proto/mutation.h"

namespace ringway {
namespace {

constexpr char kLeaderKey[] = "leader";
constexpr char kStateKey[] = "state";
constexpr std::string_view kGroupPrefix = "groups/";
// In one transaction: etcd takes 128 changes and 1.5 MiB.
constexpr std::size_t kChangesMax = 64;
constexpr std::size_t kBytesMax = 1 << 20;
constexpr int kRepeatsMax = 8;  // more writes than can be under way

std::string KeyOf(const std::string& group) { return std::string(kGroupPrefix) + group; }

const kv::Entry* Find(const std::vector<kv::Entry>& entries, std::string_view key) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const kv::Entry& one) { return one.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

std::string StateText(std::uint32_t term) { return "term " + std::to_string(term); }

std::optional<std::uint32_t> TermIn(std::string_view text) {
  constexpr std::string_view kWord = "term ";
  if (!text.starts_with(kWord)) return std::nullopt;
  text.remove_prefix(kWord.size());
  std::uint32_t term = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), term);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return term;
}

Status Damaged(const std::string& key) {
  return {Code::kIo, "the entry " + key +
                         " of the store is not one of this release: restore the store, or give another prefix "
                         "and then restart the daemons"};
}

Result<Tenure> TenureIn(const std::vector<kv::Entry>& entries) {
  Tenure tenure;
  for (const kv::Entry& entry : entries) {
    if (entry.key == kLeaderKey) continue;
    if (entry.key == kStateKey) {
      const std::optional<std::uint32_t> term = TermIn(entry.value);
      if (!term || *term == std::numeric_limits<std::uint32_t>::max()) return Damaged(entry.key);
      tenure.term = *term;
      continue;
    }
    record::Group& group = tenure.groups.emplace_back();
    if (!group.ParseFromString(entry.value) || KeyOf(group.name()) != entry.key) return Damaged(entry.key);
  }
  return tenure;
}

}  // namespace

void Election::Send(Flight& flight, decltype(kv::Request::what) what, TimePoint now) {
  flight = {.number = next_number_++, .sent = now};
  requests_.push_back({.number = flight.number, .what = std::move(what)});
}

void Election::Tick(TimePoint now) {
  CheckLease(now);
  const Status late(Code::kTimeout, "the store does not answer in time");
  if (renewal_.number != 0 && now - renewal_.sent >= options_.answer_within()) {
    renewal_ = {};
    status_ = late;
  }
  if (data_.number != 0 && now - data_.sent >= options_.answer_within()) {
    data_ = {};
    OnFailure(late, now);
  }
  if (phase_ == Phase::kStandby && data_.number == 0 && now >= next_look_) Look(now);
  if (phase_ == Phase::kLoading && data_.number == 0) Load(now);
  if (lease_ != 0 && phase_ > Phase::kGranting && renewal_.number == 0 && now >= next_renewal_) {
    next_renewal_ = now + RenewEvery();
    Send(renewal_, kv::Renew{lease_}, now);
  }
}

// First of all, as it may have been stopped for long.
void Election::CheckLease(TimePoint now) {
  if (lease_ != 0 && now >= lease_until_) StandBy({Code::kIo, "its lease was not renewed in time"});
}

void Election::OnReply(const kv::Reply& reply, TimePoint now) {
  CheckLease(now);
  if (reply.number == 0) return;
  if (reply.number == renewal_.number) return OnRenewal(reply, std::exchange(renewal_, {}).sent);
  if (reply.number != data_.number) return;  // late
  data_ = {};
  if (!reply.status.ok()) return OnFailure(reply.status, now);
  status_ = Status::Ok();
  OnAnswer(reply, now);
}

void Election::OnFailure(const Status& status, TimePoint now) {
  status_ = status;
  switch (phase_) {
    case Phase::kStandby:
      break;
    case Phase::kGranting:
    case Phase::kAcquiring:
      return StandBy(Status::Ok());  // a lease that nobody renews ends by itself
    case Phase::kLoading:
      break;
    case Phase::kBeginning:
      phase_ = Phase::kLoading;  // the term may be taken
      return Load(now);
    case Phase::kLeads:
      return FinishWrite(status);
  }
}

void Election::OnAnswer(const kv::Reply& reply, TimePoint now) {
  switch (phase_) {
    case Phase::kStandby:
      return OnLooked(reply, now);
    case Phase::kGranting:
      if (!reply.succeeded) return StandBy(Status::Ok());
      phase_ = Phase::kAcquiring;
      return Send(data_,
                  kv::Transact{.compare = {{kLeaderKey, kv::Compare::Of::kCreated, 0}},
                               .puts = {{kLeaderKey, options_.address, lease_}},
                               .get = {kLeaderKey}},
                  now);
    case Phase::kAcquiring:
      if (!reply.succeeded) {
        StandBy(Status::Ok());
        return OnLooked(reply, now);
      }
      fence_ = reply.revision;
      phase_ = Phase::kLoading;
      return Load(now);
    case Phase::kLoading:
      return OnLoaded(reply, now);
    case Phase::kBeginning:
    case Phase::kLeads:
      return OnWrite(reply, now);
  }
}

void Election::OnRenewal(const kv::Reply& reply, TimePoint sent) {
  if (!reply.status.ok()) {
    status_ = reply.status;
    return;
  }
  if (!reply.succeeded) return StandBy({Code::kIo, "its lease has ended"});
  lease_until_ = sent + std::chrono::seconds(options_.lease_s);
}

// ---------------------------------------------------------------------------------------------- standby

void Election::Look(TimePoint now) {
  next_look_ = now + options_.look_every;
  Send(data_, kv::Transact{.compare = {{kLeaderKey, kv::Compare::Of::kCreated, 0}}, .get = {kLeaderKey}}, now);
}

void Election::OnLooked(const kv::Reply& reply, TimePoint now) {
  const kv::Entry* leader = Find(reply.entries, kLeaderKey);
  if (leader != nullptr) return NoteLeader(leader->value);
  if (!reply.succeeded) return;  // it went between the comparison and the reading, so the next look finds none
  NoteLeader("");
  // Never 0, and never one of another process, or an earlier one.
  lease_ = static_cast<kv::LeaseId>((options_.seed + 2 * ++leases_) & std::numeric_limits<kv::LeaseId>::max()) | 1;
  lease_until_ = now + std::chrono::seconds(options_.lease_s);
  next_renewal_ = now + RenewEvery();
  phase_ = Phase::kGranting;
  Send(data_, kv::Grant{lease_, options_.lease_s}, now);
}

void Election::NoteLeader(const std::string& leader) {
  // Its own tenure before this one: the lease has not ended yet.
  const std::string other = leader == options_.address ? "" : leader;
  if (std::exchange(leader_, other) != other) events_.emplace_back(Standby{other, Status::Ok()});
}

void Election::Load(TimePoint now) { Send(data_, kv::List{}, now); }

void Election::OnLoaded(const kv::Reply& reply, TimePoint now) {
  const kv::Entry* leader = Find(reply.entries, kLeaderKey);
  if (leader == nullptr || leader->created != fence_) return StandBy({Code::kIo, "another master leads"});
  Result<Tenure> tenure = TenureIn(reply.entries);
  if (!tenure.ok()) {
    status_ = tenure.status();
    next_look_ = now + std::chrono::seconds(options_.lease_s);
    return StandBy(tenure.status());
  }
  const kv::Entry* state = Find(reply.entries, kStateKey);
  order_ = state == nullptr ? 0 : state->changed;
  term_ = tenure.value().term + 1;
  groups_ = std::move(tenure.value().groups);
  phase_ = Phase::kBeginning;
  writes_.assign(1, {});
  SendWrite(now);
}

void Election::StandBy(Status why) {
  const bool led = phase_ == Phase::kLeads;
  if (lease_ != 0 && phase_ != Phase::kGranting) {
    // Nobody waits for the answer; without it the lease ends a little later.
    requests_.push_back({.number = 0, .what = kv::Revoke{lease_}});
  }
  phase_ = Phase::kStandby;
  data_ = renewal_ = {};
  lease_ = 0;
  fence_ = order_ = 0;
  writes_.clear();
  if (led) events_.emplace_back(Standby{leader_, std::move(why)});
}

// ---------------------------------------------------------------------------------------------- writes

void Election::Write(const std::vector<record::Group>& groups, TimePoint now) {
  RINGWAY_CHECK(leads() && writes_.empty());
  std::size_t bytes = 0;
  for (const record::Group& group : groups) {
    std::string value = group.members().empty() ? "" : group.SerializeAsString();
    const bool is_full = !writes_.empty() && (bytes + value.size() > kBytesMax ||
                                              writes_.back().puts.size() + writes_.back().erase.size() >= kChangesMax);
    if (writes_.empty() || is_full) {
      writes_.emplace_back();
      bytes = 0;
    }
    bytes += value.size();
    if (group.members().empty()) {
      writes_.back().erase.push_back(KeyOf(group.name()));
    } else {
      writes_.back().puts.push_back({KeyOf(group.name()), std::move(value)});
    }
  }
  if (writes_.empty()) writes_.emplace_back();
  repeats_ = 0;
  SendWrite(now);
}

void Election::SendWrite(TimePoint now) {
  kv::Transact write = writes_.front();
  if (!RINGWAY_MUTANT(kIgnoreFence)) write.compare.push_back({kLeaderKey, kv::Compare::Of::kCreated, fence_});
  if (!RINGWAY_MUTANT(kIgnoreOrder)) write.compare.push_back({kStateKey, kv::Compare::Of::kChanged, order_});
  write.puts.push_back({kStateKey, StateText(term_)});
  write.get = {kLeaderKey, kStateKey};
  Send(data_, std::move(write), now);
}

void Election::OnWrite(const kv::Reply& reply, TimePoint now) {
  if (!reply.succeeded) return OnRefused(reply, now);
  if (reply.revision <= order_) return OnFailure({Code::kProtocol, "the store's revisions go backwards"}, now);
  order_ = reply.revision;
  repeats_ = 0;
  writes_.pop_front();
  if (phase_ == Phase::kBeginning) {
    phase_ = Phase::kLeads;
    events_.emplace_back(Lead{{.term = term_, .groups = std::exchange(groups_, {})}});
    return;
  }
  if (writes_.empty()) return FinishWrite(Status::Ok());
  SendWrite(now);
}

void Election::OnRefused(const kv::Reply& reply, TimePoint now) {
  const kv::Entry* leader = Find(reply.entries, kLeaderKey);
  const bool is_deposed = leader == nullptr || leader->created != fence_;
  if (is_deposed && !RINGWAY_MUTANT(kIgnoreFence)) {
    if (leader != nullptr && leader->value != options_.address) leader_ = leader->value;
    return StandBy({Code::kIo, "another master leads"});
  }
  const kv::Entry* state = Find(reply.entries, kStateKey);
  const kv::Revision found = state == nullptr ? 0 : state->changed;
  if (phase_ == Phase::kBeginning) {  // an earlier attempt has arrived
    phase_ = Phase::kLoading;
    return Load(now);
  }
  if (found < order_) {
    return OnFailure({Code::kIo,
                      "the store has lost a change that it had acknowledged, and no group changes without it: restore "
                      "the store, or restart all masters and daemons"},
                     now);
  }
  // Only this tenure writes under its fence: an earlier attempt has arrived.
  order_ = found;
  if (++repeats_ > kRepeatsMax) return OnFailure({Code::kProtocol, "the store refuses what it should take"}, now);
  SendWrite(now);
}

void Election::FinishWrite(Status status) {
  writes_.clear();
  events_.emplace_back(Written{std::move(status)});
}

}  // namespace ringway
