// A TCP connection as a Stream (stream.h), and any other stream socket.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <memory>
#include <optional>

#include "proto/stream/stream.h"
#include "proto/stream/unique_fd.h"

namespace ringway::net {

class TcpPath final : public StreamPath {
 public:
  explicit TcpPath(UniqueFd fd) : fd_(std::move(fd)) {}

  LaneTraffic Traffic() const override;
  Duration RoundTrip() const override { return RoundTripOf(fd_.get()); }
  // The kernel knows better than the caller whether this is a loopback connection.
  void Tune(LinkTuning tuning) override;
  void SetPace(double bytes_per_second) override { LimitRate(fd_.get(), bytes_per_second); }
  void Renew() override { RenewCongestion(fd_.get()); }
  void Shutdown() override;

  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

class TcpStream final : public Stream {
 public:
  // `fd`: connected and non-blocking.
  explicit TcpStream(UniqueFd fd) : path_(std::move(fd)) {}
  ~TcpStream() override;

  Status Attach(asio::io_context& loop) override;
  void Detach() override;
  StreamIo Write(WriteParts from) override;
  void AwaitRead(std::shared_ptr<StreamSink> waiter) override;
  void AwaitWrite(std::shared_ptr<StreamSink> waiter) override;
  StreamPeer peer() const override;
  StreamPath& path() override { return path_; }
  std::unique_ptr<StreamPath> SharePath() const override;

 private:
  StreamIo Receive(ReadParts into) override;

  TcpPath path_;
  std::optional<asio::posix::stream_descriptor> watch_;  // while attached; the descriptor is the path's to close
};

}  // namespace ringway::net
