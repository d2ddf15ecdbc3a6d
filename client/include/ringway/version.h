/* Which Ringway this header belongs to. The library says which it is itself: ringway::Version(), ringwayGetVersion().
 *
 * What stays: programs built against the C API (ringway.h) of one major version run with every later library of it. The
 * C++ API (ringway.hpp) passes objects of the standard library: build the trainer with this header and a compiler whose
 * standard library is the library's (on Debian both are the system's g++ or clang with libstdc++), and build it again
 * for another minor version. */
#ifndef RINGWAY_VERSION_H_
#define RINGWAY_VERSION_H_

#define RINGWAY_VERSION_MAJOR 0
#define RINGWAY_VERSION_MINOR 2
#define RINGWAY_VERSION_PATCH 0
/* 10203 is 1.2.3. */
#define RINGWAY_VERSION_CODE (RINGWAY_VERSION_MAJOR * 10000 + RINGWAY_VERSION_MINOR * 100 + RINGWAY_VERSION_PATCH)

#endif /* RINGWAY_VERSION_H_ */
