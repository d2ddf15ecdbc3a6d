#include "proto/permits.h"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace ringway {
namespace {

// Only * and ? are special. On a mismatch the last * takes one byte more, so the time is at most the lengths' product.
bool Matches(std::string_view pattern, std::string_view text) {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t at = 0;
  std::size_t star = kNone;    // the last one
  std::size_t after_star = 0;  // where in `text` what follows it is tried
  for (std::size_t i = 0; i < text.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      after_star = i;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[i])) {
      ++at;
      ++i;
    } else if (star != kNone) {
      at = star + 1;
      i = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == kNone;
}

bool Names(const Permits::Rule& rule, const std::string& name) {
  return std::any_of(rule.names.begin(), rule.names.end(), [&](const std::string& one) { return Matches(one, name); });
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
  return std::any_of(rules_.begin(), rules_.end(),
                     [&](const Rule& rule) { return Matches(rule.groups, group) && Names(rule, name); });
}

bool Permits::AllowsAny(const std::string& name) const {
  return none() || std::any_of(rules_.begin(), rules_.end(), [&](const Rule& rule) { return Names(rule, name); });
}

}  // namespace ringway
