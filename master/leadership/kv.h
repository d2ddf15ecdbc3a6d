// Requests to a store of keys that several processes share, with the semantics of etcd: each change has a revision,
// which only grows; a transaction is atomic; a key that was put under a lease goes when the lease ends.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "proto/result.h"

namespace ringway::kv {

// 0: none.
using Revision = std::int64_t;
using LeaseId = std::int64_t;

struct Entry {
  std::string key, value;
  Revision created = 0;  // of the change that put it when it did not exist
  Revision changed = 0;  // of its last change
};

// Holds if the key's revision is this one; 0: the key does not exist.
struct Compare {
  enum class Of : std::uint8_t { kCreated, kChanged };
  std::string key;
  Of of = Of::kCreated;
  Revision revision = 0;
};

struct Put {
  std::string key, value;
  LeaseId lease = 0;
};

// Carries out the changes if all comparisons hold, else none. Reads the keys of `get` where it carries out nothing.
struct Transact {
  std::vector<Compare> compare = {};
  std::vector<Put> puts = {};
  std::vector<std::string> erase = {};
  std::vector<std::string> get = {};
};

// All entries.
struct List {};

// Under an id that the caller has chosen.
struct Grant {
  LeaseId lease = 0;
  std::int64_t seconds = 0;
};
struct Renew {
  LeaseId lease = 0;
};
struct Revoke {
  LeaseId lease = 0;
};

struct Request {
  std::uint64_t number = 0;  // of the sender; the reply has it
  std::variant<Transact, List, Grant, Renew, Revoke> what = {};
};

struct Reply {
  std::uint64_t number = 0;
  Status status = {};      // not Ok: nobody knows whether the request was carried out, or will be
  bool succeeded = false;  // the comparisons held; the lease exists
  Revision revision = 0;   // of the store when it was carried out: that of the change, if it was one
  std::vector<Entry> entries = {};
};

}  // namespace ringway::kv
