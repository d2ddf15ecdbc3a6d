// A mutant (proto/mutation.h) as the parameter of a test.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "proto/mutation.h"

namespace ringway::sim {

struct NamedMutant {
  mutation::Mutant mutant;
  const char* name;
  const char* rule;
};

// An element of RINGWAY_EACH_MUTANT(RINGWAY_NAMED_MUTANT).
#define RINGWAY_NAMED_MUTANT(name, rule) {::ringway::mutation::Mutant::name, #name, rule},

inline std::string NameOfTest(const testing::TestParamInfo<NamedMutant>& tested) { return tested.param.name; }

}  // namespace ringway::sim
