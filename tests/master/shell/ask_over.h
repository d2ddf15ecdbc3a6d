// Talks to a master's server over a stream in memory.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <optional>
#include <string>

#include "proto/control.pb.h"
#include "proto/frame_codec.h"
#include "proto/stream/stream.h"

namespace ringway::net {

// Writes `bytes`, runs the server while something is ready there, and returns the first message that has come.
inline std::optional<control::FromMaster> AskOver(Stream& stream, const std::string& bytes, asio::io_context& io) {
  FrameReader reader;
  std::array<std::byte, 4096> buffer;
  std::size_t written = 0;
  for (int turns = 0; turns < 10'000; ++turns) {
    const auto rest = std::as_bytes(std::span(bytes)).subspan(written);
    if (!rest.empty()) written += stream.Write(rest).bytes;
    io.run_for(std::chrono::milliseconds(turns < 100 ? 0 : 1));
    const StreamIo io_read = stream.Read(buffer);
    if (io_read.kind == StreamIo::Kind::kEnd || io_read.kind == StreamIo::Kind::kError) return {};
    if (!reader.Feed(std::span(buffer).first(io_read.bytes)).ok()) return {};
    control::FromMaster message;
    if (const auto frame = reader.Next())
      return ParseFrame(*frame, message).ok() ? std::optional(message) : std::nullopt;
  }
  return {};
}

}  // namespace ringway::net
