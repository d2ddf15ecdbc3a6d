// The invariants of the simulated cluster, checked during the run and at its end.
//
// During: no operation is reported twice; a result equals the collective of its contributors' inputs, and the reporting
// peer is one of them; an epoch has one list of members; no peer installs a view at or below its reported stop.
//
// At the end, the promise: an outcome reported to a peer that stayed, or the success of a large operation reported to
// any peer, was reported to every contributor that stayed, byte for byte; and an UpdateView leaves all of them at the
// same sequence numbers.
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

// An outcome as reported to a trainer.
struct Outcome {
  Code code = Code::kOk;
  std::string text;
  Epoch epoch;
  std::vector<PeerId> contributors;
  std::uint32_t retries = 0;
  bool update_waits = false;
  std::vector<std::byte> result;  // this rank's part of it
  Descriptor descriptor;
  PeerId root = PeerId();
  std::vector<std::uint64_t> next;  // of an UpdateView: the sequence numbers of the first channels after it
  bool scribbled = false;           // its own trainer has written to the result, which is then undefined
  std::uint64_t absent = 0;         // contributors, as bits, whose inputs are not in
  double weight = 0;                // of all inputs
};

class Checker {
 public:
  // Without `judges` it records outcomes but does not check them.
  Checker(std::uint64_t retained_bytes_max, bool judges) : retained_bytes_max_(retained_bytes_max), judges_(judges) {}

  void OnReported(PeerId peer, const OpName& op, Outcome outcome);
  // `peer` has reported `stop` to the master: it installs no view up to that one any more.
  void OnPromise(PeerId peer, Epoch stop) { promised_[peer] = std::max(promised_[peer], stop); }
  // `peer` is in this view now.
  void OnView(PeerId peer, const std::string& group, Epoch epoch, std::vector<PeerId> members);
  void Fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }

  // The first violation; empty if there is none.
  const std::string& failure() const { return failure_; }
  const std::map<OpName, Outcome>& OutcomesOf(PeerId peer) const;
  using Views = std::map<std::pair<std::string, Epoch>, std::vector<PeerId>>;
  const Views& views() const { return views_; }
  // Returns how the promise is broken to `stayed`, members of one group; empty if it is kept.
  std::string WhyBroken(const std::vector<PeerId>& stayed) const;

 private:
  void Judge(PeerId peer, const OpName& op, const Outcome& outcome);
  void JudgeAbsent(const std::string& who, const Outcome& outcome);
  // Returns whether this success must have been reported to `peer`, which stayed.
  bool TookPart(PeerId peer, const Outcome& success) const;
  std::string Compare(PeerId a, PeerId b, const OpName& op) const;

  const std::uint64_t retained_bytes_max_;
  const bool judges_;
  std::map<PeerId, std::map<OpName, Outcome>> outcomes_;
  Views views_;
  std::map<PeerId, Epoch> first_view_;
  std::map<PeerId, Epoch> promised_;
  // Results found correct; by peer where ranks have different parts.
  std::map<std::tuple<OpName, Epoch, std::vector<PeerId>, PeerId>, std::vector<std::byte>> right_;
  std::string failure_;
};

}  // namespace ringway::sim
