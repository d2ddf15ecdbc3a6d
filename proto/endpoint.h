// A host and a port as text: "127.0.0.1:7000", "[::1]:7000", "localhost:0". Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/result.h"

namespace ringway {

struct Endpoint {
  std::string host;  // without brackets
  std::uint16_t port = 0;
};

// Both parts are mandatory; port 0 is allowed, an IPv6 host is in brackets. kInvalidArgument says what is wrong.
Result<Endpoint> ParseEndpoint(const std::string& text);
// The same of an address to connect to: port 0 is refused.
Result<Endpoint> ParseEndpointToDial(const std::string& text);
// Some of them, with commas between: kEndpointsMax at most, none of them twice.
inline constexpr std::size_t kEndpointsMax = 16;
Result<std::vector<Endpoint>> ParseEndpointsToDial(const std::string& text);
std::string ToString(const Endpoint& endpoint);

// Advice for an errno of bind or listen, to be appended to an error text.
std::string ListenRemedy(int error);

}  // namespace ringway
