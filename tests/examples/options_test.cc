#include "client/examples/train_text/options.h"

#include <gtest/gtest.h>

#include <string>

namespace train_text {
namespace {

TEST(OptionsTest, AllOptionsAreRead) {
  std::string error;
  const auto options = ParseOptions(
      {"--socket", "/s",   "--group",          "g",  "--world",     "4",  "--text",    "/t",  "--steps",        "9",
       "--batch",  "8",    "--seed",           "3",  "--log",       "/l", "--seconds", "2.5", "--sample-chars", "7",
       "--codec",  "int8", "--error-feedback", "on", "--reconnect", "6"},
      &error);
  ASSERT_TRUE(options.has_value()) << error;
  EXPECT_EQ(options->socket_path, "/s");
  EXPECT_EQ(options->group, "g");
  EXPECT_EQ(options->world, 4U);
  EXPECT_EQ(options->text_path, "/t");
  EXPECT_EQ(options->steps, 9U);
  EXPECT_EQ(options->batch, 8U);
  EXPECT_EQ(options->seed, 3U);
  EXPECT_EQ(options->log_path, "/l");
  EXPECT_EQ(options->sample_chars, 7U);
  EXPECT_EQ(options->codec, ringway::Codec::kInt8);
  EXPECT_TRUE(options->error_feedback);
  EXPECT_EQ(options->seconds, 2.5);
  EXPECT_EQ(options->reconnect_seconds, 6U);
}

TEST(OptionsTest, EveryCodecIsReadAndInTheHelp) {
  for (const ringway::CodecInfo& info : ringway::kCodecs) {
    std::string error;
    const auto options = ParseOptions({"--world", "1", "--codec", info.name}, &error);
    ASSERT_TRUE(options.has_value()) << error;
    EXPECT_EQ(options->codec, info.codec);
    EXPECT_NE(Usage().find(info.name, Usage().find("--codec")), std::string::npos) << info.name;
  }
}

TEST(OptionsTest, WhatDoesNotFitTogetherIsRefused) {
  std::string error;
  EXPECT_FALSE(ParseOptions({"--world", "1", "--error-feedback", "on"}, &error).has_value());
  EXPECT_NE(error.find("--codec"), std::string::npos) << error;
}

TEST(OptionsTest, WrongArgumentsAreNamed) {
  for (const auto& [name, value] : std::initializer_list<std::pair<std::string, std::string>>{{"--world", "0"},
                                                                                              {"--world", "4x"},
                                                                                              {"--world", "-1"},
                                                                                              {"--reconnect", "-1"},
                                                                                              {"--codec", "fp4"},
                                                                                              {"--socket", ""},
                                                                                              {"--error-feedback", "1"},
                                                                                              {"--seconds", "0"},
                                                                                              {"--steps", "0"},
                                                                                              {"--batch", ""},
                                                                                              {"--unknown", "1"},
                                                                                              {"stray", "1"}}) {
    std::string error;
    EXPECT_FALSE(ParseOptions({name, value}, &error).has_value()) << name << ' ' << value;
    EXPECT_NE(error.find(name), std::string::npos) << error;
  }
  std::string error;
  EXPECT_FALSE(ParseOptions({"--group", "g"}, &error).has_value()) << "who begins with one rank says so";
  EXPECT_NE(error.find("--world K is missing"), std::string::npos) << error;
  EXPECT_FALSE(ParseOptions({"--world"}, &error).has_value());
  EXPECT_NE(error.find("--world needs a value"), std::string::npos) << error;
}

TEST(OptionsTest, VersionNeedsNothingElse) {
  std::string error;
  const auto options = ParseOptions({"--version"}, &error);
  ASSERT_TRUE(options.has_value()) << error;
  EXPECT_TRUE(options->version);
}

TEST(OptionsTest, HelpNeedsNothingElse) {
  std::string error;
  const auto options = ParseOptions({"--help"}, &error);
  ASSERT_TRUE(options.has_value());
  EXPECT_TRUE(options->help);
}

}  // namespace
}  // namespace train_text
