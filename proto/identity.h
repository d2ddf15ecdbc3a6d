// Who a process is: its role, and a name that no other of this role has. Between hosts it is proven by a certificate
// (proto/tls/). Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ringway {

enum class ProcessRole : std::uint8_t { kMaster = 0, kDaemon, kOperator };
inline constexpr std::string_view kProcessRoleNames[] = {"master", "daemon", "operator"};

inline constexpr std::size_t kIdentityNameBytesMax = 63;

struct Identity {
  ProcessRole role = ProcessRole::kDaemon;
  std::string name = {};

  bool operator==(const Identity&) const = default;
};

// How a process's connections are secured, for its status.
struct SecurityFacts {
  std::string identity = {};  // empty: they are not
  std::string until = {};     // its certificate's last day
  std::int64_t days_left = 0;
  bool insecure = false;  // not secured, and not only from this host
};

// The same as the member "security" of a status. `Json`: one of nlohmann's.
template <typename Json>
Json JsonOf(const SecurityFacts& facts) {
  if (facts.identity.empty()) return {{"insecure", facts.insecure}};
  return {{"identity", facts.identity}, {"until", facts.until}, {"days_left", facts.days_left}, {"insecure", false}};
}

// "daemon", and nothing for what is none.
std::string ToString(ProcessRole role);
std::optional<ProcessRole> ParseProcessRole(std::string_view text);

// Letters, digits, '.', '_' and '-', 1 to 63 of them, not beginning with '.' or '-': also a file's name.
bool IsIdentityName(std::string_view name);

// "daemon node-1".
std::string ToString(const Identity& identity);
// "ringway://daemon/node-1", as it stands in a certificate.
std::string ToUri(const Identity& identity);
std::optional<Identity> ParseIdentityUri(std::string_view uri);

}  // namespace ringway
