// `ringwayctl trace GROUP`: what the newest operations of a group did, on all hosts, as a file for ui.perfetto.dev.
//
//   from the master    each daemon that has a peer in the group is asked, one after the other; times are by the
//                      master's clock
//   from a daemon      its own part
//   from a file        what a daemon's flight recorder has left, alive or dead
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <variant>

#include "proto/result.h"
#include "proto/shell/query.h"

namespace ringway::ctl {

struct TraceOrder {
  std::string group;
  std::uint32_t last = 20;
  std::string out = "trace.json";
  std::string file;  // empty: ask
};

// Adds the command into `order`, which outlives the parsing.
void AddTrace(CLI::App& app, TraceOrder* order);

// Writes order.out; returns what to print. `where`: the master, or a daemon's socket.
Result<std::string> TraceFrom(const std::variant<shell::MasterAddress, std::string>& where, const TraceOrder& order,
                              std::chrono::milliseconds timeout);
// The same of order.file.
Result<std::string> TraceOfFile(const TraceOrder& order);

}  // namespace ringway::ctl
