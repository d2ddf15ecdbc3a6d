// Who is in a session's view: written by the daemon into the session's page, read by the client at any time.
//
// Torn reads: `changes` is odd while the daemon writes, and another number after it; a reader copies, looks again and
// starts over. A daemon that died while it wrote leaves it odd for good, so a reader tries a bounded number of times.
//
// Threads: one writer; any number of readers, in another process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace ringway::abi {

inline constexpr std::uint32_t kTableMembersMax = 64;
inline constexpr std::uint32_t kMemberTextBytes = 64;  // NUL-terminated, longer ones are cut

struct MemberEntry {
  std::uint64_t peer_id;
  char name[kMemberTextBytes];
  char site[kMemberTextBytes];  // of its daemon
};

struct MemberList {
  std::uint64_t epoch;  // 0: nothing was written yet
  std::uint32_t world_size;
  std::uint32_t reserved;
  MemberEntry members[kTableMembersMax];  // rank order
};

struct alignas(64) MemberTable {
  std::atomic<std::uint64_t> changes;
  MemberList list;
};

static_assert(sizeof(MemberEntry) == 136 && sizeof(MemberList) == 16 + std::size_t{64} * 136);

inline void SetMemberText(char (&to)[kMemberTextBytes], std::string_view from) {
  const std::size_t length = from.size() < kMemberTextBytes ? from.size() : kMemberTextBytes - 1;
  std::memcpy(to, from.data(), length);
  std::memset(to + length, 0, kMemberTextBytes - length);
}

inline void WriteMembers(MemberTable& table, const MemberList& list) {
  const std::uint64_t before = table.changes.load(std::memory_order_relaxed);
  table.changes.store(before | 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  table.list = list;
  table.changes.store((before | 1) + 1, std::memory_order_release);
}

// False if it was being written each time.
inline bool ReadMembers(const MemberTable& table, MemberList* out) {
  constexpr int kTriesMax = 1000;
  for (int i = 0; i < kTriesMax; ++i) {
    const std::uint64_t before = table.changes.load(std::memory_order_acquire);
    *out = table.list;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && table.changes.load(std::memory_order_relaxed) == before) return true;
  }
  return false;
}

}  // namespace ringway::abi
