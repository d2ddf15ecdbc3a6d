#include "tests/chaos/checker.h"

#include <algorithm>
#include <optional>

namespace ringway::chaos {
namespace {

// Null: the same outcome.
const char* Difference(const Record& one, const Record& other) {
  if (one.code != other.code) return "another outcome";
  if (one.code != Code::kOk) return nullptr;
  if (one.epoch != other.epoch) return "another epoch";
  if (one.contributors != other.contributors || one.absent != other.absent) return "other contributors";
  return one.hash != other.hash ? "other bytes" : nullptr;
}

}  // namespace

void Checker::Add(const Record& record) {
  switch (record.kind) {
    case RecordKind::kJoin:
      ++tally_.memberships;
      if (!peers_.insert(record.peer).second) Violated(record, "a peer id was given twice");
      return;
    case RecordKind::kEnd:
      if (record.code != Code::kOk) ++tally_.codes[record.code];
      ended_.insert(record.peer);
      return;
    case RecordKind::kOp:
      return AddOp(record);
  }
}

void Checker::AddOp(const Record& record) {
  ++tally_.outcomes;
  ++tally_.codes[record.code];
  times_ms_.insert(record.time_ms);
  CheckAlone(record);
  if (record.code == Code::kDeviceFailed)
    return;  // of this rank alone: its cancellation, or success, was reported to the others
  std::vector<Reported>& reported = reported_[record.name];
  if (reported.empty()) ++tally_.operations;
  const bool known =
      std::any_of(reported.begin(), reported.end(), [](const Reported& one) { return one.outcome.code == Code::kOk; });
  if (record.code == Code::kOk && !known) ++tally_.succeeded;
  const auto same = std::find_if(reported.begin(), reported.end(),
                                 [&](const Reported& other) { return Difference(other.outcome, record) == nullptr; });
  if (same == reported.end()) {
    reported.push_back({record, {record.peer}});
  } else {
    same->peers.push_back(record.peer);
  }
}

void Checker::CheckAlone(const Record& record) {
  if (!peers_.contains(record.peer)) Violated(record, "an outcome without a membership");
  if (!record.intact) Violated(record, "the input was written to");
  if (record.code != Code::kOk) return;
  if (record.retries > 0) ++tally_.retried;
  const std::vector<std::uint64_t> members = MembersOf(record);
  const bool is_late = std::count(record.absent.begin(), record.absent.end(), record.peer) > 0;
  if (is_late) ++tally_.late;
  ++tally_.worlds[members.size()];
  if (record.wrong > 0) Violated(record, std::to_string(record.wrong) + " wrong elements");
  if (std::count(members.begin(), members.end(), record.peer) != 1) Violated(record, "its own input is not in it once");
  if (std::set(members.begin(), members.end()).size() != members.size()) Violated(record, "an input is in it twice");
  if (2 * record.absent.size() > members.size()) Violated(record, "it lacks more than half of the inputs");
  // A step begins when the one before is over; within one, channels are independent.
  Progress& progress = progress_[record.peer];
  if (const OpName step{record.name.life, record.name.step, 0}; progress.step != step) {
    progress.step = step;
    progress.newest_before = progress.newest;
  }
  if (record.epoch < progress.newest_before) Violated(record, "an epoch older than of the step before");
  progress.newest = std::max(progress.newest, record.epoch);
  std::uint64_t& end = life_ends_[record.name.life];
  end = std::max(end, record.epoch);
}

bool Checker::Excused(const Reported& gone, const Reported& stood) const {
  if (gone.outcome.code == Code::kOk) {
    if (gone.outcome.bytes > kSmallBytesMax) return false;
    if (stood.outcome.code == Code::kOk && stood.outcome.epoch < gone.outcome.epoch) return false;
  }
  const std::vector<std::uint64_t> from = MembersOf(stood.outcome);
  return std::all_of(gone.peers.begin(), gone.peers.end(), [&](std::uint64_t peer) {
    return ended_.contains(peer) && std::find(from.begin(), from.end(), peer) == from.end();
  });
}

void Checker::Finish() {
  for (const auto& [name, reported] : reported_) {
    for (std::size_t i = 0; i < reported.size(); ++i) {
      for (std::size_t j = i + 1; j < reported.size(); ++j) {
        if (Excused(reported[i], reported[j]) || Excused(reported[j], reported[i])) {
          ++tally_.excused;
        } else {
          Violated(reported[j].outcome, std::string(Difference(reported[i].outcome, reported[j].outcome)) +
                                            ", unlike peer " + std::to_string(reported[i].outcome.peer));
        }
      }
    }
  }
  CheckLives();
  std::optional<std::uint64_t> before;
  for (const std::uint64_t time_ms : times_ms_) {
    if (before.has_value()) tally_.longest_gap_ms = std::max(tally_.longest_gap_ms, time_ms - *before);
    before = time_ms;
  }
}

// Two groups of one name at the same time would be two lives whose epochs interleave.
void Checker::CheckLives() {
  tally_.lives = life_ends_.size();
  std::optional<std::uint64_t> end;
  for (const auto& [life, newest] : life_ends_) {
    if (end.has_value() && life <= *end) {
      ++violation_count_;
      violations_.push_back("life " + std::to_string(life) + " begins before epoch " + std::to_string(*end) +
                            " of the life before it: two groups of one name at once");
    }
    end = newest;
  }
}

void Checker::Violated(const Record& record, const std::string& what) {
  ++violation_count_;
  if (violations_.size() >= kViolationsMax) return;
  std::string line = Format(record);
  line.pop_back();
  violations_.push_back(what + ": " + line);
}

}  // namespace ringway::chaos
