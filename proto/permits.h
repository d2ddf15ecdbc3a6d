// Who may join which groups, as rules of an operator: "GROUPS=NAME,NAME,...". GROUPS is a pattern in which * stands for
// any bytes and ? for one; so are names. All else stands for itself. Without rules everybody may join every group; with
// rules, a name may join a group if a rule whose pattern matches the group names it.
//
// Values; any thread. Pure.
#pragma once

#include <string>
#include <vector>

#include "proto/result.h"

namespace ringway {

class Permits {
 public:
  // kInvalidArgument quotes the rule that is none.
  static Result<Permits> Parse(const std::vector<std::string>& rules);

  bool none() const { return rules_.empty(); }
  bool Allows(const std::string& group, const std::string& name) const;
  // Returns whether `name` may join any group.
  bool AllowsAny(const std::string& name) const;

  struct Rule {
    std::string groups;
    std::vector<std::string> names;
  };
  std::vector<Rule>& rules() { return rules_; }

 private:
  std::vector<Rule> rules_;
};

}  // namespace ringway
