#include "master/verdicts.h"

#include <ringway/types.h>

namespace ringway {
namespace {

// What all reports say about one operation.
struct Evidence {
  const control::OpReport* outcome = nullptr;  // of a member that holds it
  const control::OpReport* other = nullptr;    // one that contradicts it
  std::string mismatch;
  bool cancel = false;
};

bool SameOutcome(const control::OpReport& a, const control::OpReport& b) {
  return a.code() == b.code() && (a.code() != 0 || a.result_epoch() == b.result_epoch());
}

std::map<OpName, Evidence> Gather(const std::map<PeerId, control::Report>& reports) {
  std::map<OpName, Evidence> out;
  for (const auto& [peer, report] : reports) {
    for (const control::OpReport& op : report.ops()) {
      Evidence& evidence = out[OpName{ChannelId(op.channel()), op.seq()}];
      if (op.stage() != control::OP_STAGE_RUNNING) {
        if (evidence.outcome == nullptr) {
          evidence.outcome = &op;
        } else if (!SameOutcome(*evidence.outcome, op)) {
          evidence.other = &op;
        }
      }
      if (evidence.mismatch.empty()) evidence.mismatch = op.mismatch();
      evidence.cancel = evidence.cancel || op.cancel();
    }
  }
  return out;
}

bool Holds(const control::Report& report, const OpName& name) {
  for (const control::ChannelSeq& finished : report.finished_upto()) {
    if (finished.channel() == name.channel.value && finished.seq() >= name.seq) return true;
  }
  for (const control::OpReport& op : report.ops()) {
    if (op.channel() == name.channel.value && op.seq() == name.seq) return op.stage() != control::OP_STAGE_RUNNING;
  }
  return false;
}

void Fail(control::Verdict& verdict, Code code, const std::string& text) {
  verdict.set_code(static_cast<std::uint32_t>(code));
  verdict.set_text(text);
}

}  // namespace

std::vector<control::Verdict> DecideVerdicts(const std::map<PeerId, control::Report>& reports,
                                             const VerdictOptions& options) {
  std::vector<control::Verdict> out;
  for (const auto& [name, evidence] : Gather(reports)) {
    control::Verdict verdict;
    verdict.set_channel(name.channel.value);
    verdict.set_seq(name.seq);
    if (evidence.other != nullptr) {
      Fail(verdict, Code::kInternal,
           "members hold two outcomes of operation " + ToString(name) + ": of epochs " +
               ToString(Epoch(evidence.outcome->result_epoch())) + " and " +
               ToString(Epoch(evidence.other->result_epoch())));
    } else if (evidence.outcome != nullptr) {
      verdict.set_code(evidence.outcome->code());
      verdict.set_text(evidence.outcome->text());
      verdict.set_result_epoch(evidence.outcome->result_epoch());
      *verdict.mutable_contributors() = evidence.outcome->contributors();
      verdict.set_prepared_epoch(evidence.outcome->prepared_epoch());
      for (const auto& [peer, report] : reports) {
        if (Holds(report, name)) verdict.add_holders(peer.value);
      }
    } else if (!evidence.mismatch.empty()) {
      Fail(verdict, Code::kMismatch, evidence.mismatch);
    } else if (evidence.cancel) {
      Fail(verdict, Code::kCancelled, "all ranks gave operation " + ToString(name) + " up");
    } else if (options.fail_on_peer_loss && options.peers_lost) {
      Fail(verdict, Code::kPeerLost, "lost " + options.lost_names + " during operation " + ToString(name));
    } else {
      continue;
    }
    out.push_back(std::move(verdict));
  }
  return out;
}

}  // namespace ringway
