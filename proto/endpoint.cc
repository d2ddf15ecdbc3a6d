#include "proto/endpoint.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

namespace ringway {

Result<Endpoint> ParseEndpoint(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return Status(Code::kInvalidArgument, "'" + text + "' is not HOST:PORT");
  }
  Endpoint endpoint;
  endpoint.host = text.substr(0, colon);
  const bool bracketed = endpoint.host.size() > 1 && endpoint.host.front() == '[' && endpoint.host.back() == ']';
  if (bracketed) endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  if (endpoint.host.empty() || (!bracketed && endpoint.host.find_first_of(":[]") != std::string::npos)) {
    return Status(Code::kInvalidArgument, "'" + text + "' is not HOST:PORT; write IPv6 as [ADDRESS]:PORT");
  }
  const char* begin = text.data() + colon + 1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, endpoint.port);
  if (error != std::errc() || stop != end) {
    return Status(Code::kInvalidArgument, "'" + text + "' has no port between 0 and 65535");
  }
  return endpoint;
}

Result<Endpoint> ParseEndpointToDial(const std::string& text) {
  Result<Endpoint> endpoint = ParseEndpoint(text);
  if (endpoint.ok() && endpoint.value().port == 0) {
    return Status(Code::kInvalidArgument, "'" + text +
                                              "' has port 0, where nobody can be dialled: give the port that "
                                              "is listened on (its log says it: listening address=)");
  }
  return endpoint;
}

namespace {

std::string Trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

Result<std::vector<Endpoint>> ParseEndpointsToDial(const std::string& text) {
  std::vector<Endpoint> endpoints;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    Result<Endpoint> endpoint = ParseEndpointToDial(Trimmed(text.substr(begin, comma - begin)));
    if (!endpoint.ok()) return endpoint.status();
    const std::string name = ToString(endpoint.value());
    const auto is_same = [&](const Endpoint& other) { return ToString(other) == name; };
    if (std::any_of(endpoints.begin(), endpoints.end(), is_same))
      return Status(Code::kInvalidArgument, name + " is named twice");
    if (endpoints.size() == kEndpointsMax) {
      return Status(Code::kInvalidArgument, "more than " + std::to_string(kEndpointsMax) + " addresses");
    }
    endpoints.push_back(std::move(endpoint).value());
    begin = comma + 1;
  }
  return endpoints;
}

std::string ToString(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return (v6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

std::string ListenRemedy(int error) {
  switch (error) {
    case EADDRNOTAVAIL:
      return "give an address that this host has (ip address lists them)";
    case EADDRINUSE:
      return "stop what uses it or choose another port (0 takes a free one)";
    case EACCES:
      return "choose a port from 1024 on, or give it the right to lower ones";
    default:
      return "choose another address";
  }
}

}  // namespace ringway
