// The programs of one release, so that a test can start those of another beside the ones that were just built.
#pragma once

#include <optional>
#include <string>

namespace ringway::e2e {

struct Release {
  std::string master = RINGWAY_MASTER;
  std::string daemon = RINGWAY_DAEMON;
  std::string ctl = RINGWAY_CTL;
  std::string bench = RINGWAY_BENCH;
};

// Returns where tests/releases/build.sh says that the programs of the release before this one lie
// (RINGWAY_TEST_PREVIOUS), with no slash at its end; nothing where it was not built.
std::optional<std::string> PreviousPrograms();
// That release; nothing where it was not built.
std::optional<Release> PreviousRelease();

}  // namespace ringway::e2e
