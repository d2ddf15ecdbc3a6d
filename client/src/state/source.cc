#include "client/src/state/source.h"

#include <algorithm>
#include <string>
#include <utility>

#include "client/src/fork_guard.h"
#include "client/src/no_throw.h"
#include "client/src/session.h"
#include "client/src/state/hashing.h"
#include "proto/device/signals_blocked.h"
#include "proto/local_abi.h"

namespace ringway::internal {
namespace {

constexpr int kLooks = 3;
constexpr int kStepShare = 10;  // of a step's time, one part is for copying
constexpr Milliseconds kNewcomerPatience = std::chrono::seconds(60);
constexpr Milliseconds kSilenceMax = std::chrono::minutes(10);

}  // namespace

Source::Source(std::uint64_t newcomer, const JoinOptions& options, const StateBytes& state, std::size_t places_max)
    : newcomer_(newcomer), places_max_(places_max), generation_(ForkGeneration()) {
  const std::size_t places = std::min(places_max, state.piece_count());
  const std::size_t piece_bytes = std::min(state.bytes(), kStatePieceBytes);
  const device::SignalsBlocked blocked;
  thread_ = std::make_unique<std::thread>([=, this] { Open(options, places, piece_bytes); });
}

Source::~Source() {
  if (generation_ != ForkGeneration()) {  // the thread is the parent's
    (void)thread_.release();
    (void)session_.release();
    return;
  }
  stopped_ = true;
  thread_->join();
  if (session_) session_->Abort();  // the recvs that are posted end with it
}

void Source::Open(JoinOptions options, std::size_t places, std::size_t piece_bytes) {
  const Status opened = NoThrow([&]() -> Status {
    options.interrupted = [this] { return stopped_.load(); };
    auto session = Session::Join(options);
    if (!session.ok()) return session.status();
    session_ = std::move(session.value());
    const std::size_t room = session_->impl_->regions().RoomFor(piece_bytes) / 2;  // the rest is for the training
    while (places_.size() < std::min(places, std::max<std::size_t>(room, 1)) && !stopped_) {
      auto place = session_->Allocate(piece_bytes);
      if (!place.ok()) break;  // it does with fewer, and without any it refuses
      free_.push_back(places_.size());
      places_.push_back(std::move(place.value()));
    }
    return {};
  });
  opening_ = opened.ok() ? Opening::kOpen : Opening::kFailed;
}

bool Source::AtBoundary(StateBytes* state, Clock::time_point until, bool must) {
  const Opening opening = opening_.load();
  if (opening == Opening::kJoining) return true;
  if (opening == Opening::kFailed) return false;
  const Status error = NoThrow([&]() -> Status {
    if (Status failed = Listen(); !failed.ok()) return failed;
    if (Status failed = TakeRequests(); !failed.ok()) return failed;
    if (Status failed = Reap(); !failed.ok()) return failed;
    if (Status failed = LookForChanges(state); !failed.ok()) return failed;
    while (!wanted_.empty() && (std::exchange(must, false) || Clock::now() < until)) {
      if (free_.empty() && !places_.empty()) break;
      if (Status failed = Serve(state, wanted_.front()); !failed.ok()) return failed;
      wanted_.pop_front();
    }
    return {};
  });
  return error.ok() && !is_over_ && Clock::now() - moved_at_ < kSilenceMax;
}

// Keeps a recv posted for each request that may come.
Status Source::Listen() {
  while (listening_.size() < kRequestsMax + 1) {
    Asked asked{.request = std::make_unique<PieceRequest>(), .work = {}};
    auto work = session_->RecvAsync(asked.request.get(), kRequestWords, DType::kU64, 1 - session_->rank(), kRequestTag);
    if (!work.ok()) return work.status();
    asked.work = std::move(work.value());
    listening_.push_back(std::move(asked));
  }
  return {};
}

Status Source::TakeRequests() {
  while (!listening_.empty() && listening_.front().work.Test()) {
    const auto result = listening_.front().work.Wait();
    if (!result.ok()) return result.status();
    const PieceRequest request = *listening_.front().request;
    listening_.pop_front();
    is_over_ = is_over_ || request.piece == PieceRequest::kNoMore;
    if (!is_over_) wanted_.push_back(request);
    if (wanted_.size() > kRequestsMax) return Status(Code::kProtocol, "the newcomer asks for too many pieces at once");
  }
  return Listen();
}

Status Source::Reap() {
  while (!sent_.empty()) {
    for (Work& work : sent_.front().works) {
      if (!work.Test()) return {};
      if (const auto result = work.Wait(); !result.ok()) return result.status();
    }
    if (sent_.front().place < places_.size()) {
      free_.push_back(sent_.front().place);
      moved_at_ = Clock::now();  // requests alone, whatever their number, do not keep the source
    }
    sent_.pop_front();
  }
  return {};
}

// A training that changes all of its state with each step would send what is old by the next.
Status Source::LookForChanges(StateBytes* state) {
  if (looks_ == kLooks || free_.empty()) return {};
  ++looks_;
  std::byte* const place = places_[free_.back()].as<std::byte>();
  const std::size_t middle = state->piece_count() / 2;
  if (Status error = state->Read(middle, 0, state->bytes_of(middle), place); !error.ok()) return error;
  const Hash now = HashOf(place, state->bytes_of(middle));
  if (middle_ && *middle_ != now) ++changes_;
  middle_ = now;
  return {};
}

Status Source::Serve(StateBytes* state, const PieceRequest& request) {
  const std::size_t none = places_.size();
  const bool is_possible = request.layout == state->layout() && request.piece < state->piece_count();
  if (!is_possible || places_.empty()) return Reply(Answer::kRefused, none, 0);
  if (changes_ == kLooks - 1) return Reply(Answer::kChanging, none, 0);
  const std::size_t bytes = state->bytes_of(request.piece);
  std::byte* const content = places_[free_.back()].as<std::byte>();
  if (Status error = state->Read(request.piece, 0, bytes, content); !error.ok()) return error;
  if (HashOf(content, bytes) == request.held) return Reply(Answer::kSame, none, 0);
  const std::size_t place = free_.back();
  free_.pop_back();
  return Reply(Answer::kContent, place, bytes);
}

Status Source::Reply(Answer answer, std::size_t place, std::size_t bytes) {
  has_refused_ = has_refused_ || answer == Answer::kRefused || answer == Answer::kChanging;
  Sent sent{.word = std::make_unique<std::uint64_t>(static_cast<std::uint64_t>(answer)), .works = {}, .place = place};
  const std::uint32_t newcomer = 1 - session_->rank();
  auto word = session_->SendAsync(sent.word.get(), 1, DType::kU64, newcomer, kAnswerTag);
  if (!word.ok()) return word.status();
  sent.works.push_back(std::move(word.value()));
  if (answer == Answer::kContent) {
    auto content = session_->SendAsync(places_[place].data(), bytes, DType::kU8, newcomer, kContentTag);
    if (!content.ok()) return content.status();
    sent.works.push_back(std::move(content.value()));
  }
  sent_.push_back(std::move(sent));
  return {};
}

const Sources::Known* Sources::Find(std::uint64_t newcomer) const {
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const Known& one) { return one.newcomer == newcomer; });
  return found == known_.end() ? nullptr : &*found;
}

Sources::Known& Sources::Remember(std::uint64_t newcomer) {
  for (Known& known : known_) {
    if (known.newcomer == newcomer) return known;
  }
  if (known_.size() == kKnownMax) known_.pop_front();
  return known_.emplace_back(Known{.newcomer = newcomer});
}

bool Sources::IsNext(std::uint64_t newcomer) const {
  const Known* const known = Find(newcomer);
  const auto is_its = [&](const auto& source) { return source->newcomer() == newcomer; };
  return (known == nullptr || known->tries < kStateTriesMax) && std::none_of(sources_.begin(), sources_.end(), is_its);
}

bool Sources::AreAsked(const std::vector<std::uint64_t>& newcomers) const {
  return !sources_.empty() || std::any_of(newcomers.begin(), newcomers.end(), [this](auto one) { return IsNext(one); });
}

void Sources::Clear() {
  for (const auto& source : sources_) --Remember(source->newcomer()).tries;  // it has not failed
  sources_.clear();
}

std::size_t Sources::NextPlaces() const {
  std::size_t left = kPlacesMax;
  for (const auto& source : sources_) left -= source->places_max();
  const std::size_t spare = left - (abi::kNewcomersMax - sources_.size());
  return 1 + spare - spare / 4;
}

void Sources::Begin(std::uint64_t newcomer, const JoinOptions& options, const std::string& group,
                    const StateBytes& state) {
  ++Remember(newcomer).tries;
  JoinOptions theirs;
  theirs.socket_path = options.socket_path;
  theirs.group = group;
  theirs.wait_world = 2;
  theirs.evict_hung_after = Milliseconds(0);
  theirs.timeout = kNewcomerPatience;
  theirs.reconnect = Milliseconds(0);
  theirs.rejoin_when_evicted = false;
  // Without memory or a thread for it the newcomer takes the state when it is admitted.
  (void)NoThrow([&] {
    sources_.push_back(std::make_unique<Source>(newcomer, theirs, state, NextPlaces()));
    return Status();
  });
}

void Sources::AtBoundary(const JoinOptions& options, std::uint64_t self, const std::vector<std::uint64_t>& newcomers,
                         StateBytes* state) {
  const auto begin = Source::Clock::now();
  const auto asks_no_more = [&](const std::unique_ptr<Source>& source) {
    return source->is_joining() && std::find(newcomers.begin(), newcomers.end(), source->newcomer()) == newcomers.end();
  };
  std::erase_if(sources_, asks_no_more);
  for (const std::uint64_t newcomer : newcomers) {
    const std::string group = abi::StateGroup(options.group, newcomer, self);
    if (sources_.size() == abi::kNewcomersMax || group.size() >= abi::kGroupNameBytes) continue;
    if (IsNext(newcomer)) Begin(newcomer, options, group, *state);
  }
  if (!sources_.empty()) {
    const auto step = begin - last_.value_or(begin);
    ++turn_;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      auto& source = sources_[(turn_ + i) % sources_.size()];
      if (source->AtBoundary(state, begin + step / kStepShare, i == 0)) continue;
      if (source->is_final()) Remember(source->newcomer()).tries = kStateTriesMax;
      source.reset();
    }
    std::erase(sources_, nullptr);
  }
  last_ = Source::Clock::now();
}

}  // namespace ringway::internal
