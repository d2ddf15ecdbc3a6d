#include "master/shell/price_file.h"

#include <gtest/gtest.h>
#include <ringway/types.h>

#include <string>

namespace ringway {
namespace {

TEST(PriceFileTest, PairsAnySiteAndTheRestHaveTheirPrices) {
  const auto prices = ParsePrices(
      "currency = \"USD\"\nrest = 0.08\n[us-east]\neu-west = 0.05 # by contract\n\"*\" = 1\n[\"\"]\n\"köln 2\" = 7\n"
      "[lan]\nlan = 2.5\n",
      "prices.toml");
  ASSERT_TRUE(prices.ok()) << prices.status().text();
  const PriceList& list = *prices.value();
  EXPECT_EQ(list.currency(), "USD");
  EXPECT_DOUBLE_EQ(list.PerByte("us-east", "eu-west"), 0.05e-9);
  EXPECT_DOUBLE_EQ(list.PerByte("us-east", "asia"), 1e-9);
  EXPECT_EQ(list.PerByte("us-east", "us-east"), 0) << "any is any other";
  EXPECT_DOUBLE_EQ(list.PerByte("eu-west", "us-east"), 0.08e-9) << "the other direction";
  EXPECT_DOUBLE_EQ(list.PerByte("", "köln 2"), 7e-9);
  EXPECT_DOUBLE_EQ(list.PerByte("lan", "lan"), 2.5e-9);
}

TEST(PriceFileTest, EverySiteThatADaemonMayHaveCanHaveAPrice) {
  const auto priced = [](std::size_t bytes) {
    return ParsePrices("currency = \"USD\"\nrest = 1\n[" + std::string(bytes, 'a') + "]\nb = 2\n", "p.toml");
  };
  ASSERT_TRUE(priced(255).ok()) << priced(255).status().text();
  EXPECT_DOUBLE_EQ(priced(255).value()->PerByte(std::string(255, 'a'), "b"), 2e-9);
  EXPECT_NE(priced(256).status().text().find("at most 255"), std::string::npos);
}

TEST(PriceFileTest, WhatIsWrongIsNamedWithItsLine) {
  struct Wrong {
    const char* text;
    const char* says;
  };
  const std::string head = "currency = \"USD\"\nrest = 1\n";
  for (const auto& [text, says] : {
           Wrong{"[a]\nb = -1\n", "line 4: the price b"},
           Wrong{"[a]\nb = \"1\"\n", "line 4: the price b"},
           Wrong{"[a]\nb = nan\n", "line 4: the price b"},
           Wrong{"[a]\nb = n\n", "line 4: Error while parsing floating-point: expected 'nan', saw 'n?'"},
           Wrong{"[a]\nb = inf\n", "line 4: the price b"},
           Wrong{"[a]\nb = 1000001\n", "line 4: the price b"},
           Wrong{"[a]\nb = [1]\n", "line 4: the price b"},
           Wrong{"[a.b]\nc = 1\n", "the price b"},
           Wrong{"[a]\nb.c = 1\n", "line 4: the price b"},
           Wrong{"[\"*\"]\nb = 1\n", "line 4: [*] is no site"},
           Wrong{"[a]\n\"b\\u0007\" = 1\n", "line 4: b? is no site"},
           Wrong{"resst = 1\n", "line 3: resst is neither"},
           Wrong{"[a]\n", "line 3: a is neither"},
           Wrong{"[a]\nb = 1\nb = 2\n", "line 5"},
           Wrong{"[a\n", "line 3"},
           Wrong{"\xff", "no UTF-8"},
       }) {
    const auto prices = ParsePrices(head + text, "p.toml");
    ASSERT_FALSE(prices.ok()) << text;
    EXPECT_EQ(prices.status().code(), Code::kInvalidArgument);
    EXPECT_NE(prices.status().text().find(says), std::string::npos) << text << prices.status().text();
    EXPECT_TRUE(prices.status().text().starts_with("p.toml")) << prices.status().text();
  }
  EXPECT_NE(ParsePrices("rest = 1\n", "p").status().text().find("no currency"), std::string::npos);
  EXPECT_NE(ParsePrices("currency = \"\"\nrest = 1\n", "p").status().text().find("line 1: currency"),
            std::string::npos);
  EXPECT_NE(ParsePrices("currency = \"€\"\n", "p").status().text().find("write rest = "), std::string::npos);
}

TEST(PriceFileTest, FileThatCannotBeReadIsNamed) {
  EXPECT_NE(ReadPriceFile("/absent/prices").status().text().find("--price: there is no /absent/prices"),
            std::string::npos);
  EXPECT_NE(ReadPriceFile("/dev/zero").status().text().find("too large"), std::string::npos);
}

}  // namespace
}  // namespace ringway
