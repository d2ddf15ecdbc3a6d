// Makes one trace of what the flight recorders of several hosts hold, in Chrome's format: ui.perfetto.dev and
// chrome://tracing show it.
//
//   process    a peer: "name (daemon, site)"
//   operation  an async slice from its submission to its report, with what was when in its arguments
//   in, out    an async slice a chunk, step and other peer: from the first segment to the last
//   work       a slice for sums and copies that no segment brought along
//   instants   READY and DONE, both ways; views, aborts, waits
//
// Pure. What the logs say is another process's: numbers are added without overflow, texts are printable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/flight/reader.h"

namespace ringway::ctl {

struct HostTrace {
  flight::Log log;
  std::int64_t ahead_us = 0;              // its clock, of that of the trace
  std::optional<std::uint64_t> error_us;  // of ahead_us, at most; nothing: not known
};

// A host of which there is nothing.
struct MissingHost {
  std::string daemon;
  std::string why;
};

struct Trace {
  std::string group;  // empty: all
  std::string clock;  // whose it is, in words
  std::vector<HostTrace> hosts;
  std::vector<MissingHost> missing;
};

std::string ChromeJson(const Trace& trace);

}  // namespace ringway::ctl
