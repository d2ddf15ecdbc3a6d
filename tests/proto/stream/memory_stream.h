// Two streams (proto/stream/stream.h) that are each other's other end, in memory, with what networks and kernels do to
// a connection on demand: cuts, stalls, wake-ups for nothing, an end or an error at any byte, a flipped byte, delays,
// silence.
//
//   MemoryPair pair({.a_to_b = {.seed = 7, .piece_max = 3}});  // pair.a, pair.b
//
// Threads: as every stream; the two ends may be on different ones.
#pragma once

#include <algorithm>
#include <asio/post.hpp>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "proto/check.h"
#include "proto/stream/stream.h"
#include "proto/stream/timer.h"

namespace ringway::net {

// The faults of one direction.
struct MemoryFaults {
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  std::uint64_t seed = 0;                // of what is random; 0: nothing is
  std::size_t capacity = 64 * 1024;      // bytes that are written and not read, at most
  std::size_t piece_max = kNever;        // bytes that one call moves, at most; random up to it
  std::uint32_t stall_percent = 0;       // of calls that would block though they need not, and wake-ups for nothing
  std::size_t flip_at = kNever;          // this byte arrives with a flipped bit
  std::size_t read_breaks_at = kNever;   // so many bytes are read before `breaks`
  std::size_t write_breaks_at = kNever;  // so many bytes are written before `breaks`
  StreamIo::Kind breaks = StreamIo::Kind::kEnd;
  Duration delay{};  // until who waits at one end hears of what the other one did
};

struct MemoryOptions {
  MemoryFaults a_to_b = {};
  MemoryFaults b_to_a = {};
  StreamPeer peer = {.source = "memory", .loopback = true, .within_host = true};  // of both ends
};

namespace memory {

// The waiter at one side of a pipe, at most one.
struct Wait {
  asio::io_context* loop = nullptr;
  std::shared_ptr<StreamSink> waiter;
  void (StreamSink::*call)() = nullptr;

  void Wake(Duration delay) {
    if (waiter == nullptr) return;
    auto hear = [one = std::exchange(waiter, nullptr), how = call] { (one.get()->*how)(); };
    if (delay == Duration()) return asio::post(*loop, std::move(hear));
    const auto timer = std::make_shared<Timer>(*loop);
    timer->After(delay, [timer, hear = std::move(hear)] { hear(); });
  }
};

// One direction.
class Pipe {
 public:
  explicit Pipe(const MemoryFaults& faults) : faults_(faults), random_(faults.seed) {}

  StreamIo Write(WriteParts from) {
    const std::scoped_lock lock(mutex_);
    if (closed_) return Broken(StreamIo::Kind::kEnd);
    if (written_ >= faults_.write_breaks_at) return Broken(faults_.breaks);
    std::size_t wanted = 0;
    for (const std::span<const std::byte> part : from) wanted += part.size();
    // Then a kernel has room.
    const bool has_room = written_ == 0 || (bytes_.empty() && wanted <= kLittle);
    const std::size_t most = std::min({has_room ? MemoryFaults::kNever : Piece(), faults_.capacity - bytes_.size(),
                                       faults_.write_breaks_at - written_});
    if (most == 0 || (!has_room && Stalls())) return {};
    std::size_t moved = 0;
    for (const std::span<const std::byte> part : from) {
      const std::size_t bytes = std::min(part.size(), most - moved);
      bytes_.append(reinterpret_cast<const char*>(part.data()), bytes);
      moved += bytes;
    }
    if (faults_.flip_at >= written_ && faults_.flip_at < written_ + moved) {
      char& flipped = bytes_[bytes_.size() - moved + (faults_.flip_at - written_)];
      flipped = static_cast<char>(flipped ^ 0x10);
    }
    written_ += moved;
    WakeReader();
    return {.kind = StreamIo::Kind::kBytes, .bytes = moved};
  }
  StreamIo Read(ReadParts into) {
    const std::scoped_lock lock(mutex_);
    if (silent_) return {};
    if (read_ >= faults_.read_breaks_at) return Broken(faults_.breaks);
    if (bytes_.empty() && closed_) return Broken(StreamIo::Kind::kEnd);
    const std::size_t most = std::min({Piece(), bytes_.size(), faults_.read_breaks_at - read_});
    if (most == 0 || Stalls()) return {};
    std::size_t moved = 0;
    for (const std::span<std::byte> part : into) {
      const std::size_t bytes = std::min(part.size(), most - moved);
      if (bytes > 0) std::memcpy(part.data(), bytes_.data() + moved, bytes);
      moved += bytes;
    }
    bytes_.erase(0, moved);
    read_ += moved;
    writer_.Wake(faults_.delay);
    return {.kind = StreamIo::Kind::kBytes, .bytes = moved};
  }
  void AwaitRead(Wait wait) {
    const std::scoped_lock lock(mutex_);
    RINGWAY_CHECK(reader_.waiter == nullptr);
    reader_ = std::move(wait);
    if (!bytes_.empty() || closed_ || read_ >= faults_.read_breaks_at || Stalls()) WakeReader();
  }
  void AwaitWrite(Wait wait) {
    const std::scoped_lock lock(mutex_);
    RINGWAY_CHECK(writer_.waiter == nullptr);
    writer_ = std::move(wait);
    if (bytes_.size() < faults_.capacity || closed_ || written_ >= faults_.write_breaks_at || Stalls())
      writer_.Wake(faults_.delay);
  }
  void StopReading() {
    const std::scoped_lock lock(mutex_);
    reader_ = {};
  }
  void StopWriting() {
    const std::scoped_lock lock(mutex_);
    writer_ = {};
  }
  // Returns how often its writer's counters were read.
  std::size_t looks() const { return looks_; }
  void OnLook() { ++looks_; }
  // Bytes per second that its writer's kernel would be limited to; 0: no limit.
  double pace() const { return pace_; }
  void SetPace(double bytes_per_second) { pace_ = bytes_per_second; }
  // How often its writer's congestion control was reset.
  int renewals() const { return renewals_; }
  void Renew() { ++renewals_; }
  std::size_t read_bytes() {
    const std::scoped_lock lock(mutex_);
    return read_;
  }
  // Closes the pipe; written bytes can still be read.
  void Close() {
    const std::scoped_lock lock(mutex_);
    if (silent_) return;
    closed_ = true;
    WakeReader();
    writer_.Wake(faults_.delay);
  }
  // Drops everything from now on, even the end of the stream, and reports nothing.
  void Silence() {
    const std::scoped_lock lock(mutex_);
    silent_ = true;
  }
  // Drops what waits, as an event loop does that ends: it may hold the stream that it waits for.
  void StopWaiting() {
    std::unique_lock lock(mutex_);
    const Wait reader = std::exchange(reader_, {});
    const Wait writer = std::exchange(writer_, {});
    lock.unlock();
  }
  Duration delay() const { return faults_.delay; }

 private:
  static constexpr std::size_t kLittle = 80;  // less than the header of a segment

  static StreamIo Broken(StreamIo::Kind kind) { return {.kind = kind, .bytes = 0, .why = "the test ends it"}; }
  std::size_t Piece() {
    if (faults_.seed == 0 || faults_.piece_max == MemoryFaults::kNever) return faults_.piece_max;
    return std::uniform_int_distribution<std::size_t>(1, faults_.piece_max)(random_);
  }
  void WakeReader() {
    if (!silent_) reader_.Wake(faults_.delay);
  }
  bool Stalls() { return faults_.stall_percent > 0 && random_() % 100 < faults_.stall_percent; }

  std::mutex mutex_;
  const MemoryFaults faults_;
  std::mt19937_64 random_;
  std::string bytes_;
  std::atomic<std::size_t> looks_ = 0;
  std::atomic<double> pace_ = 0;
  std::atomic<int> renewals_ = 0;
  std::size_t written_ = 0;
  std::size_t read_ = 0;
  bool closed_ = false;
  bool silent_ = false;
  Wait reader_;
  Wait writer_;
};

// Both directions, seen from one end.
struct Ends {
  std::shared_ptr<Pipe> in;
  std::shared_ptr<Pipe> out;
};

class Path final : public StreamPath {
 public:
  explicit Path(Ends ends) : ends_(std::move(ends)) {}

  LaneTraffic Traffic() const override {
    ends_.out->OnLook();
    return {.delivered_bytes = ends_.out->read_bytes(), .round_trip = RoundTrip()};
  }
  Duration RoundTrip() const override { return ends_.in->delay() + ends_.out->delay(); }
  void Tune(LinkTuning) override {}
  void SetPace(double bytes_per_second) override { ends_.out->SetPace(bytes_per_second); }
  void Renew() override { ends_.out->Renew(); }
  void Shutdown() override {
    ends_.in->Close();
    ends_.out->Close();
  }

 private:
  Ends ends_;
};

}  // namespace memory

class MemoryStream final : public Stream {
 public:
  MemoryStream(const memory::Ends& ends, StreamPeer peer) : ends_(ends), peer_(std::move(peer)), path_(ends) {}
  ~MemoryStream() override {
    MemoryStream::Detach();
    path_.Shutdown();
  }

  Status Attach(asio::io_context& loop) override {
    RINGWAY_CHECK(std::exchange(loop_, &loop) == nullptr);
    return Status::Ok();
  }
  void Detach() override {
    loop_ = nullptr;
    ends_.in->StopReading();
    ends_.out->StopWriting();
  }
  StreamIo Write(WriteParts from) override { return ends_.out->Write(from); }
  void AwaitRead(std::shared_ptr<StreamSink> waiter) override {
    ends_.in->AwaitRead({.loop = loop_, .waiter = std::move(waiter), .call = &StreamSink::OnReadable});
  }
  void AwaitWrite(std::shared_ptr<StreamSink> waiter) override {
    ends_.out->AwaitWrite({.loop = loop_, .waiter = std::move(waiter), .call = &StreamSink::OnWritable});
  }
  StreamPeer peer() const override { return peer_; }
  StreamPath& path() override { return path_; }
  std::unique_ptr<StreamPath> SharePath() const override { return std::make_unique<memory::Path>(ends_); }

 private:
  StreamIo Receive(ReadParts into) override { return ends_.in->Read(into); }

  memory::Ends ends_;
  StreamPeer peer_;
  memory::Path path_;
  asio::io_context* loop_ = nullptr;
};

struct MemoryPair {
  std::shared_ptr<memory::Pipe> a_to_b;
  std::shared_ptr<memory::Pipe> b_to_a;
  std::unique_ptr<Stream> a;
  std::unique_ptr<Stream> b;

  explicit MemoryPair(const MemoryOptions& options = {})
      : a_to_b(std::make_shared<memory::Pipe>(options.a_to_b)), b_to_a(std::make_shared<memory::Pipe>(options.b_to_a)) {
    a = std::make_unique<MemoryStream>(memory::Ends{.in = b_to_a, .out = a_to_b}, options.peer);
    b = std::make_unique<MemoryStream>(memory::Ends{.in = a_to_b, .out = b_to_a}, options.peer);
  }
};

}  // namespace ringway::net
