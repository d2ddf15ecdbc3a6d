// Keeps facts about operations that are not submitted here yet: error verdicts, which end them as soon as they are, and
// who is ready for them, or done.
//
// Verdicts stand in the newest decided view, READYs and DONEs count for the view in force: the next one ends them.
// Bounded by how far ahead of the own submissions a name may be (OpTable::kAheadMax), which the callers check.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "daemon/agreement/view.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/rules.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

class Unsubmitted {
 public:
  using Readies = std::map<PeerId, Descriptor>;

  // A view was decided on: what still counts stands in it.
  void ForgetVerdicts() { verdicts_.clear(); }
  // The channels have moved on to these.
  void ForgetVerdictsBelow(const ChannelSeqs& next) {
    std::erase_if(verdicts_, [&](const auto& entry) {
      const auto seq = next.find(entry.first.channel);
      return seq != next.end() && entry.first.seq < seq->second;
    });
  }
  void OnView() {
    readies_.clear();
    dones_.clear();
  }

  void AddVerdict(const OpName& name, const control::Verdict& verdict) { verdicts_[name] = verdict; }
  void AddReady(const OpName& name, PeerId from, const Descriptor& descriptor) { readies_[name][from] = descriptor; }
  void AddDone(const OpName& name, PeerId from) { dones_[name].insert(from); }

  // The operation is submitted.
  std::optional<control::Verdict> TakeVerdict(const OpName& name) {
    auto verdict = verdicts_.extract(name);
    if (verdict.empty()) return std::nullopt;
    RINGWAY_REACHED(kKeepVerdict);
    return std::move(verdict.mapped());
  }
  // It waits for its inputs, and they stay.
  Readies ReadiesOf(const OpName& name) const {
    const auto found = readies_.find(name);
    return found == readies_.end() ? Readies() : found->second;
  }
  Readies TakeReadies(const OpName& name) {
    RINGWAY_REACHED_IF(readies_.contains(name), kKeepReady);
    return Take(readies_, name);
  }
  std::set<PeerId> TakeDones(const OpName& name) {
    RINGWAY_REACHED_IF(dones_.contains(name), kKeepDone);
    return Take(dones_, name);
  }

  // `next`, raised beyond what has a verdict.
  ChannelSeqs SkipVerdicts(ChannelSeqs next) const {
    for (const auto& [name, verdict] : verdicts_) next[name.channel] = std::max(next[name.channel], name.seq + 1);
    return next;
  }

 private:
  template <typename Value>
  static Value Take(std::map<OpName, Value>& values, const OpName& name) {
    auto value = values.extract(name);
    return value.empty() ? Value() : std::move(value.mapped());
  }

  std::map<OpName, control::Verdict> verdicts_;
  std::map<OpName, Readies> readies_;
  std::map<OpName, std::set<PeerId>> dones_;
};

}  // namespace ringway::agreement
