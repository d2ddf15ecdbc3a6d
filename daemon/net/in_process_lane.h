// A lane between two peers of this daemon: no connection, the receiver reads the sender's memory.
//
//   Send --> posted --> header to the other end's sink --> payload --> idle again
//                |
//                +-- its attempt is over at the sender: an empty frame, which the sink skips
//
//   payload         is
//   without a hash  read in place, or copied to its target: nobody else reads it, so it is what was read
//   with one        copied, to its target or here, and hashed then: several ranks keep the value, and the sender's
//                   trainer may write to the memory that it lies in
//
// Each end belongs to its own peer. Close at one end is OnLaneClosed at the other, behind what was sent before. There
// is no connection to keep for later, nor counters.
//
// Threads: that of the loop, on which both peers live. Lifetime: its handlers hold it.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/net/lane.h"

namespace ringway::net {

class InProcessLane final : public Lane, public std::enable_shared_from_this<InProcessLane> {
 public:
  InProcessLane(asio::io_context& context, LaneLabel label, std::uint32_t send_payload_bytes_max)
      : Lane(label, send_payload_bytes_max), context_(context) {}

  // Each is the other's other end. Before they start.
  static void Join(const std::shared_ptr<InProcessLane>& a, const std::shared_ptr<InProcessLane>& b) {
    a->other_ = b;
    b->other_ = a;
  }

  // ---- Lane
  // `stream`: null.
  void Start(std::unique_ptr<Stream> stream, LaneSink* sink) override;
  void Close() override;
  void Retire(Keep keep) override;
  bool idle() const override { return sink_ != nullptr && !sending_ && !other_.expired(); }
  bool Send(links::Outbound outbound) override;
  bool has_connection() const override { return false; }

 private:
  StreamPath* path() override { return nullptr; }
  // The other end's segment.
  void Take(InProcessLane& from);
  void Deliver(const InProcessLane& from, const links::Outbound& outbound);
  // `target`: null for memory of this lane's.
  std::span<const std::byte> CopyOf(std::span<const std::byte> payload, std::byte* target);
  void Fail(const std::string& why);
  void OnOtherClosed();
  void CloseOther();

  asio::io_context& context_;
  std::weak_ptr<InProcessLane> other_;
  LaneSink* sink_ = nullptr;
  bool sending_ = false;
  links::Outbound outbound_;
  std::vector<std::byte> copy_;  // of a payload that has no target, while it is checked
};

}  // namespace ringway::net
