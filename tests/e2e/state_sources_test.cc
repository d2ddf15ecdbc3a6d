// Sources of a state that fail again and again, send something else, or say what others do not, beside a newcomer that
// takes it.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/src/state/state_messages.h"
#include "tests/e2e/pupil.h"

namespace ringway::e2e {
namespace {

using internal::Answer;

constexpr std::size_t kPiecesOfPupil = 9;  // of the words, and the steps
constexpr std::size_t kBytesOfPiece = kLargeBytes / (kPiecesOfPupil - 1);

std::vector<std::uint64_t> WordsOf(std::uint64_t seed) {
  std::vector<std::uint64_t> words(kLargeBytes / sizeof(std::uint64_t));
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = seed * (i + 1);
  return words;
}

// A source at the other end of a newcomer's group of two, which does what the test says.
class ScriptedSource {
 public:
  // Returns once both are members.
  explicit ScriptedSource(const JoinOptions& options) {
    auto joined = Session::Join(options);
    EXPECT_TRUE(joined.ok()) << joined.status().text();
    if (joined.ok()) session_ = std::move(joined.value());
  }

  // Returns the piece that is asked for next; kNoMore at the end, or if the newcomer is gone.
  std::uint64_t NextRequest() {
    std::array<std::uint64_t, internal::kRequestWords> request{};
    const auto result = session_->Recv(request.data(), request.size(), DType::kU64, other(), internal::kRequestTag);
    return result.ok() ? request[1] : internal::PieceRequest::kNoMore;
  }
  void Say(std::uint64_t answer) {
    EXPECT_TRUE(session_->Send(&answer, 1, DType::kU64, other(), internal::kAnswerTag).ok());
  }
  void Send(std::uint64_t piece, const std::vector<std::uint64_t>& words, const std::uint64_t& steps) {
    Say(static_cast<std::uint64_t>(Answer::kContent));
    const bool is_last = piece == kPiecesOfPupil - 1;
    const std::uint64_t* const content = is_last ? &steps : words.data() + piece * kBytesOfPiece / sizeof(words[0]);
    const std::size_t bytes = is_last ? sizeof(steps) : kBytesOfPiece;
    EXPECT_TRUE(session_->Send(content, bytes, DType::kU8, other(), internal::kContentTag).ok());
  }
  // Answers all that is asked for, each piece once with content.
  void SendAll(const std::vector<std::uint64_t>& words, const std::uint64_t& steps) {
    std::array<bool, kPiecesOfPupil> is_sent{};
    for (;;) {
      const std::uint64_t piece = NextRequest();
      if (piece >= kPiecesOfPupil) return;
      if (std::exchange(is_sent.at(piece), true))
        Say(static_cast<std::uint64_t>(Answer::kSame));
      else
        Send(piece, words, steps);
    }
  }
  void End() { session_->Abort(); }

 private:
  std::uint32_t other() const { return 1 - session_->rank(); }

  std::unique_ptr<Session> session_;
};

// A member that trains with such a state as a Pupil, but whose sources are the test's.
class Member {
 public:
  explicit Member(const JoinOptions& options) : words_(WordsOf(7)) {
    auto joined = Session::Join(options);
    EXPECT_TRUE(joined.ok()) << joined.status().text();
    if (!joined.ok()) return;
    session_ = std::move(joined.value());
    Sync({});
  }

  void Step() {
    float one = 1;
    const auto sum = session_->AllReduce(&one, &one, 1, DType::kF32, ReduceOp::kSum);
    ASSERT_TRUE(sum.ok()) << sum.status().text();
    ++steps_;
    if (!sum->update_waits) return;
    const auto updated = session_->UpdateView();
    ASSERT_TRUE(updated.ok()) << updated.status().text();
    Sync({.revision = steps_, .in_use = true});
  }
  const std::vector<std::uint64_t>& words() const { return words_; }
  const std::uint64_t& steps() const { return steps_; }
  const Session& session() const { return *session_; }

 private:
  void Sync(const StateOptions& options) {
    const auto synced = SyncState(
        *session_, {{"words", words_.data(), kLargeBytes, {}}, {"steps", &steps_, sizeof(steps_), {}}}, options);
    EXPECT_TRUE(synced.ok()) << synced.status().text();
  }

  std::vector<std::uint64_t> words_;
  std::uint64_t steps_ = 0;
  std::unique_ptr<Session> session_;
};

class StateSourcesTest : public testing::Test {
 protected:
  void BeginJoin() {
    joined_ = std::async(std::launch::async, [this] { return newcomer_.Join(cluster_.At(1, "job", 1)); });
  }
  // Joins the newcomer's group with the member, as its source.
  ScriptedSource SourceOf(const Member& member) {
    JoinOptions options = cluster_.At(0, GroupWith(member.session().peer_id()), 2);
    options.rejoin_when_evicted = false;
    options.reconnect = Milliseconds(0);
    return ScriptedSource(options);
  }
  // Waits for the group that the newcomer asks for.
  std::string GroupWith(std::uint64_t member) const {
    for (;;) {
      const nlohmann::json status = cluster_.DaemonStatus(1);
      for (const auto& group : status["groups"]) {
        const std::string name = group["name"];
        if (name.find("#state-") != std::string::npos && name.ends_with("-" + std::to_string(member))) return name;
      }
    }
  }
  void ExpectNewcomerHas(const Member& member) {
    const Status joined = joined_.get();
    EXPECT_TRUE(joined.ok()) << joined.text();
    EXPECT_EQ(newcomer_.steps(), member.steps());
    EXPECT_TRUE(newcomer_.words() == member.words());
  }
  // One of two members answers the newcomer's first request so, or not at all; then the other one has to send all.
  void ExpectTheOtherOneSendsAllAfter(std::optional<std::uint64_t> answer) {
    Pupil other({.seed = 7, .is_dense = true});
    auto others_join = std::async(std::launch::async, [&] { return other.Join(cluster_.At(0, "job", 2)); });
    Member member(cluster_.At(0, "job", 2));
    ASSERT_TRUE(others_join.get().ok());
    const auto step = [&] {
      auto others = std::async(std::launch::async, [&] { return other.Step(); });
      member.Step();
      (void)others.get();
    };
    BeginJoin();
    auto source = std::async(std::launch::async, [&] {
      ScriptedSource scripted = SourceOf(member);
      EXPECT_LT(scripted.NextRequest(), kPiecesOfPupil);
      if (answer) scripted.Say(*answer);
      while (scripted.NextRequest() < kPiecesOfPupil) {  // what it asked for before the answer came
      }
      scripted.End();
    });
    while (member.session().world_size() == 2 && !HasFailure()) step();
    source.get();
    EXPECT_TRUE(newcomer_.Waits("has 128 MiB of the state")) << newcomer_.texts();
    ExpectNewcomerHas(member);
  }

  Cluster cluster_{{.daemons = 2}};
  Pupil newcomer_{{}};
  std::future<Status> joined_;
};

TEST_F(StateSourcesTest, SourceThatEndsAgainAndAgainIsTriedAnewAsLongAsItSends) {
  Member member(cluster_.At(0, "job", 1));
  BeginJoin();
  for (int i = 0; i < 2 * internal::kStateTriesMax; ++i) {
    ScriptedSource source = SourceOf(member);
    const std::uint64_t piece = source.NextRequest();
    ASSERT_LT(piece, kPiecesOfPupil) << newcomer_.texts();
    source.Send(piece, member.words(), member.steps());
    source.End();
  }
  SourceOf(member).SendAll(member.words(), member.steps());
  while (member.session().world_size() == 1 && !HasFailure()) member.Step();
  EXPECT_TRUE(newcomer_.Waits("has 128 MiB of the state")) << newcomer_.texts();
  ExpectNewcomerHas(member);
}

TEST_F(StateSourcesTest, SourceThatSendsNothingIsTriedAFewTimes) {
  Member member(cluster_.At(0, "job", 1));
  BeginJoin();
  for (int i = 0; i < internal::kStateTriesMax; ++i) {
    ScriptedSource source = SourceOf(member);
    EXPECT_LT(source.NextRequest(), kPiecesOfPupil);
    source.End();
  }
  while (member.session().world_size() == 1 && !HasFailure()) member.Step();
  EXPECT_TRUE(newcomer_.Waits("has 0 MiB of the state")) << newcomer_.texts();
  ExpectNewcomerHas(member);
}

TEST_F(StateSourcesTest, WrongContentIsReplacedAtTheAdmission) {
  Member member(cluster_.At(0, "job", 1));
  BeginJoin();
  SourceOf(member).SendAll(WordsOf(8), 12345);
  while (member.session().world_size() == 1 && !HasFailure()) member.Step();
  EXPECT_TRUE(newcomer_.Waits("has 128 MiB of the state")) << newcomer_.texts();
  ExpectNewcomerHas(member);
}

TEST_F(StateSourcesTest, OneThatSaysThatTheStateChangesDoesNotSpeakForTheOthers) {
  ExpectTheOtherOneSendsAllAfter(static_cast<std::uint64_t>(Answer::kChanging));
}

// It takes 30 s: the newcomer waits so long for what it has asked the silent one for.
TEST_F(StateSourcesTest, PiecesOfASilentSourceAreTakenFromTheOneThatWaits) {
  ExpectTheOtherOneSendsAllAfter(std::nullopt);
}

TEST_F(StateSourcesTest, UnknownAnswerEndsThatSourceAlone) { ExpectTheOtherOneSendsAllAfter(99); }

}  // namespace
}  // namespace ringway::e2e
