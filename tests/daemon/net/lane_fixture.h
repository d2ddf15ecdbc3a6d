// A lane whose other end the test holds, and a sink that keeps what came.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/net/lane.h"
#include "proto/hash.h"
#include "tests/proto/stream/net_fixture.h"

namespace ringway::net {

inline std::vector<std::byte> Pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>((i * 31 + seed) & 0xff);
  return out;
}

// Puts payloads where the test says, and keeps what came.
class RecordingLaneSink : public LaneSink {
 public:
  using Kind = links::Inbound::Kind;

  Result<links::Inbound> OnLaneHeader(const links::LinkId&, const SegmentHeader& header) override {
    headers.push_back(header);
    if (at_header) at_header();
    if (refuse) return Status(Code::kProtocol, "refused by the test");
    links::Inbound inbound;
    inbound.kind = kind;
    inbound.attempt = 7;
    if (kind == Kind::kDirect) {
      target = std::make_shared<std::vector<std::byte>>(header.payload_bytes);
      inbound.target = target->data();
      inbound.keep = target;
    }
    return inbound;
  }
  Status OnLanePayload(const links::LinkId&, std::span<const std::byte> payload, std::uint64_t hash) override {
    payloads.emplace_back(payload.begin(), payload.end());
    if (at_payload) at_payload();
    if (hash == headers.back().payload_hash) return Status::Ok();
    return {Code::kProtocol, "payload fails its checksum"};
  }
  bool IsAttemptLive(std::uint64_t attempt) override { return live && attempt == 7; }
  void OnLaneIdle() override { ++idle_calls; }
  void OnLaneClosed(const links::LinkId&, const std::string& why) override {
    closed.push_back(why);
    if (at_closed) at_closed();
  }

  Kind kind = Kind::kDirect;
  bool refuse = false;
  bool live = true;
  std::shared_ptr<std::vector<std::byte>> target;
  std::vector<SegmentHeader> headers;
  std::vector<std::vector<std::byte>> payloads;
  std::vector<std::string> closed;
  int idle_calls = 0;
  std::function<void()> at_header;
  std::function<void()> at_payload;
  std::function<void()> at_closed;
};

class LaneFixture : public NetTest {
 protected:
  // Starts it on a new connection, whose other end is other_ then.
  void Start(std::shared_ptr<Lane> lane, std::span<const std::byte> already_read = {}) {
    auto [ours, theirs] = StreamPair();
    lane_ = std::move(lane);
    ours->Unread(already_read);
    lane_->Start(std::move(ours), &sink_);
    other_ = std::move(theirs);
  }
  void TearDown() override {
    if (lane_ != nullptr) lane_->Close();
    Settle();
  }
  static std::array<std::byte, kSegmentHeaderBytes> HeaderOf(std::span<const std::byte> payload) {
    SegmentHeader header;
    header.epoch = Epoch::Of(1, 1);
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    header.payload_hash = Hash64(payload);
    std::array<std::byte, kSegmentHeaderBytes> out{};
    EncodeSegmentHeader(header, out);
    return out;
  }
  static std::vector<std::byte> FrameBytes(const std::vector<std::byte>& payload) {
    const auto header = HeaderOf(payload);
    std::vector<std::byte> out(header.size() + payload.size());
    std::copy(payload.begin(), payload.end(), std::copy(header.begin(), header.end(), out.begin()));
    return out;
  }
  static links::Outbound Outbound(const std::shared_ptr<std::vector<std::byte>>& payload) {
    return {.header = HeaderOf(*payload), .payload = *payload, .keep = payload};
  }
  // Writes as much as the pipe takes, running the lane in between.
  void Feed(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(other_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0)
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
      else if (errno != EAGAIN)
        return;
      Settle();
    }
  }

  static constexpr LaneLabel kLabel{.link = {.other = PeerId(2), .lane = LaneId(1)}, .self = {}};

  RecordingLaneSink sink_;
  std::shared_ptr<Lane> lane_;
  UniqueFd other_;
};

}  // namespace ringway::net
