#include "proto/permits.h"

#include <gtest/gtest.h>

namespace ringway {
namespace {

Permits Parsed(const std::vector<std::string>& rules) {
  const Result<Permits> permits = Permits::Parse(rules);
  EXPECT_TRUE(permits.ok()) << permits.status().text();
  return permits.ok() ? permits.value() : Permits();
}

TEST(PermitsTest, WithoutRulesEverybodyMayJoin) {
  EXPECT_TRUE(Parsed({}).none());
  EXPECT_TRUE(Parsed({}).Allows("job", "a"));
}

TEST(PermitsTest, WithRulesOnlyTheNamedMay) {
  const Permits permits = Parsed({"prod-*=a,b", "dev=*", "x=y=c?"});
  EXPECT_TRUE(permits.Allows("prod-1", "a"));
  EXPECT_TRUE(permits.Allows("prod-", "b"));
  EXPECT_FALSE(permits.Allows("prod-1", "c"));
  EXPECT_FALSE(permits.Allows("prod", "a"));
  EXPECT_FALSE(permits.Allows("a-prod-1", "a"));
  EXPECT_TRUE(permits.Allows("dev", "anybody"));
  EXPECT_TRUE(permits.Allows("x=y", "c1"));
  EXPECT_FALSE(permits.Allows("x=y", "c"));
  EXPECT_FALSE(permits.Allows("other", "a")) << "a group of which no rule speaks";
}

TEST(PermitsTest, AllButStarAndQuestionMarkStandsForItself) {
  const Permits permits = Parsed({"[ab]=x", R"(c\*=x)", "d[=x", R"(e\=x)", "f*g*=x", "h?i=x", "**=y"});
  EXPECT_TRUE(permits.Allows("[ab]", "x"));
  EXPECT_FALSE(permits.Allows("a", "x"));
  EXPECT_TRUE(permits.Allows(R"(c\d)", "x"));
  EXPECT_FALSE(permits.Allows("c*", "x"));
  EXPECT_TRUE(permits.Allows("d[", "x"));
  EXPECT_TRUE(permits.Allows(R"(e\)", "x"));
  EXPECT_TRUE(permits.Allows("f-gf-gg", "x"));
  EXPECT_TRUE(permits.Allows("fg", "x"));
  EXPECT_FALSE(permits.Allows("f-f", "x"));
  EXPECT_TRUE(permits.Allows("h-i", "x"));
  EXPECT_FALSE(permits.Allows("hi", "x"));
  EXPECT_TRUE(permits.Allows("", "y"));
}

TEST(PermitsTest, WhatIsNoRuleIsQuoted) {
  for (const char* text : {"", "prod", "=a", "prod=", "prod=a,,b", "prod=,a"}) {
    const Result<Permits> permits = Permits::Parse({text});
    ASSERT_FALSE(permits.ok()) << text;
    EXPECT_NE(permits.status().text().find("'" + std::string(text) + "'"), std::string::npos);
  }
}

}  // namespace
}  // namespace ringway
