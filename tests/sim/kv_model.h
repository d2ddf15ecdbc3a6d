// A store of keys as masters share one (master/leadership/kv.h), on simulated time: what etcd does, and nothing else.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "master/leadership/kv.h"
#include "proto/clock.h"

namespace ringway::sim {

class KvModel {
 public:
  // Carries the request out now. REQUIRES: time does not go back.
  kv::Reply Carry(const kv::Request& request, TimePoint now) {
    Expire(now);
    kv::Reply reply = std::visit([&](const auto& what) { return Do(what, now); }, request.what);
    reply.number = request.number;
    reply.revision = revision_;
    return reply;
  }
  // The leases that have ended take their keys along.
  void Expire(TimePoint now) {
    std::erase_if(leases_, [&](const auto& lease) { return lease.second.until <= now; });
    Sweep();
  }
  bool Has(const std::string& key) const { return entries_.contains(key); }

 private:
  struct Lease {
    Duration length{};
    TimePoint until{};
  };
  struct Stored {
    kv::Entry entry;
    kv::LeaseId lease = 0;
  };

  kv::Reply Do(const kv::Transact& transact, TimePoint) {
    kv::Reply reply;
    reply.succeeded = std::all_of(transact.compare.begin(), transact.compare.end(),
                                  [&](const kv::Compare& compare) { return Holds(compare); });
    if (!reply.succeeded) {
      for (const std::string& key : transact.get) {
        if (entries_.contains(key)) reply.entries.push_back(entries_.at(key).entry);
      }
      return reply;
    }
    if (!transact.puts.empty() || !transact.erase.empty()) ++revision_;
    for (const kv::Put& put : transact.puts) {
      if (put.lease != 0 && !leases_.contains(put.lease)) return {.status = Status(Code::kIo, "no such lease")};
      Stored& stored = entries_[put.key];
      const kv::Revision created = stored.entry.created != 0 ? stored.entry.created : revision_;
      stored = {.entry = {put.key, put.value, created, revision_}, .lease = put.lease};
    }
    for (const std::string& key : transact.erase) entries_.erase(key);
    return reply;
  }
  kv::Reply Do(const kv::List&, TimePoint) const {
    kv::Reply reply;
    for (const auto& [key, stored] : entries_) reply.entries.push_back(stored.entry);
    return reply;
  }
  kv::Reply Do(const kv::Grant& grant, TimePoint now) {
    const Duration length = std::chrono::seconds(grant.seconds);
    kv::Reply reply;
    reply.succeeded = leases_.try_emplace(grant.lease, Lease{length, now + length}).second;
    return reply;
  }
  kv::Reply Do(const kv::Renew& renew, TimePoint now) {
    const auto found = leases_.find(renew.lease);
    kv::Reply reply;
    reply.succeeded = found != leases_.end();
    if (reply.succeeded) found->second.until = now + found->second.length;
    return reply;
  }
  kv::Reply Do(const kv::Revoke& revoke, TimePoint) {
    leases_.erase(revoke.lease);
    Sweep();
    return {};
  }

  bool Holds(const kv::Compare& compare) const {
    const auto found = entries_.find(compare.key);
    if (found == entries_.end()) return compare.revision == 0;
    const kv::Entry& entry = found->second.entry;
    return compare.revision == (compare.of == kv::Compare::Of::kCreated ? entry.created : entry.changed);
  }
  void Sweep() {
    const auto gone = std::erase_if(
        entries_, [&](const auto& one) { return one.second.lease != 0 && !leases_.contains(one.second.lease); });
    if (gone > 0) ++revision_;
  }

  kv::Revision revision_ = 1;
  std::map<std::string, Stored> entries_;
  std::map<kv::LeaseId, Lease> leases_;
};

}  // namespace ringway::sim
