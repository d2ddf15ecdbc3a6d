#include "daemon/agreement/stragglers.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ringway::agreement {
namespace {

std::uint64_t NextOf(const ChannelSeqs& seqs, ChannelId channel) {
  const auto found = seqs.find(channel);
  return found == seqs.end() ? 0 : found->second;
}

}  // namespace

std::uint64_t Progress::total() const {
  return std::accumulate(next.begin(), next.end(), messages,
                         [](std::uint64_t sum, const auto& entry) { return sum + entry.second; });
}

void Stragglers::OnStop(TimePoint now) {
  if (!stopped_) stopped_ = now;
}

void Stragglers::OnView(const View& view, TimePoint now) {
  if (std::erase_if(ranks_, [&](const auto& entry) { return !view.Contains(entry.first); }) > 0) BeginAnew(now);
  for (auto& [id, rank] : ranks_) {
    if (stopped_ && rank.lags_since) rank.lags_since = std::min(now, *rank.lags_since + (now - *stopped_));
  }
  stopped_.reset();
}

void Stragglers::BeginAnew(TimePoint now) {
  for (auto& [id, rank] : ranks_) {
    if (rank.lags_since) rank.lags_since = now;
  }
}

void Stragglers::Heard(PeerId from, Progress theirs, const ChannelSeqs& own, bool awaited, TimePoint now) {
  Rank& rank = ranks_[from];
  const bool moved = theirs.runs || theirs != rank.progress;
  rank.progress = std::move(theirs);
  const auto is_ahead = [&](const auto& entry) { return entry.second > NextOf(rank.progress.next, entry.first); };
  if (!awaited && std::none_of(own.begin(), own.end(), is_ahead)) {
    rank.lags_since.reset();
  } else if (moved || !rank.lags_since) {
    rank.lags_since = now;
  }
}

bool Stragglers::Rank::Has(const OpName& op) const { return NextOf(progress.next, op.channel) > op.seq; }

bool Stragglers::AllHave(const OpName& op) const {
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) { return entry.second.Has(op); });
}

bool Stragglers::Has(PeerId rank, const OpName& op) const {
  const auto found = ranks_.find(rank);
  return found != ranks_.end() && found->second.Has(op);
}

bool Stragglers::HoldsUp(PeerId rank, Duration limit, TimePoint now) const {
  const auto found = ranks_.find(rank);
  return found != ranks_.end() && found->second.lags_since && now - *found->second.lags_since >= limit;
}

bool Stragglers::HoldsUp(const OpName& op, PeerId rank, Duration limit, TimePoint now) const {
  return HoldsUp(rank, limit, now) && !Has(rank, op);
}

Progress Stragglers::ProgressOf(PeerId rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? Progress() : found->second.progress;
}

}  // namespace ringway::agreement
