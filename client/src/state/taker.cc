#include "client/src/state/taker.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "client/src/no_throw.h"
#include "client/src/state/hashing.h"
#include "proto/device/signals_blocked.h"
#include "proto/local_abi.h"

namespace ringway::internal {
namespace {

constexpr Milliseconds kFirstPatience = std::chrono::seconds(60);      // for anything from any member
constexpr Milliseconds kPatience = std::chrono::minutes(5);            // for the next piece
constexpr Milliseconds kStragglerPatience = std::chrono::seconds(30);  // of members that have sent all
constexpr Milliseconds kLook = Milliseconds(100);
constexpr Milliseconds kLookForAnswers = Milliseconds(20);  // while content is on its way
constexpr std::size_t kContentsMax = 4;                     // recvs of pieces that are posted at once
constexpr int kRoundsMax = 8;
constexpr std::size_t kSamples = 4;
constexpr std::size_t kLittleBytes = std::size_t{1}
                                     << 20;  // counters change with each step; nobody waits for so little

std::string Mebibytes(std::size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

Status ReplacedPieces::Replace(std::size_t piece, std::unique_ptr<std::byte[]> content) {
  const std::size_t bytes = state_->bytes_of(piece);
  if (!before_.contains(piece)) {
    auto before = std::make_unique_for_overwrite<std::byte[]>(bytes);
    if (Status error = state_->Read(piece, 0, bytes, before.get()); !error.ok()) return error;
    before_[piece] = std::move(before);
  }
  Pieces one;
  one[piece] = std::move(content);
  return state_->Write(one);
}

std::size_t ReplacedPieces::bytes() const {
  std::size_t bytes = 0;
  for (const auto& [piece, content] : before_) bytes += state_->bytes_of(piece);
  return bytes;
}

// Fetches from one member, on a thread of its own.
class Taker::Fetcher {
 public:
  Fetcher(Taker* taker, JoinOptions options) : taker_(*taker), options_(std::move(options)) {}

  void Run() {
    bool is_over = false;
    for (int tries = 0; tries < kStateTriesMax && !is_over; ++tries) {
      const Status fetched = NoThrow([&] { return Fetch(); });
      is_over = fetched.ok() || fetched.code() == Code::kNotSupported || gave_up_ || taker_.stopped();
      if (std::exchange(has_delivered_, false)) tries = 0;  // others' admissions end groups of two, which is no failure
      (void)NoThrow([&] { return ReturnPieces(); });
      (void)NoThrow([&]() -> Status {
        if (session_) session_->Abort();
        return {};
      });
      asked_.clear();
      contents_.clear();
      session_.reset();
    }
    taker_.OnFetcherOver();
  }

 private:
  struct Asked {
    std::uint64_t piece = 0;
    std::unique_ptr<PieceRequest> request;
    std::unique_ptr<std::uint64_t> answer;
    Work sent;
    Work answered;
  };
  struct Content {
    std::uint64_t piece = 0;
    std::unique_ptr<std::byte[]> bytes;
    Work work;
    std::optional<Clock::time_point> until = {};  // since it is the next
  };

  Status Fetch() {
    options_.interrupted = [this] { return taker_.stopped() || IsStraggler(); };
    auto session = Session::Join(options_);
    if (!session.ok()) return session.status();
    session_ = std::move(session.value());
    member_ = 1 - session_->rank();
    for (;;) {
      while (const auto request = taker_.NextRequest(asked_.size() + contents_.size())) {
        if (Status error = Ask(*request); !error.ok()) return error;
      }
      if (asked_.empty() && contents_.empty()) return SayNoMore();
      if (IsStraggler()) return Status(Code::kTimeout, "other members are done");
      const bool has_room = contents_.size() < kContentsMax;
      if (!asked_.empty() && has_room && (contents_.empty() || asked_.front().answered.Test())) {
        if (Status error = TakeAnswer(); !error.ok()) return error;
      } else if (!contents_.empty()) {
        if (Status error = TakeContent(); !error.ok()) return error;
      }
    }
  }

  // Returns whether it has to leave its pieces to the fetchers that wait.
  bool IsStraggler() {
    gave_up_ = gave_up_ || (asked_.size() + contents_.size() > 0 && taker_.leaves_pieces());
    return gave_up_;
  }

  Status Ask(const PieceRequest& request) {
    asked_.push_back({.piece = request.piece,
                      .request = std::make_unique<PieceRequest>(request),
                      .answer = std::make_unique<std::uint64_t>(),
                      .sent = {},
                      .answered = {}});
    Asked& asked = asked_.back();
    auto sent = session_->SendAsync(asked.request.get(), kRequestWords, DType::kU64, member_, kRequestTag);
    if (!sent.ok()) return sent.status();
    asked.sent = std::move(sent.value());
    auto answered = session_->RecvAsync(asked.answer.get(), 1, DType::kU64, member_, kAnswerTag);
    if (!answered.ok()) return answered.status();
    asked.answered = std::move(answered.value());
    return {};
  }

  Status TakeAnswer() {
    Asked& asked = asked_.front();
    if (const auto result = asked.answered.Wait(kPatience); !result.ok()) return result.status();
    if (const auto result = asked.sent.Wait(kPatience); !result.ok()) return result.status();
    const std::uint64_t piece = asked.piece;
    const std::uint64_t answer = *asked.answer;
    if (answer == static_cast<std::uint64_t>(Answer::kContent)) {
      const std::size_t bytes = taker_.state_.bytes_of(piece);
      Content content{.piece = piece, .bytes = std::make_unique_for_overwrite<std::byte[]>(bytes), .work = {}};
      auto work = session_->RecvAsync(content.bytes.get(), bytes, DType::kU8, member_, kContentTag);
      if (!work.ok()) return work.status();
      content.work = std::move(work.value());
      contents_.push_back(std::move(content));
      asked_.pop_front();
      return {};
    }
    if (answer == static_cast<std::uint64_t>(Answer::kSame)) {
      asked_.pop_front();
      taker_.OnSame();
      has_delivered_ = true;
      return {};
    }
    if (answer == static_cast<std::uint64_t>(Answer::kChanging)) taker_.OnChanging();
    return Status(Code::kNotSupported, "the member sends no state");
  }

  // Returns before the content has come, too: the next answer may be there, whose content is to travel beside it.
  Status TakeContent() {
    Content& content = contents_.front();
    if (!content.until) content.until = Clock::now() + kPatience;
    const auto result = content.work.Wait(kLookForAnswers);
    if (result.status().code() == Code::kTimeout && Clock::now() < *content.until) return {};
    if (!result.ok()) return result.status();
    if (Status error = taker_.OnContent(content.piece, std::move(content.bytes)); !error.ok()) return error;
    contents_.pop_front();
    has_delivered_ = true;
    return {};
  }

  Status ReturnPieces() {
    std::vector<std::uint64_t> left;
    for (const Asked& asked : asked_) left.push_back(asked.piece);
    for (const Content& content : contents_) left.push_back(content.piece);
    taker_.Return(left);
    return {};
  }

  Status SayNoMore() {
    PieceRequest last;
    const auto sent = session_->SendAsync(&last, kRequestWords, DType::kU64, member_, kRequestTag);
    if (!sent.ok()) return sent.status();
    return session_->Leave(std::chrono::seconds(1));
  }

  Taker& taker_;
  JoinOptions options_;
  std::unique_ptr<Session> session_;
  std::uint32_t member_ = 0;
  bool has_delivered_ = false;  // since it was last joined
  bool gave_up_ = false;
  std::deque<Asked> asked_;
  std::deque<Content> contents_;
};

// The threads of the fetchers. It stops and joins them when it ends, also by an exception.
class Taker::Threads {
 public:
  Threads(Taker* taker, const std::vector<std::unique_ptr<Fetcher>>& fetchers) : taker_(*taker) {
    const device::SignalsBlocked blocked;
    (void)NoThrow([&]() -> Status {
      for (const auto& fetcher : fetchers) threads_.emplace_back([&fetcher] { fetcher->Run(); });
      return {};
    });
    for (std::size_t i = threads_.size(); i < fetchers.size(); ++i) taker_.OnFetcherOver();
  }
  ~Threads() {
    taker_.Stop();
    for (std::thread& thread : threads_) thread.join();
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  Taker& taker_;
  std::vector<std::thread> threads_;
};

// ---------------------------------------------------------------------------------------------- what fetchers report

bool Taker::stopped() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopped_;
}

bool Taker::leaves_pieces() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return leaves_pieces_;
}

// Half of what is left, in equal parts, is on order: a slow member that had many pieces to send would send alone at the
// end. Two at least, for it answers at the end of a step.
std::size_t Taker::PendingMax() const {
  constexpr std::size_t kMin = 2;
  return std::clamp((wanted_.size() + asked_) / (2 * std::max<std::size_t>(fetchers_, 1)), kMin, kRequestsMax);
}

std::optional<PieceRequest> Taker::NextRequest(std::size_t pending) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (pending == 0) {
    ++idle_;
    changed_.wait(lock, [this] { return stopped_ || !wanted_.empty(); });
    --idle_;
  }
  if (stopped_ || wanted_.empty() || pending >= PendingMax()) return std::nullopt;
  const std::uint64_t piece = wanted_.front();
  wanted_.pop_front();
  ++asked_;
  return PieceRequest{.layout = state_.layout(), .piece = piece, .held = taken_.held[piece]};
}

void Taker::Return(const std::vector<std::uint64_t>& pieces) {
  const std::lock_guard<std::mutex> lock(mutex_);
  asked_ -= pieces.size();
  if (!pieces.empty()) leaves_pieces_ = false;  // who takes them over does not leave them
  wanted_.insert(wanted_.end(), pieces.begin(), pieces.end());
  changed_.notify_all();
}

void Taker::OnSame() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Moved();
}

Status Taker::OnContent(std::uint64_t piece, std::unique_ptr<std::byte[]> content) {
  const Hash hash = HashOf(content.get(), state_.bytes_of(piece));
  const std::lock_guard<std::mutex> lock(mutex_);
  taken_.held[piece] = {};
  if (Status error = taken_.replaced.Replace(piece, std::move(content)); !error.ok()) return error;
  taken_.held[piece] = hash;
  round_bytes_ += state_.bytes_of(piece);
  Moved();
  return {};
}

void Taker::Moved() {
  --asked_;
  has_begun_ = true;
  moved_at_ = Clock::now();
  changed_.notify_all();
}

void Taker::OnChanging() {
  const std::lock_guard<std::mutex> lock(mutex_);
  one_says_changing_ = true;
}

void Taker::OnFetcherOver() {
  const std::lock_guard<std::mutex> lock(mutex_);
  --fetchers_;
  changed_.notify_all();
}

// ---------------------------------------------------------------------------------------------- on Join's thread

std::chrono::seconds Taker::LimitFor(std::size_t bytes) {
  return std::chrono::minutes(10) + std::chrono::seconds(bytes >> 20);
}

void Taker::Take(const HeldMembership& membership) {
  const std::size_t members = std::min(membership.members.size(), kMembersMax);
  Say("takes the state, " + Mebibytes(state_.bytes()) + ", from " + std::to_string(members) +
      " members, before it is admitted");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = one_says_changing_ = is_changing_ = is_late_ = has_begun_ = leaves_pieces_ = false;
    fetchers_ = members;
    wanted_.clear();
    asked_ = 0;
  }
  std::vector<std::unique_ptr<Fetcher>> fetchers;
  for (std::size_t i = 0; i < members; ++i) fetchers.push_back(MakeFetcher(membership, membership.members[i]));
  {
    const Threads threads(this, fetchers);
    // Members wait for a minute in their groups, and hashing a large state may take longer: they form meanwhile.
    if (!HashOwn().ok()) return;  // the exchange after the admission reports it
    TakeInRounds();
  }
  SayHowItEnded();
}

void Taker::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

Status Taker::HashOwn() {
  if (!taken_.own.empty()) return {};
  auto own = state_.Hashes();
  if (!own.ok()) return own.status();
  const std::lock_guard<std::mutex> lock(mutex_);
  taken_.held = own.value();
  taken_.own = std::move(own.value());
  return {};
}

// One round asks for everything; then a sample shows whether to compare it all again.
void Taker::TakeInRounds() {
  std::unique_lock<std::mutex> lock(mutex_);
  moved_at_ = Clock::now();
  ends_at_ = moved_at_ + limit_;
  const std::size_t count = state_.piece_count();
  std::size_t before = SIZE_MAX;
  for (int round = 0; round < kRoundsMax; ++round) {
    round_bytes_ = 0;
    std::set<std::size_t> asked;
    const auto ask = [&](std::size_t piece) {
      if (asked.insert(piece).second) wanted_.push_back(piece);
    };
    if (round > 0) {
      for (std::size_t i = 0; i < kSamples; ++i) ask(i * count / kSamples);
      if (!AwaitRound(&lock) || round_bytes_ <= kLittleBytes) return;
    }
    for (std::size_t piece = 0; piece < count; ++piece) ask(piece);
    if (!AwaitRound(&lock) || round_bytes_ <= kLittleBytes || round_bytes_ >= before) return;
    before = round_bytes_;
  }
}

// Returns whether all that was asked for is there; false if it is not and will not be.
bool Taker::AwaitRound(std::unique_lock<std::mutex>* lock) {
  leaves_pieces_ = false;
  changed_.notify_all();
  std::optional<Clock::time_point> idle_since;  // a fetcher waits for what others were asked for
  for (;;) {
    if (wanted_.empty() && asked_ == 0) return true;
    const Clock::time_point now = Clock::now();
    const bool one_is_idle = wanted_.empty() && idle_ > 0 && !leaves_pieces_;
    if (!one_is_idle) idle_since.reset();
    if (one_is_idle && !idle_since) idle_since = now;
    if (idle_since && now - *idle_since >= kStragglerPatience) leaves_pieces_ = true;
    is_changing_ = fetchers_ == 0 && one_says_changing_;
    is_late_ = now >= ends_at_;
    if (fetchers_ == 0 || is_late_ || now - moved_at_ > (has_begun_ ? kPatience : kFirstPatience)) return false;
    changed_.wait_for(*lock, kLook);
    lock->unlock();
    const bool is_interrupted = options_.interrupted && options_.interrupted();
    lock->lock();
    if (is_interrupted) return false;
  }
}

std::unique_ptr<Taker::Fetcher> Taker::MakeFetcher(const HeldMembership& membership, std::uint64_t member) {
  JoinOptions options;
  options.socket_path = options_.socket_path;
  options.group = abi::StateGroup(options_.group, membership.peer_id, member);
  options.wait_world = 2;
  options.evict_hung_after = Milliseconds(0);
  options.timeout = kPatience;
  options.reconnect = Milliseconds(0);
  options.rejoin_when_evicted = false;
  return std::make_unique<Fetcher>(this, options);
}

void Taker::Say(const std::string& text) const {
  if (options_.on_waiting) options_.on_waiting(Status(Code::kOk, text));
}

void Taker::SayHowItEnded() {
  if (is_changing_) {
    taken_.error = taken_.replaced.PutBack();
    taken_.held = taken_.own;
    return Say("the state changes with each step: it is taken at the admission");
  }
  Say("has " + Mebibytes(taken_.replaced.bytes()) + " of the state; what differs is taken at the admission" +
      (is_late_      ? ": the members send it too slowly"
       : !has_begun_ ? ": the members sent nothing before it"
                     : ""));
}

}  // namespace ringway::internal
