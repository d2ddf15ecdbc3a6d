#include "tests/sim/checker.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tests/sim/oracle.h"

namespace ringway::sim {
namespace {

std::string Describe(const Outcome& outcome) {
  std::string out = NameOf(outcome.code);
  if (outcome.code != Code::kOk) return out + " (" + outcome.text + ")";
  out += " of epoch " + ToString(outcome.epoch) + " from";
  for (const PeerId peer : outcome.contributors) out += " " + ToString(peer);
  return out + (outcome.update_waits ? ", a view waits" : "");
}

// The same bytes at all ranks.
bool IsShared(const Outcome& outcome) { return IsTheSameOnAll(outcome.descriptor.kind); }

bool IsAbsent(PeerId peer, const Outcome& outcome) {
  const auto place =
      std::find(outcome.contributors.begin(), outcome.contributors.end(), peer) - outcome.contributors.begin();
  return place < 64 && (outcome.absent >> place & 1) != 0;
}

bool Contains(const std::vector<PeerId>& peers, PeerId peer) {
  return std::find(peers.begin(), peers.end(), peer) != peers.end();
}

}  // namespace

void Checker::OnReported(PeerId peer, const OpName& op, Outcome outcome) {
  if (judges_) Judge(peer, op, outcome);
  outcomes_[peer][op] = std::move(outcome);
}

void Checker::Judge(PeerId peer, const OpName& op, const Outcome& outcome) {
  const std::string who = "peer " + ToString(peer) + ", operation " + ToString(op) + ": ";
  if (outcomes_[peer].contains(op)) Fail(who + "reported twice");
  if (outcome.code == Code::kInternal) Fail(who + "internal error: " + outcome.text);
  if (outcome.code == Code::kOk && outcome.descriptor.kind != OpKind::kUpdateView) {
    JudgeAbsent(who, outcome);
    if (!Contains(outcome.contributors, peer)) Fail(who + "a result without the own input: " + Describe(outcome));
    // Only the first of equal results is worth computing.
    const PeerId whose = IsShared(outcome) ? PeerId() : peer;
    std::vector<std::byte>& right = right_[{op, outcome.epoch, outcome.contributors, whose}];
    if (!outcome.scribbled && (right.empty() || right != outcome.result)) {
      const std::string wrong =
          WhyWrong(outcome.result, op, outcome.descriptor, outcome.contributors, peer, outcome.root, outcome.absent);
      if (!wrong.empty()) Fail(who + wrong + " in " + Describe(outcome));
      right = outcome.result;
    }
  }
}

// As many are in as the quorum asks for, or those that the operation is not without.
void Checker::JudgeAbsent(const std::string& who, const Outcome& outcome) {
  const auto world = static_cast<std::uint32_t>(outcome.contributors.size());
  const auto inputs = world - static_cast<std::uint32_t>(std::popcount(outcome.absent));
  if (const PeerId from = outcome.descriptor.without_from(); from != PeerId()) {
    std::uint64_t absent = 0;
    for (std::uint32_t rank = 0; rank < world; ++rank)
      absent |= std::uint64_t{outcome.contributors[rank] >= from ? 1U : 0U} << rank;
    if (inputs == 0) Fail(who + "a result without any input");
    if (outcome.absent != absent) Fail(who + "a result of other inputs than it is to have");
    return;
  }
  if (outcome.absent == 0) return;
  if (outcome.descriptor.quorum == 0) Fail(who + "a result without all inputs, and without a quorum");
  if (inputs < Quorum{outcome.descriptor.quorum}.Of(world))
    Fail(who + "a result of " + std::to_string(inputs) + " inputs");
}

void Checker::OnView(PeerId peer, const std::string& group, Epoch epoch, std::vector<PeerId> members) {
  first_view_.try_emplace(peer, epoch);
  if (judges_ && epoch <= promised_[peer])
    Fail("peer " + ToString(peer) + " installs epoch " + ToString(epoch) + " against its word");
  const auto [known, is_new] = views_.try_emplace({group, epoch}, members);
  if (judges_ && !is_new && known->second != members)
    Fail("two views of group " + group + " with epoch " + ToString(epoch));
}

const std::map<OpName, Outcome>& Checker::OutcomesOf(PeerId peer) const {
  static const std::map<OpName, Outcome> kNone;
  const auto found = outcomes_.find(peer);
  return found == outcomes_.end() ? kNone : found->second;
}

std::string Checker::Compare(PeerId a, PeerId b, const OpName& op) const {
  const Outcome& one = OutcomesOf(a).at(op);
  const auto found = OutcomesOf(b).find(op);
  const std::string who =
      "operation " + ToString(op) + ": peer " + ToString(a) + " got " + Describe(one) + ", peer " + ToString(b) + " ";
  if (found == OutcomesOf(b).end()) return who + "nothing";
  const Outcome& other = found->second;
  const bool same_success = one.epoch == other.epoch && one.contributors == other.contributors &&
                            one.absent == other.absent && one.weight == other.weight &&
                            one.update_waits == other.update_waits;
  if (one.code != other.code || (one.code == Code::kOk && !same_success)) return who + Describe(other);
  const bool judged = one.code == Code::kOk && IsShared(one) && !one.scribbled && !other.scribbled;
  if (judged && one.result != other.result) return who + "other bytes";
  if (one.code == Code::kOk && one.next != other.next) return who + "the same, but is out of step";
  return "";
}

// An UpdateView names the members of the view it adopted; the newcomers among them had no part in it.
bool Checker::TookPart(PeerId peer, const Outcome& success) const {
  if (!Contains(success.contributors, peer)) return false;
  return success.descriptor.kind != OpKind::kUpdateView || first_view_.at(peer) < success.epoch;
}

std::string Checker::WhyBroken(const std::vector<PeerId>& stayed) const {
  for (const auto& [teller, outcomes] : outcomes_) {
    const bool teller_stayed = Contains(stayed, teller);
    for (const auto& [op, outcome] : outcomes) {
      const bool ok = outcome.code == Code::kOk;
      const bool large = outcome.descriptor.kind == OpKind::kUpdateView || !IsShared(outcome) ||
                         HasRoot(outcome.descriptor.kind) || outcome.result.size() > retained_bytes_max_;
      if (!teller_stayed && !(ok && large)) continue;
      for (const PeerId other : stayed) {
        if (!(ok ? TookPart(other, outcome) : OutcomesOf(other).contains(op))) continue;
        if (IsAbsent(other, outcome) && !OutcomesOf(other).contains(op)) continue;  // an UpdateView has skipped it
        if (std::string why = Compare(teller, other, op); !why.empty()) return why;
      }
    }
  }
  return "";
}

}  // namespace ringway::sim
