// Dials ports as a daemon would, all at once, and sends a full-size packet on each connection: a path that silently
// drops large packets ("MTU black hole") lets connections open and no data through.
//
// The packet is the beginning of a first message that never ends, so the listener waits for the rest and does nothing.
// It names nobody and needs neither privileges nor a certificate. Blocks, at most until the deadlines.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"
#include "proto/result.h"
#include "proto/stream/address.h"

namespace ringway::ctl {

// HOST:PORT as an address. Blocks on the resolver.
Result<net::SocketAddress> Resolve(const std::string& address);

struct DialOptions {
  std::chrono::milliseconds timeout{5000};  // to resolve, to connect, and for the full-size packet
  bool tls = false;                         // what the ports speak
};

// Returns the same, of which only who and address (HOST:PORT) are known, with what was found.
std::vector<DialFacts> Dial(std::vector<DialFacts> dials, const DialOptions& options);

// The path to `address` as the kernel knows it: within this host or not, MTU, a full-size segment's payload. Sends
// nothing.
void ReadPath(const net::SocketAddress& address, DialFacts* facts);

}  // namespace ringway::ctl
