#include "client/bench/options.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringway::bench {
namespace {

ParsedOptions Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"ringway-bench", "--group", "g", "--world", "4"});
  return ParseOptions(static_cast<int>(arguments.size()), arguments.data());
}

TEST(BenchOptionsTest, DefaultsAreThoseOfTheManual) {
  const Options options = Parse({}).options;
  EXPECT_EQ(options.Sizes(), (std::vector<std::uint64_t>{4u << 10, 16u << 10, 64u << 10, 256u << 10, 1u << 20, 4u << 20,
                                                         16u << 20, 64u << 20, 256u << 20}));
  EXPECT_EQ(options.iterations, 20u);
  EXPECT_EQ(options.warmup, 3u);
  EXPECT_EQ(options.in_flight, 1u);
  EXPECT_EQ(options.beside_bytes, 0u);
  EXPECT_EQ(Parse({"--beside", "1G"}).options.beside_bytes, 1u << 30);
  EXPECT_EQ(options.priority, 0u);
  EXPECT_EQ(Parse({"--priority", "255"}).options.priority, 255u);
}

TEST(BenchOptionsTest, OneSizeIsCutToWholeElements) {
  EXPECT_EQ(Parse({"--bytes", "1001", "--dtype", "f64"}).options.Sizes(), std::vector<std::uint64_t>{1000});
  EXPECT_EQ(Parse({"--bytes", "0"}).options.Sizes(), std::vector<std::uint64_t>{0});
}

TEST(BenchOptionsTest, SeveralSizesAreMeasuredAsTheyAreGiven) {
  EXPECT_EQ(Parse({"--bytes", "1M,4K,64M"}).options.Sizes(),
            (std::vector<std::uint64_t>{1u << 20, 4u << 10, 64u << 20}));
}

TEST(BenchOptionsTest, WrongOptionsAreOneLineAndStatusTwo) {
  const std::vector<std::vector<const char*>> wrong = {{"--nope"},
                                                       {"--json", "/nowhere/out.json"},
                                                       {"--groups", "2", "--json", "/nowhere/out.json"},
                                                       {"--dtype", "f33"},
                                                       {"--op", "avg", "--dtype", "i32"},
                                                       {"--codec", "int8", "--dtype", "f64"},
                                                       {"--bytes", "4K", "--factor", "2"},
                                                       {"--bytes", "4K,3"},
                                                       {"--min-bytes", "7", "--dtype", "f64"},
                                                       {"--min-bytes", "2M", "--max-bytes", "1M"},
                                                       {"--iters", "0"},
                                                       {"--beside", "2"},
                                                       {"--priority", "256"},
                                                       {"--bytes", "4K,,1X"},
                                                       {"--compare", "gloo"},
                                                       {"--grace", "5"},
                                                       {"--late", "next"},
                                                       {"--quorum", "0"},
                                                       {"--quorum", "2", "--late", "never"},
                                                       {"--quorum", "2", "--op", "max"},
                                                       {"--quorum", "2", "--collective", "all_gather"},
                                                       {"--quorum", "2", "--late", "next", "--dtype", "i32"},
                                                       {"--quorum", "2", "--late", "next", "--check"},
                                                       {"--tensors", "0"},
                                                       {"--tensors", "2", "--collective", "all_gather"},
                                                       {"--collective", "barrier"},
                                                       {"--collective", "gather", "--algorithm", "ring"},
                                                       {"--collective", "scatter", "--op", "max"},
                                                       {"--collective", "recv"},
                                                       {"--collective", "send", "--in-place"},
                                                       {"--collective", "send", "--codec", "int8"}};
  for (const auto& arguments : wrong) {
    const ParsedOptions parsed = Parse(arguments);
    EXPECT_EQ(parsed.exit_status, 2) << arguments[0];
    EXPECT_EQ(parsed.message.find('\n'), parsed.message.size() - 1) << parsed.message;
    EXPECT_TRUE(parsed.message.starts_with("ringway-bench: ")) << parsed.message;
  }
}

TEST(BenchOptionsTest, EveryCodecIsReadAndInTheHelp) {
  const std::string help = Parse({"--help"}).message;
  for (const CodecInfo& info : kCodecs) {
    EXPECT_EQ(Parse({"--codec", info.name}).options.reduction.codec, info.codec);
    EXPECT_NE(help.find(info.name, help.find("--codec")), std::string::npos) << info.name;
  }
}

TEST(BenchOptionsTest, QuorumGraceAndLateGoTogether) {
  EXPECT_EQ(Parse({}).options.quorum, Quorum::All());
  const Options options = Parse({"--quorum", "3", "--grace", "50", "--late", "next"}).options;
  EXPECT_EQ(options.quorum, Quorum::Ranks(3));
  EXPECT_EQ(options.grace.count(), 50);
  EXPECT_EQ(options.late, Late::kNext);
}

TEST(BenchOptionsTest, NamesBecomeTypes) {
  const Options options = Parse({"--dtype", "bf16", "--op", "max", "--check", "--in-place"}).options;
  EXPECT_EQ(options.reduction.dtype, DType::kBF16);
  EXPECT_EQ(options.reduction.op, ReduceOp::kMax);
  EXPECT_TRUE(options.check && options.in_place);
}

}  // namespace
}  // namespace ringway::bench
