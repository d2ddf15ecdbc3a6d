// A host and a port as text: "127.0.0.1:7000", "[::1]:7000", "localhost:0". Values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>

#include "proto/result.h"

namespace ringway {

struct Endpoint {
  std::string host;  // without brackets
  std::uint16_t port = 0;
};

// Both parts must be there; port 0 is allowed, an IPv6 host is in brackets. kInvalidArgument says what is wrong.
Result<Endpoint> ParseEndpoint(const std::string& text);
std::string ToString(const Endpoint& endpoint);

// What to do where the system refuses to listen on an endpoint, for the end of a message.
std::string ListenRemedy(const std::error_code& error);

}  // namespace ringway
