#include "proto/permits.h"

#include <fnmatch.h>

#include <algorithm>
#include <sstream>

namespace ringway {
namespace {

bool Matches(const std::string& pattern, const std::string& text) {
  return ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

}  // namespace

Result<Permits> Permits::Parse(const std::vector<std::string>& rules) {
  Permits permits;
  for (const std::string& text : rules) {
    const std::size_t equals = text.rfind('=');
    Rule rule;
    if (equals != std::string::npos) {
      rule.groups = text.substr(0, equals);
      std::istringstream names(text.substr(equals + 1));
      for (std::string name; std::getline(names, name, ',');) rule.names.push_back(name);
    }
    const bool has_empty =
        std::any_of(rule.names.begin(), rule.names.end(), [](const auto& name) { return name.empty(); });
    if (rule.groups.empty() || rule.names.empty() || has_empty) {
      return Status(Code::kInvalidArgument, "'" + text + "' is no rule: write GROUPS=NAME,NAME, as prod-*=a,b");
    }
    permits.rules_.push_back(std::move(rule));
  }
  return permits;
}

bool Permits::Allows(const std::string& group, const std::string& name) const {
  if (none()) return true;
  return std::any_of(rules_.begin(), rules_.end(), [&](const Rule& rule) {
    return Matches(rule.groups, group) && std::any_of(rule.names.begin(), rule.names.end(),
                                                      [&](const std::string& one) { return Matches(one, name); });
  });
}

}  // namespace ringway
