// Scripts of member reports, in orders that hardly any world brings about, and what the coordinator decides.
#pragma once

#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway::sim {

class MasterScript : public CoordinatorTest {
 public:
  void TestBody() override {}

  // Members 2 and 3 of five have reported and die; then 1, which the master hears, accuses both.
  void AccuseTheDead() {
    Form(5);
    const std::uint64_t epoch = ViewOf(1).epoch();
    for (const std::uint64_t member : {2, 3, 4, 5}) Say(member, Report(member, epoch));
    for (const std::uint64_t dead : {2, 3}) {
      coordinator_->OnDisconnect(dead, Contact::kSilent, now_);
      said_hello_.erase(dead);
    }
    Collect();
    Say(1, Report(1, epoch, {2, 3}));
    Wait(kGrace, {1, 4, 5});
  }

  // Member 1 alone has adopted a newcomer's view when it is cut off from the others.
  void AdoptAlone() {
    Form(3);
    const std::uint64_t prepared = Newcomer(4, {1, 2, 3});
    control::ToMaster adopter = Report(1, prepared, {2, 3});
    adopter.mutable_report()->set_epoch(prepared);
    Say(1, adopter);
    for (const std::uint64_t member : {2, 3}) Say(member, Report(member, prepared, {1}));
    Wait(kDetect, {1, 2, 3, 4});
    EXPECT_EQ(ViewOf(2).members_size(), 2);
  }

  // A newcomer has lost member 2 before it is in.
  void LoseANewcomersLink() {
    Form(3);
    const std::uint64_t prepared = Newcomer(4, {1, 2, 3});
    Say(4, Report(4, prepared, {2}));
    for (const std::uint64_t member : {1, 2, 3}) Say(member, Report(member, prepared));
    EXPECT_EQ(ViewOf(1).members_size(), 3);
    EXPECT_TRUE(Has(4, &control::FromMaster::has_evicted));
  }
};

}  // namespace ringway::sim
