// Who may join which groups, as rules of an operator: "GROUPS=NAME,NAME,...". GROUPS is a pattern in which * stands for
// any bytes and ? for one; so are names. All else stands for itself. Without a rule everybody may join every group;
// with some, who is named by a rule whose pattern the group's name has.
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
  // Whether some group is.
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
