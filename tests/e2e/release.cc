#include "tests/e2e/release.h"

#include <cstdlib>

namespace ringway::e2e {

std::optional<std::string> PreviousPrograms() {
  const char* const directory = std::getenv("RINGWAY_TEST_PREVIOUS");
  if (directory == nullptr) return std::nullopt;
  return directory;
}

std::optional<Release> PreviousRelease() {
  const std::optional<std::string> in = PreviousPrograms();
  if (!in) return std::nullopt;
  return Release{.master = *in + "/ringway-master",
                 .daemon = *in + "/ringwayd",
                 .ctl = *in + "/ringwayctl",
                 .bench = *in + "/ringway-bench"};
}

}  // namespace ringway::e2e
