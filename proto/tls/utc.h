// The time of day, for operators who compare the clocks of hosts. No decision depends on it. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ringway::tls {

// "2026-11-27T09:30:00Z".
std::string UtcNow();
// Seconds from now until then; negative if it is past. nullopt if the text has another format.
std::optional<std::int64_t> SecondsUntil(const std::string& utc);

}  // namespace ringway::tls
