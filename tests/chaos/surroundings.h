// Two things that a process of the chaos run takes for granted and the run changes under it: the wall clock and the
// resolution of names. They are in a file that the run and the process map; libringway_chaos_surroundings, which the
// process is started with (LD_PRELOAD), reads it in place of the C library's own answers.
#pragma once

#include <atomic>
#include <cstdint>

namespace ringway::chaos {

inline constexpr char kSurroundingsVariable[] = "RINGWAY_CHAOS_SURROUNDINGS";  // the file's path

enum class Names : std::int32_t { kResolve, kFail, kHang };  // addresses in digits always resolve

struct Surroundings {
  std::atomic<std::int64_t> clock_ahead_s{0};  // of the wall clock; monotonic clocks stay as they are
  std::atomic<Names> names{Names::kResolve};
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<Names>::is_always_lock_free);

}  // namespace ringway::chaos
