// `ringwayctl doctor`: finds what is wrong or slow on this host, with remedies (checks.h).
//
// Works whatever runs here: a daemon, a master, both, nothing. It looks at what the options name (--socket, --master,
// the programs' config files) and, without any, at the config files in /etc/ringway. Changes nothing.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>

#include "client/ctl/doctor/finding.h"
#include "proto/shell/tls_options.h"

namespace ringway::ctl {

struct DoctorOrder {
  std::string daemon_config;
  std::string master_config;
};

// Adds the command into `order`, which outlives the parsing.
const CLI::App* AddDoctor(CLI::App& app, DoctorOrder* order);

// The options that all commands have.
struct DoctorContext {
  std::string master;
  std::string socket;
  std::string usual_socket;  // looked at where no other is given, and this one is there
  shell::TlsOptions tls;
  std::chrono::milliseconds timeout;  // of each step
};

// Blocks, each step at most for the timeout.
Findings Examine(const DoctorOrder& order, const DoctorContext& context);

}  // namespace ringway::ctl
