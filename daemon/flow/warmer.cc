#include "daemon/flow/warmer.h"

#include <algorithm>

#include "proto/check.h"
#include "proto/lane_roles.h"

namespace ringway::flow {

void Warmer::Know(PeerId other, const std::string& host, std::uint64_t bytes, Duration round_trip) {
  if (host.empty() || bytes == 0 || round_trip < kNearby) return;
  paths_.try_emplace(other, Path{.host = host, .bytes_max = std::min(bytes, kBytesMax)});
}

void Warmer::Forget(PeerId other) {
  paths_.erase(other);
  std::erase(waiting_, other);
  if (warming_ == other) warming_.reset();
}

void Warmer::Begin(PeerId other, Duration later, TimePoint now) {
  const auto found = paths_.find(other);
  const bool waits = std::find(waiting_.begin(), waiting_.end(), other) != waiting_.end();
  if (found == paths_.end() || warming_ == other || waits) return;
  found->second.begins_at = now + later;
  waiting_.push_back(other);
  BeginNext(now);
}

void Warmer::BeginNext(TimePoint now) {
  while (!warming_ && !waiting_.empty() && paths_.at(waiting_.front()).is_warm()) waiting_.pop_front();
  if (warming_ || waiting_.empty()) return;
  Path& path = paths_.at(waiting_.front());
  if (now < path.begins_at) return;
  path.bytes_left = path.bytes_max;
  path.until = now + kTimeMax;
  path.growth = {};
  warming_ = waiting_.front();
  waiting_.pop_front();
}

void Warmer::End(TimePoint now) {
  warming_.reset();
  BeginNext(now);
}

void Warmer::Stop() {
  warming_.reset();
  waiting_.clear();
}

std::uint32_t Warmer::Take(PeerId other, std::uint32_t bytes_max, TimePoint now) {
  RINGWAY_CHECK(warming_ == other);
  Path& path = paths_.at(other);
  const std::uint64_t allowed = std::min(path.bytes_left, book_->WarmAllowance(path.host, now));
  const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(allowed, bytes_max));
  path.bytes_left -= bytes;
  book_->SpendWarming(path.host, bytes, now);
  if (bytes == 0) End(now);
  return bytes;
}

void Warmer::OnSamples(std::span<const PathSample> samples, TimePoint now) {
  for (const PathSample& sample : samples) {
    const auto found = paths_.find(sample.other);
    if (found == paths_.end()) continue;
    Path& path = found->second;
    path.carried = sample.carried;
    if (warming_ != sample.other) continue;
    path.growth.Add(now, sample.traffic.delivered, sample.round_trip);
    if (path.growth.flat() > 0) path.enough = std::min(path.enough, path.carried);
    if (path.is_warm()) End(now);
  }
}

bool Warmer::has_warm() const {
  return std::any_of(paths_.begin(), paths_.end(), [](const auto& entry) { return entry.second.is_warm(); });
}

void Warmer::Tick(TimePoint now) {
  if (warming_ && now >= paths_.at(*warming_).until) warming_.reset();
  BeginNext(now);
}

}  // namespace ringway::flow
