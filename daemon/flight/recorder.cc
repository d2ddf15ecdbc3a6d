#include "daemon/flight/recorder.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "proto/fixed_text.h"

namespace ringway::flight {
namespace {

// Writes all of it so that whoever finds the memory later knows whether it is whole.
void Write(Record& to, Record from, std::uint64_t number) {
  const std::atomic_ref<std::uint64_t> is_whole(to.number);
  is_whole.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  from.number = 0;
  to = from;
  is_whole.store(number, std::memory_order_release);
}

std::uint32_t Added(std::uint32_t a, std::uint64_t b) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(std::min(kMax, a + b));
}

bool IsWhole(const Record& record, std::uint64_t number) { return record.number == number; }

// What two parts share that are summed up.
auto KeyOf(const Record& record) {
  return std::make_tuple(record.self, record.other, record.epoch, record.seq, record.channel, record.tag, record.step,
                         record.chunk, record.kind);
}

std::uint64_t HashOf(const Record& record) {
  constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15U;
  std::uint64_t hash = record.self * kPrime + record.other;
  hash = hash * kPrime + record.seq;
  hash = hash * kPrime + (std::uint64_t{record.channel} << 32 | record.tag);
  hash = hash * kPrime +
         (std::uint64_t{record.step} << 24 | std::uint64_t{record.chunk} << 8 | static_cast<std::uint8_t>(record.kind));
  return hash * kPrime;
}

// Whether they follow each other so closely that one record may stand for both.
bool Continues(const Record& open, const Record& part) {
  constexpr std::int64_t kWorkPauseUs = 1000;  // slices that others came between are another work
  return part.kind != Kind::kWork || part.at_us - (open.at_us + open.took_us) < kWorkPauseUs;
}

Record Summed(const Record& open, const Record& part) {
  const std::int64_t open_end = open.at_us + open.took_us;
  const std::int64_t part_end = part.at_us + part.took_us;
  const auto since = [](std::int64_t later, std::int64_t before) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(later - before, 0));
  };
  Record sum = open;
  sum.took_us = Added(0, since(std::max(open_end, part_end), open.at_us));
  sum.gap_us = std::max(open.gap_us, Added(0, since(part.at_us, open_end)));
  sum.work_us = Added(open.work_us, part.work_us);
  sum.segments = Added(open.segments, part.segments);
  sum.bytes = open.bytes + part.bytes;
  sum.flags = static_cast<std::uint8_t>(open.flags | part.flags);
  return sum;
}

// Whether it says which operation or message it is of.
bool IsOfOperation(const Record& record) {
  if (record.kind == Kind::kWaits) return (record.flags & kMessage) == 0;
  return record.kind != Kind::kView && record.kind != Kind::kAbort && record.kind != Kind::kWork &&
         record.kind != Kind::kStuck;
}

// What numbers its operations, or messages, one by one.
auto StreamOf(const Record& record) {
  const bool is_message = (record.flags & kMessage) != 0;
  return std::make_tuple(record.self, record.channel, is_message, is_message ? record.other : 0,
                         is_message ? record.tag : 0, (record.flags & kSends) != 0);
}

// The range of its channel; null: there is none.
const Filter::Range* RangeOf(const std::vector<Filter::Range>& ranges, const Record& record) {
  const auto found = std::find_if(ranges.begin(), ranges.end(),
                                  [&](const Filter::Range& range) { return range.channel == record.channel; });
  return found == ranges.end() ? nullptr : &*found;
}

}  // namespace

Recorder::Recorder(std::span<std::byte> memory, const Origin& origin)
    : memory_(memory.first(kBytes)),
      header_(*reinterpret_cast<Header*>(memory.data())),
      names_(reinterpret_cast<Name*>(memory.data() + ImageBytes(0, 0)), kNames),
      records_(reinterpret_cast<Record*>(memory.data() + ImageBytes(kNames, 0)), kRecords) {
  header_.version = kVersion;
  header_.record_bytes = sizeof(Record);
  header_.names_max = kNames;
  header_.records_max = kRecords;
  header_.instance = origin.instance;
  header_.started_us = origin.now.time_since_epoch().count();
  header_.pid = origin.pid;
  SetText(header_.utc, origin.utc);
  SetText(header_.daemon, origin.daemon);
  SetText(header_.site, origin.site);
  std::atomic_ref<std::uint64_t>(header_.magic).store(kMagic, std::memory_order_release);
}

std::size_t Recorder::FindName(PeerId peer) const {
  const auto found =
      std::find_if(names_.begin(), names_.end(), [&](const Name& known) { return known.peer == peer.value; });
  return static_cast<std::size_t>(found - names_.begin());
}

void Recorder::AddSelf(PeerId peer, const std::string& group, const std::string& name) {
  AddName(peer, group, name);
  uses_[FindName(peer)].is_self = true;
}

void Recorder::EndSelf(PeerId peer) {
  if (const std::size_t place = FindName(peer); place < kNames) uses_[place].is_self = false;
}

void Recorder::AddName(PeerId peer, const std::string& group, const std::string& name) {
  std::size_t place = FindName(peer);
  if (place == kNames) {
    place = static_cast<std::size_t>(std::min_element(uses_.begin(), uses_.end()) - uses_.begin());
    uses_[place].is_self = false;
  }
  uses_[place].named = ++names_added_;
  Name& to = names_[place];
  to.peer = 0;
  SetText(to.group, group);
  SetText(to.name, name);
  std::atomic_ref<std::uint64_t>(to.peer).store(peer.value, std::memory_order_release);
}

void Recorder::Add(const Record& record) {
  ++newest_;
  Write(Place(newest_), record, newest_);
}

void Recorder::AddPart(const Record& part) {
  const std::uint64_t hash = HashOf(part);
  Open& known = open_[(hash >> 32) % open_.size()];
  if (known.number != 0 && known.hash == hash) {
    Record& open = Place(known.number);
    if (IsWhole(open, known.number) && KeyOf(open) == KeyOf(part) && Continues(open, part))
      return Write(open, Summed(open, part), known.number);
  }
  Add(part);
  known = {.hash = hash, .number = newest_};
}

std::uint64_t Recorder::OldestNumber() const { return newest_ < records_.size() ? 1 : newest_ - records_.size() + 1; }

std::string Recorder::Image(const Filter& filter) const {
  std::set<std::uint64_t> peers;
  std::vector<const Name*> names;
  for (const Name& name : names_) {
    if (name.peer == 0 || (!filter.group.empty() && filter.group != name.group)) continue;
    names.push_back(&name);
    peers.insert(name.peer);
  }
  const std::uint64_t names_bytes = ImageBytes(static_cast<std::uint32_t>(names.size()), 0);
  const std::uint64_t count_max = (std::max(filter.bytes_max, names_bytes) - names_bytes) / sizeof(Record);
  std::map<decltype(StreamOf(Record())), std::set<std::uint64_t>> newest;
  Header header = header_;
  std::vector<const Record*> kept;
  bool are_all_old = false;  // what belongs to no operation is kept as far back as those are
  for (std::uint64_t number = newest_; newest_ != 0 && number >= OldestNumber(); --number) {
    const Record& record = Place(number);
    if (!IsWhole(record, number) || (!filter.group.empty() && !peers.contains(record.self))) continue;
    const bool is_by_number = !filter.only.empty() && IsOfOperation(record) && (record.flags & kMessage) == 0;
    if (is_by_number) {
      const Filter::Range* const range = RangeOf(filter.only, record);
      if (range == nullptr || record.seq > range->last) continue;
      are_all_old = record.seq < range->first;
      if (are_all_old) continue;
    } else if (filter.last > 0 && IsOfOperation(record)) {
      std::set<std::uint64_t>& seqs = newest[StreamOf(record)];
      are_all_old = seqs.size() >= filter.last && !seqs.contains(record.seq);
      if (are_all_old) continue;
      seqs.insert(record.seq);
    } else if (are_all_old) {
      continue;
    }
    if (kept.size() < count_max)
      kept.push_back(&record);
    else
      ++header.left_out;
  }
  header.names_max = static_cast<std::uint32_t>(names.size());
  header.records_max = static_cast<std::uint32_t>(kept.size());
  std::string image;
  image.reserve(ImageBytes(header.names_max, header.records_max));
  image.append(reinterpret_cast<const char*>(&header), sizeof header);
  for (const Name* name : names) image.append(reinterpret_cast<const char*>(name), sizeof *name);
  for (auto record = kept.rbegin(); record != kept.rend(); ++record)
    image.append(reinterpret_cast<const char*>(*record), sizeof **record);
  return image;
}

}  // namespace ringway::flight
