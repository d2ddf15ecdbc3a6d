// An attempt that sends a buffer to one that receives it, as a send and its recv do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/buffers/trainer_buffers.h"
#include "daemon/transfer/attempt.h"
#include "daemon/transfer/message_queue.h"
#include "proto/collective/schedule.h"

namespace ringway::transfer {

struct Pair {
  static constexpr PeerId kFrom{1};
  static constexpr PeerId kTo{2};
  static constexpr Rank kSender{0};
  static constexpr Rank kReceiver = MessageQueue::kReceiver;
  static constexpr std::uint64_t kBytes = 1000;

  // Their buffers hold 0, 1, 2, ... and zeros.
  Pair() {
    for (std::uint64_t i = 0; i < kBytes; ++i) input[i] = static_cast<std::byte>(i);
    Begin(sender, 1, true);
    Begin(receiver, 1, false);
  }

  // Begins the attempt of message number `seq` of their stream.
  void Begin(Attempt& attempt, std::uint64_t seq, bool sends) {
    attempt.name = {.kind = SegmentKind::kMessage,
                    .op = {ChannelId(), seq},
                    .stream = {.from = kFrom, .to = kTo, .channel = {}, .tag = 0}};
    attempt.buffers = std::make_shared<buffers::TrainerBuffers>(buffers::TrainerBuffers::Places{
        .input = sends ? input.data() : nullptr,
        .input_bytes = sends ? kBytes : 0,
        .input_ready = sends ? kBytes : 0,
        .output = sends ? nullptr : output.data(),
        .output_bytes = sends ? 0 : kBytes,
    });
    collective::Schedule schedule;
    if (sends) {
      schedule.departures.push_back({.to = kReceiver, .source = collective::Source::kInput});
    } else {
      schedule.arrivals.push_back({.from = kSender});
    }
    const collective::Range all{0, kBytes};
    const collective::Range none{};
    attempt.Begin(attempts, nullptr,
                  {.epoch = Epoch(1),
                   .schedule = collective::Share(std::move(schedule)),
                   .options = {.descriptor = {.kind = OpKind::kSend, .schedule = Algorithm::kDirect, .count = kBytes},
                               .shape = {.count = kBytes, .input = sends ? all : none, .output = sends ? none : all},
                               .world_size = 2,
                               .stamp = {},
                               .self = sends ? kSender : kReceiver}});
  }

  // The frame that the sender would send next.
  struct Sent {
    SegmentHeader header;
    std::vector<std::byte> payload;
    links::SentFrame kept;
  };
  Sent Send() {
    const auto ready = sender.executor().PopReady(kReceiver, kPayloadBytesMax);
    links::Outbound out;
    Sent sent;
    (void)sender.Encode(*ready, {}, out, sent.kept);
    sent.header = DecodeSegmentHeader(out.header).value();
    sent.payload.assign(out.payload.begin(), out.payload.end());
    return sent;
  }

  std::array<std::byte, kBytes> input{};
  std::array<std::byte, kBytes> output{};
  Attempts attempts;
  Attempt sender;
  Attempt receiver;
};

}  // namespace ringway::transfer
