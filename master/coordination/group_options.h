// The settings of a group. A value.
#pragma once

#include <chrono>
#include <memory>

#include "master/planning/price_list.h"
#include "proto/clock.h"
#include "proto/control.pb.h"

namespace ringway {

struct Pricing {
  std::shared_ptr<const PriceList> list = nullptr;  // null: nothing has a price
  bool prefer_cheap = false;                        // plans may be slower (kCheapRatio) to cost less
};

struct GroupOptions {
  control::Plan plan;
  Duration detect = std::chrono::milliseconds(3000);
  Duration detect_far = detect;             // for views whose members are far apart
  Duration back = std::chrono::seconds(3);  // time that a daemon needs to reconnect
  Duration grace = std::chrono::seconds(30);
  Duration forget = std::chrono::hours(1);
  Pricing pricing = {};
  Duration weigh = std::chrono::milliseconds(300);  // wait for contradicting accusations
};

}  // namespace ringway
