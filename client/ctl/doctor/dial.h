// Dials ports as a daemon would, several at once, and sends a full-size packet on each connection that stands: a path
// that drops large packets without telling ("MTU black hole") lets connections begin and no data through.
//
// What is sent is the beginning of a first message that never ends: whoever listens waits for the rest and does
// nothing. Names nobody, needs no privileges and no certificate. Blocks, at most until the deadlines.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"
#include "proto/result.h"
#include "proto/stream/address.h"

namespace ringway::ctl {

// HOST:PORT as an address; kTimeout if the resolver takes longer.
Result<net::SocketAddress> ResolveWithin(const std::string& address, std::chrono::milliseconds timeout);

struct DialTarget {
  std::string who;
  std::string address;  // HOST:PORT
};

struct DialOptions {
  std::chrono::milliseconds timeout{5000};  // to connect, and again for the full-size packet
  bool tls = false;                         // what the ports speak
};

// In the order of `targets`.
std::vector<DialFacts> Dial(const std::vector<DialTarget>& targets, const DialOptions& options);

}  // namespace ringway::ctl
