// The time of day, by which operators compare the clocks of hosts. It decides nothing. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ringway::tls {

// "2026-11-27T09:30:00Z".
std::string UtcNow();
// From now until then, in seconds; negative where that was before. Nothing if the text is not as above.
std::optional<std::int64_t> SecondsUntil(const std::string& utc);

}  // namespace ringway::tls
