#include "proto/identity.h"

#include <algorithm>
#include <iterator>

namespace ringway {
namespace {

constexpr std::string_view kScheme = "ringway://";

bool IsIdentityLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

}  // namespace

std::string ToString(ProcessRole role) { return std::string(kProcessRoleNames[static_cast<std::size_t>(role)]); }

std::optional<ProcessRole> ParseProcessRole(std::string_view text) {
  const auto* const found = std::find(std::begin(kProcessRoleNames), std::end(kProcessRoleNames), text);
  if (found == std::end(kProcessRoleNames)) return std::nullopt;
  return static_cast<ProcessRole>(found - std::begin(kProcessRoleNames));
}

bool IsIdentityName(std::string_view name) {
  return !name.empty() && name.size() <= kIdentityNameBytesMax && name.front() != '.' && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), IsIdentityLetter);
}

std::string ToString(const Identity& identity) { return ToString(identity.role) + " " + identity.name; }

std::string ToUri(const Identity& identity) {
  return std::string(kScheme) + ToString(identity.role) + "/" + identity.name;
}

std::optional<Identity> ParseIdentityUri(std::string_view uri) {
  if (!uri.starts_with(kScheme)) return std::nullopt;
  uri.remove_prefix(kScheme.size());
  const std::size_t slash = uri.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::optional<ProcessRole> role = ParseProcessRole(uri.substr(0, slash));
  const std::string_view name = uri.substr(slash + 1);
  if (!role || !IsIdentityName(name)) return std::nullopt;
  return Identity{.role = *role, .name = std::string(name)};
}

}  // namespace ringway
