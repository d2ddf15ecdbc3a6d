#include "tests/e2e/flood.h"

#include <chrono>
#include <utility>

#include "proto/frame_codec.h"

namespace ringway::e2e {

Flood::Flood(std::string address, std::string group)
    : address_(std::move(address)), group_(std::move(group)), thread_([this] { Run(); }) {}

Flood::~Flood() {
  ends_ = true;
  thread_.join();
}

// The oldest make room for new ones, and each time one of those that are open says a byte more. Some thousands a
// second: the machine has not many more ports, and is to have time for something else.
void Flood::Run() {
  constexpr std::chrono::microseconds kPace(300);
  while (!ends_) {
    open_.push_back(Intruder::ToPort(address_));
    open_.back().Say(Words(opened_++));
    if (open_.size() > kAtOnce) open_.pop_front();
    open_[opened_ * 7919 % open_.size()].Say(std::string(1, '\x01'));
    std::this_thread::sleep_for(kPace);
  }
  open_.clear();
}

std::string Flood::Words(std::size_t number) const {
  constexpr int kRequests = 100;
  control::ToMaster message;
  std::string words;
  switch (number % 5) {
    case 0:
      return "GET / HTTP/1.1\r\nHost: " + std::string(2000, 'x') + "\r\n\r\n";
    case 1:
      return {};
    case 2:
      message.mutable_hello()->set_name(std::string(3000, 'y'));
      AppendFrame(message, words);
      return words.substr(0, words.size() - 1 - number % 2000);
    case 3:
      message.mutable_status();
      break;
    default:
      message.mutable_plan()->set_group(group_);
      message.mutable_plan()->set_bytes(1 + number);
  }
  for (int i = 0; i < kRequests; ++i) AppendFrame(message, words);
  return words;
}

}  // namespace ringway::e2e
