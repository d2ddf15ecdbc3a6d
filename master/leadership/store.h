// The store of the masters: the records of the groups, the term, and who leads. A file of one process
// (master/shell/journal.h), or etcd, which any number of masters share (master/shell/etcd_store.h).
//
//   Start --> standby --OnLead--> leads: Write, Write ... --OnStandby--> standby ...
//
// Guarantees: a term is higher than all before it. What Write acknowledged is what every later tenure begins with, and
// a write of an earlier tenure has no effect, whenever it arrives. So a master that was paused, cut off or slow decides
// nothing: each change is written before anybody hears of it.
//
// Threads: one, the sink's. Errors: a Write that failed may be repeated, with what is to be written by then.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "master/coordination/group_record.pb.h"
#include "proto/result.h"

namespace ringway {

// What a leading master begins with.
struct Tenure {
  std::uint32_t term = 0;
  std::vector<record::Group> groups = {};
};

class StoreSink {
 public:
  virtual ~StoreSink() = default;
  // This master leads from now on.
  virtual void OnLead(Tenure tenure) = 0;
  // This master stands by, from now on or still. `leader`: the address of the one that leads; empty: none is known.
  // `why`: why it leads no more; Ok if it did not lead.
  virtual void OnStandby(const std::string& leader, const Status& why) = 0;
  // The outcome of a Write that returned nothing. Not called once the tenure is over.
  virtual void OnWritten(const Status& status) = 0;
};

class Store {
 public:
  virtual ~Store() = default;

  // Seeks to lead until the end. To be called once; `sink` outlives the store.
  virtual void Start(StoreSink* sink) = 0;
  // Replaces the records of these groups; one without members is deleted. Returns the outcome, or nothing if OnWritten
  // will. REQUIRES: leads, and no Write is pending.
  virtual std::optional<Status> Write(const std::vector<record::Group>& groups) = 0;
  // Returns Ok if the store works, as far as is known. To be called now and then; returns at once.
  virtual Status Check() = 0;
  // Where it is, for people: a path or an address.
  virtual std::string Place() const = 0;
};

}  // namespace ringway
