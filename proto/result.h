// Status and Result<T> (ringway/result.hpp), and codes from the wire. No exception crosses a module.
#pragma once

#include <ringway/types.h>

#include <cstdint>
#include <ringway/result.hpp>

namespace ringway {

// Convert a number from the wire to a code; nothing else may. `unknown`: returned for codes that this build does not
// know. FailureFromWire returns it for kOk, too.
constexpr Code CodeFromWire(std::uint32_t wire, Code unknown = Code::kProtocol) {
  return wire < kCodeCount ? static_cast<Code>(wire) : unknown;
}
constexpr Code FailureFromWire(std::uint32_t wire, Code unknown = Code::kProtocol) {
  return wire == static_cast<std::uint32_t>(Code::kOk) ? unknown : CodeFromWire(wire, unknown);
}

}  // namespace ringway
