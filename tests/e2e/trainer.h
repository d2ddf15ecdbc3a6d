// Constants that tests share with their trainer process (trainer.cc).
#pragma once

#include <cstddef>

namespace ringway::e2e {

// Elements of each operation, f32 summed: 8 MB, beyond what is copied or sent at once.
inline constexpr std::size_t kTrainerCount = 2'000'000;

}  // namespace ringway::e2e
