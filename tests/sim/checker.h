// What the simulation holds the cluster to, as it happens and at the end.
//
// At once: no operation is told twice; a result is what the collective makes of its contributors' inputs, the teller's
// among them;
// an epoch has one list of members; nobody installs a view that it has reported to be done with. At the end, the
// promise: whatever one of those that stayed was told, and whatever success of a large operation anybody was told,
// every contributor that stayed was told too, byte for byte; and an UpdateView leaves them all at the same sequence
// numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "proto/ids.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::sim {

// What a trainer was told.
struct Outcome {
  Code code = Code::kOk;
  std::string text;
  Epoch epoch;
  std::vector<PeerId> contributors;
  std::uint32_t retries = 0;
  bool update_waits = false;
  std::vector<std::byte> result;  // what this rank holds of it
  Descriptor descriptor;
  std::vector<std::uint64_t> next;  // of an UpdateView: the sequence numbers of the first channels after it
  bool scribbled = false;           // its own trainer has written to the result: who knows what it holds
};

class Checker {
 public:
  explicit Checker(std::uint64_t retained_bytes_max) : retained_bytes_max_(retained_bytes_max) {}

  void OnTold(PeerId peer, const OpName& op, Outcome outcome);
  // `peer` reports to the master that it is done with every view up to `stop`.
  void OnPromise(PeerId peer, Epoch stop) { promised_[peer] = std::max(promised_[peer], stop); }
  // `peer` is in this view now.
  void OnView(PeerId peer, const std::string& group, Epoch epoch, std::vector<PeerId> members);
  void Fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }

  // The first broken rule; empty if none was.
  const std::string& failure() const { return failure_; }
  const std::map<OpName, Outcome>& OutcomesOf(PeerId peer) const;
  using Views = std::map<std::pair<std::string, Epoch>, std::vector<PeerId>>;
  const Views& views() const { return views_; }
  // How the promise is broken to those that stayed, members of one group; empty if it is kept.
  std::string WhyBroken(const std::vector<PeerId>& stayed) const;

 private:
  // Whether `peer`, which stayed, must have been told of this success too.
  bool TookPart(PeerId peer, const Outcome& success) const;
  std::string Compare(PeerId a, PeerId b, const OpName& op) const;

  const std::uint64_t retained_bytes_max_;
  std::map<PeerId, std::map<OpName, Outcome>> outcomes_;
  Views views_;
  std::map<PeerId, Epoch> first_view_;
  std::map<PeerId, Epoch> promised_;
  // Results found right, of one peer where they are not the same at all.
  std::map<std::tuple<OpName, Epoch, std::vector<PeerId>, PeerId>, std::vector<std::byte>> right_;
  std::string failure_;
};

}  // namespace ringway::sim
