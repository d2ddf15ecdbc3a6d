#include "daemon/agreement/paths.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace ringway::agreement {
namespace {

// The operator's limit is all that the uplink carries: nothing has to be measured for that.
class AllowedTest : public testing::Test, private Links::Listener {
 protected:
  static PeerOptions OptionsWith(const std::shared_ptr<flow::ProbeBook>& book) {
    PeerOptions options;
    options.probes = book;
    return options;
  }
  AllowedTest() : ctx_(PeerId(1), "g", OptionsWith(book_)), links_(ctx_, attempts_, *this), paths_(ctx_, links_) {}

  // Returns the uplink's rates that were reported to the master.
  std::vector<std::uint64_t> ReportedRates() {
    std::vector<std::uint64_t> rates;
    for (const Action& action : ctx_.TakeActions()) {
      const auto* said = std::get_if<ToMaster>(&action);
      if (said == nullptr || !said->message.has_measured()) continue;
      EXPECT_EQ(said->message.measured().peer(), 1U);
      EXPECT_EQ(said->message.measured().other(), 0U);
      rates.push_back(said->message.measured().bytes_per_second());
    }
    return rates;
  }

  void OnLaneDown(const LinkId&) override {}
  void OnFrameLost(PeerId, const links::SentFrame&) override {}
  void OnFrameRefused(const links::SentFrame&) override {}
  void OnFault(const std::vector<PeerId>&, const std::string&) override {}

  std::shared_ptr<flow::ProbeBook> book_ = std::make_shared<flow::ProbeBook>();
  Context ctx_;
  transfer::Attempts attempts_;
  Links links_;
  Paths paths_;
};

using Rates = std::vector<std::uint64_t>;

TEST_F(AllowedTest, NothingIsSaidWhereAnyRateIsAllowed) {
  paths_.OnStanding(PeerId(2), {});
  paths_.Tick(false);
  EXPECT_EQ(ReportedRates(), Rates());
}

TEST_F(AllowedTest, LimitIsSaidWhenAPairStandsAndWhenItChanges) {
  book_->SetAllowed(1000);
  paths_.OnStanding(PeerId(2), {});
  EXPECT_EQ(ReportedRates(), Rates{1000});
  paths_.OnStanding(PeerId(3), {});
  paths_.Tick(false);
  EXPECT_EQ(ReportedRates(), Rates()) << "once";
  book_->SetAllowed(700);
  paths_.Tick(false);
  EXPECT_EQ(ReportedRates(), Rates{700});
  paths_.Repeat();
  EXPECT_EQ(ReportedRates(), Rates{700}) << "the master may have missed it";
  book_->uplink().rate = 900;
  book_->SetAllowed(2000);
  paths_.Tick(false);
  EXPECT_EQ(ReportedRates(), Rates{900}) << "it carries no more";
  book_->uplink().rate = 0;
  book_->SetAllowed(0);
  paths_.Tick(false);
  EXPECT_EQ(ReportedRates(), Rates{100'000'000'000}) << "any rate, as far as is known";
}

}  // namespace
}  // namespace ringway::agreement
