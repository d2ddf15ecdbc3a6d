// The edge of the library: no exception leaves it. Only failed allocations, and threads that cannot be started, throw
// below.
#pragma once

#include <exception>
#include <new>
#include <ringway/ringway.hpp>

namespace ringway::internal {

template <typename Function>
auto NoThrow(Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return Status(Code::kResourceExhausted, "out of memory");
  } catch (const std::exception& exception) {
    return Status(Code::kInternal, exception.what());
  }
}

}  // namespace ringway::internal
