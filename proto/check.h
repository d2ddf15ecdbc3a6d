// CHECK: a broken invariant ends the process, in release builds too, with the place and the condition.
#pragma once

#include <cstdio>
#include <cstdlib>

#define RINGWAY_CHECK(condition)                                                             \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: invariant broken: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
