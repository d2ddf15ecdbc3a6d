#include "tests/e2e/checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "proto/device/loader.h"
#include "tests/sanitized.h"

namespace ringway::e2e {

Struck::Struck(const Sessions& ranks, std::size_t victim, const StruckOptions& options)
    : ranks_(ranks), victim_(victim) {
  for (std::uint64_t i = 0; i < options.rounds; ++i) {
    rounds_.push_back(
        std::make_unique<Round>(ranks, RoundOptions{.reduction = {},
                                                    .count = i % 2 == 0 ? kLargeCount : 1000,
                                                    .number = i,
                                                    .channel = static_cast<std::uint32_t>(i % options.channels)}));
  }
}

void Struck::Submit() {
  for (const auto& round : rounds_) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (i != victim_ || round != rounds_.back()) round->SubmitOn(i);
    }
  }
  for (const auto& round : rounds_) victims_works_.push_back(std::move(round->work(victim_)));
}

void Struck::CheckSurvivors() {
  for (const auto& round : rounds_) {
    const OpResult result = round->Check();
    EXPECT_GE(result.world_size, ranks_.size() - 1);
    if (round == rounds_.back()) {
      EXPECT_EQ(result.world_size, ranks_.size() - 1);
    }
  }
}

void Struck::CheckVictim(const std::vector<Code>& codes) {
  for (Work& work : victims_works_) {
    if (!work.valid()) continue;
    const Outcome outcome = work.Wait(kPatience);
    // An operation that was committed before the death may have been reported.
    EXPECT_TRUE(outcome.ok() || std::count(codes.begin(), codes.end(), outcome.status().code()) > 0)
        << NameOf(outcome.status().code()) << ": " << outcome.status().text();
  }
}

std::vector<std::size_t> SortByRank(Sessions* ranks) {
  std::vector<std::size_t> were(ranks->size());
  Sessions sorted(ranks->size());
  for (std::size_t i = 0; i < ranks->size(); ++i) {
    const std::uint32_t rank = (*ranks)[i]->rank();
    sorted.at(rank) = std::move((*ranks)[i]);
    were[rank] = i;
  }
  *ranks = std::move(sorted);
  return were;
}

Sessions Without(Sessions ranks, std::size_t gone) {
  ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(gone));
  return ranks;
}

void ExpectJoinFails(const JoinOptions& impatient, Code code, const std::string& text) {
  Status error;
  EXPECT_TRUE(Eventually([&] {
    error = Session::Join(impatient).status();
    return error.code() == code && error.text().find(text) != std::string::npos;
  })) << error.text();
}

void ExpectWorks(const Sessions& ranks) {
  Round round(ranks, {.reduction = {}, .count = 10'000, .number = 99});
  round.Submit();
  const OpResult result = round.Check();
  EXPECT_EQ(result.world_size, ranks.size());
  EXPECT_EQ(result.retries, 0u);
}

void ExpectMismatch(const Sessions& ranks, const RoundOptions& usual, const RoundOptions& other,
                    const std::string& usual_text, const std::string& other_text) {
  std::vector<Session*> all;
  for (const auto& session : ranks) all.push_back(session.get());
  Round most(std::vector<Session*>(all.begin(), all.end() - 1), usual);
  Round one(std::vector<Session*>{all.back()}, other);
  most.Submit();
  one.Submit();
  for (const std::string& text : {most.CheckFailure(Code::kMismatch), one.CheckFailure(Code::kMismatch)}) {
    EXPECT_NE(text.find(usual_text), std::string::npos) << text;
    EXPECT_NE(text.find(other_text), std::string::npos) << text;
  }
  ExpectWorks(ranks);
}

void ExpectDeviceMemoryIsRight(const Sessions& ranks) {
  std::uint64_t number = 0;
  for (const Memory memory : {Memory::kDevice, Memory::kDeviceInPlace}) {
    for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter}) {
      if (memory == Memory::kDeviceInPlace && kind == OpKind::kAllGather) continue;
      for (const std::size_t count : {0, 1, 1000, 100'003, kSanitized ? 700'001 : 3'000'001}) {
        Round round(ranks, {.reduction = {}, .count = count, .number = number++, .memory = memory, .collective = kind});
        round.Submit();
        EXPECT_EQ(round.Check().world_size, ranks.size());
      }
    }
  }
}

std::string WhyNoGpu() {
  device::LoadDriver();
  const device::Loaded& loaded = device::Load();
  if (loaded.library == nullptr) return loaded.problem.empty() ? "no GPU driver" : loaded.problem;
  void* memory = nullptr;
  const device::Status status = loaded.library->Allocate(0, 1, &memory);
  if (!status.ok()) return status.text;
  loaded.library->Free(memory);
  return "";
}

void ExpectRefusal(const std::vector<std::string>& argv, const std::string& program, const std::string& what) {
  const Finished run = RunToEnd(argv);
  EXPECT_EQ(run.code, 2) << argv[0] << ": " << run.err;
  EXPECT_EQ(run.out, "");
  std::vector<std::string> lines;
  std::istringstream stream(run.err);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("20")) lines.push_back(line);
  }
  ASSERT_EQ(lines.size(), 1u) << run.err;
  EXPECT_TRUE(lines[0].starts_with(program + ": ")) << lines[0];
  EXPECT_NE(lines[0].find(what), std::string::npos) << lines[0];
}

}  // namespace ringway::e2e
