// A prober whose others are played by the test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/flow/prober.h"

namespace ringway::flow {

using std::chrono::milliseconds;
using Step = Prober::Step;

inline const std::set<PeerId> kNoPeer;

class ProberTest : public testing::Test {
 protected:
  static constexpr PeerId kSelf{2};
  static constexpr PeerId kA{3};
  static constexpr PeerId kB{4};

  std::set<PeerId> Tick(bool may_send = true) {
    now_ += milliseconds(100);
    return prober_.Tick(now_, may_send).others;
  }
  void Want(PeerId other, std::uint64_t bytes) { Want(other, "host" + std::to_string(other.value), bytes); }
  void Want(PeerId other, const std::string& host, std::uint64_t bytes) { prober_.Want(other, host, bytes, now_); }
  void On(PeerId from, Step step) { prober_.On(from, step, now_); }
  using Messages = std::vector<Prober::Message>;
  Messages Said() { return prober_.TakeMessages(); }
  // One tick of 50 ms in which the turn's peers, or `others`, were sent this rate each, in bytes per second.
  void Deliver(double rate, const std::set<PeerId>& others) {
    sampled_at_ += milliseconds(50);
    std::vector<PathSample> samples;
    for (const PeerId other : others) {
      samples.push_back(
          {.other = other, .traffic = {.delivered = rate / 20}, .backlogged = true, .round_trip = milliseconds(100)});
    }
    prober_.OnSamples(samples, sampled_at_);
  }
  // The turn's rate rises no more.
  void Settle() {
    for (int tick = 0; tick < 10; ++tick) Deliver(10e6, prober_.turn());
  }
  // A probe of A that has begun.
  void BeginA(std::uint64_t bytes) {
    Want(kA, bytes);
    Tick();
    Tick();
    On(kA, Step::kGrant);
    ASSERT_EQ(prober_.turn(), (std::set{kA}));
    (void)Said();
  }

  std::shared_ptr<ProbeBook> book_ = std::make_shared<ProbeBook>();
  Prober prober_{kSelf, book_};
  TimePoint now_{std::chrono::seconds(10)};
  TimePoint sampled_at_ = now_;
};

}  // namespace ringway::flow
