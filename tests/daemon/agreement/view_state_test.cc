#include "daemon/agreement/view_state.h"

#include <gtest/gtest.h>

namespace ringway::agreement {
namespace {

View ViewAt(std::uint64_t epoch) {
  View view;
  view.epoch = Epoch(epoch);
  return view;
}

TEST(ViewStateTest, OutsideNothingRuns) {
  const ViewState views;
  EXPECT_FALSE(views.installed());
  EXPECT_FALSE(views.running());
  EXPECT_FALSE(views.IsOld(Epoch(1)));
}

TEST(ViewStateTest, StopFreezesUntilAHigherViewIsInstalled) {
  ViewState views;
  (void)views.Install(ViewAt(5));
  EXPECT_TRUE(views.running());
  views.Stop(Epoch(7));
  EXPECT_TRUE(views.frozen());
  EXPECT_FALSE(views.running());
  EXPECT_TRUE(views.IsOld(Epoch(7))) << "stopped, though never installed here";
  EXPECT_FALSE(views.IsOld(Epoch(8)));
  views.Stop(Epoch(6));
  EXPECT_EQ(views.stop(), Epoch(7)) << "it only grows";
  EXPECT_EQ(views.Install(ViewAt(8)).epoch, Epoch(5));
  EXPECT_TRUE(views.running());
  EXPECT_TRUE(views.IsOld(Epoch(5)));
}

TEST(ViewStateTest, NothingRunsAfterTheEnd) {
  ViewState views;
  (void)views.Install(ViewAt(1));
  views.End();
  EXPECT_TRUE(views.ended());
  EXPECT_FALSE(views.running());
}

}  // namespace
}  // namespace ringway::agreement
