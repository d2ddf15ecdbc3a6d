#include "master/coordination/verdicts.h"

#include <ringway/types.h>

#include <algorithm>
#include <set>
#include <utility>

#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway {
namespace {

constexpr std::size_t kTextBytesMax = 512;

// The reports about one operation.
struct Evidence {
  const control::OpReport* outcome = nullptr;  // of a member that holds it
  const control::OpReport* other = nullptr;    // one that contradicts it
  const control::OpReport* part = nullptr;     // of a member that has its own part of a result in parts
  std::set<PeerId> parts;                      // members that have theirs, in the same epoch
  std::set<PeerId> holders;
  std::string mismatch;
  std::string partner_lost;
  bool cancel = false;
  std::string overdue;
  bool only_updates = true;  // it is an UpdateView wherever it was submitted
};

bool SameOutcome(const control::OpReport& a, const control::OpReport& b) {
  return a.code() == b.code() && (a.code() != 0 || a.result_epoch() == b.result_epoch());
}

std::map<OpName, Evidence> Gather(const std::map<PeerId, control::Report>& reports) {
  std::map<OpName, Evidence> out;
  for (const auto& [peer, report] : reports) {
    for (const control::OpReport& op : report.ops()) {
      Evidence& evidence = out[OpName{ChannelId(op.channel()), op.seq()}];
      if (op.stage() == control::OP_STAGE_PART) {
        if (evidence.part == nullptr) evidence.part = &op;
        if (SameOutcome(*evidence.part, op)) evidence.parts.insert(peer);
      } else if (op.stage() != control::OP_STAGE_RUNNING) {
        evidence.holders.insert(peer);
        if (evidence.outcome == nullptr) {
          evidence.outcome = &op;
        } else if (!SameOutcome(*evidence.outcome, op)) {
          evidence.other = &op;
        }
      }
      if (evidence.mismatch.empty()) evidence.mismatch = op.mismatch();
      if (evidence.partner_lost.empty()) evidence.partner_lost = op.partner_lost();
      evidence.cancel = evidence.cancel || op.cancel();
      evidence.only_updates = evidence.only_updates && op.update_view();
      if (evidence.overdue.empty()) evidence.overdue = op.overdue();
    }
  }
  for (const auto& [peer, report] : reports) {
    std::map<ChannelId, std::uint64_t> finished;
    for (const control::ChannelSeq& upto : report.finished_upto()) {
      std::uint64_t& seq = finished[ChannelId(upto.channel())];
      seq = std::max(seq, upto.seq());
    }
    for (const control::SeqRange& beyond : report.finished_beyond()) {
      const ChannelId channel(beyond.channel());
      for (auto it = out.lower_bound({channel, beyond.first()}); it != out.end(); ++it) {
        if (it->first > OpName{channel, beyond.last()}) break;
        RINGWAY_REACHED(kHolderIsDoneBeyond);
        it->second.holders.insert(peer);
      }
    }
    for (auto& [name, evidence] : out) {
      const auto upto = finished.find(name.channel);
      if (upto == finished.end() || upto->second < name.seq) continue;
      RINGWAY_REACHED(kHolderIsDone);
      evidence.holders.insert(peer);
    }
  }
  return out;
}

// A result in parts is complete if all members that stay have theirs.
void CompleteParts(Evidence& evidence, std::size_t members) {
  std::set<PeerId> all = evidence.holders;
  all.insert(evidence.parts.begin(), evidence.parts.end());
  const bool complete = all.size() >= members || RINGWAY_MUTANT(kCommitOnePart);
  if (evidence.outcome != nullptr || evidence.part == nullptr || !complete || RINGWAY_MUTANT(kRetryParts)) return;
  RINGWAY_REACHED(kCommitParts);
  evidence.outcome = evidence.part;
  evidence.holders = std::move(all);
}

std::string Described(const control::OpReport& outcome) {
  if (outcome.code() == 0) return "a result of epoch " + ToString(Epoch(outcome.result_epoch()));
  return std::string("the error ") + NameOf(CodeFromWire(outcome.code()));
}

void Fail(control::Verdict& verdict, Code code, const std::string& text) {
  verdict.set_code(static_cast<std::uint32_t>(code));
  verdict.set_text(ClipText(text));
}

}  // namespace

std::string ClipText(const std::string& text) {
  if (text.size() <= kTextBytesMax) return text;
  std::size_t end = kTextBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // to a character boundary
  return text.substr(0, end);
}

std::vector<control::Verdict> DecideVerdicts(const std::map<PeerId, control::Report>& reports,
                                             const VerdictOptions& options) {
  std::vector<control::Verdict> out;
  for (auto& [name, evidence] : Gather(reports)) {
    CompleteParts(evidence, reports.size());
    control::Verdict verdict;
    verdict.set_channel(name.channel.value);
    verdict.set_seq(name.seq);
    if (evidence.other != nullptr) {
      RINGWAY_REACHED(kTwoOutcomes);
      Fail(verdict, Code::kInternal,
           "members hold two outcomes of operation " + ToString(name) + ": " + Described(*evidence.outcome) + " and " +
               Described(*evidence.other));
    } else if (evidence.outcome != nullptr && !RINGWAY_MUTANT(kRetryWhatIsHeld)) {
      RINGWAY_REACHED_IF(evidence.outcome->code() == 0, kCommitResult);
      RINGWAY_REACHED_IF(evidence.outcome->code() != 0, kCommitFailure);
      verdict.set_code(evidence.outcome->code());
      verdict.set_text(ClipText(evidence.outcome->text()));
      verdict.set_result_epoch(evidence.outcome->result_epoch());
      *verdict.mutable_contributors() = evidence.outcome->contributors();
      if (RINGWAY_MUTANT(kWrongContributors)) {
        verdict.clear_contributors();
        for (const auto& [peer, report] : reports) verdict.add_contributors(peer.value);
      }
      verdict.set_prepared_epoch(evidence.outcome->prepared_epoch());
      verdict.set_absent(evidence.outcome->absent());
      verdict.set_weight(evidence.outcome->weight());
      for (const PeerId peer : evidence.holders) verdict.add_holders(peer.value);
    } else if (!evidence.mismatch.empty()) {
      RINGWAY_REACHED(kMismatch);
      Fail(verdict, Code::kMismatch, evidence.mismatch);
    } else if (!evidence.partner_lost.empty()) {
      RINGWAY_REACHED(kPartnerLost);
      Fail(verdict, Code::kPeerLost, "operation " + ToString(name) + ": " + evidence.partner_lost);
    } else if (evidence.cancel) {
      RINGWAY_REACHED(kCancelled);
      Fail(verdict, Code::kCancelled, "all ranks gave operation " + ToString(name) + " up");
    } else if (!evidence.overdue.empty()) {
      RINGWAY_REACHED(kOverdue);
      Fail(verdict, Code::kDeadline, evidence.overdue);
    } else if (!options.peer_lost.ok()) {
      RINGWAY_REACHED(kFailOnLoss);
      Fail(verdict, options.peer_lost.code(), options.peer_lost.text() + " during operation " + ToString(name));
    } else if (!options.too_small.ok() && !evidence.only_updates) {
      RINGWAY_REACHED(kTooSmall);
      Fail(verdict, options.too_small.code(), options.too_small.text());
    } else {
      RINGWAY_REACHED(kRetry);
      continue;
    }
    out.push_back(std::move(verdict));
  }
  return out;
}

void SetNextSequences(const std::map<PeerId, control::Report>& reports, const control::View& base,
                      control::View* next) {
  Epoch newest;
  for (const auto& [peer, report] : reports) {
    for (const control::OpReport& op : report.ops()) {
      if (!op.update_view() || op.stage() == control::OP_STAGE_RUNNING || op.code() != 0) continue;
      if (op.next_seq().empty() || Epoch(op.prepared_epoch()) < newest) continue;
      newest = Epoch(op.prepared_epoch());
      *next->mutable_next_seq() = op.next_seq();
    }
  }
  // If none of them stays, another newcomer may have begun there. Or a newcomer was frozen before it could install the
  // view that says so: the channels have not advanced without it, for outcomes are reported until it acknowledges them.
  for (const auto& [peer, report] : reports) {
    if (next->next_seq().empty() && report.epoch() == base.epoch()) *next->mutable_next_seq() = report.began();
  }
  if (next->next_seq().empty()) *next->mutable_next_seq() = base.next_seq();
}

}  // namespace ringway
