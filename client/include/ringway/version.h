/* Version of this header; that of the loaded library is ringway::Version(), ringwayGetVersion().
 *
 * Compatibility while the major version is 0: a program built against the C API (ringway.h) runs with every later
 * library of the same minor version, which is part of the soname (libringway.so.0.10); rebuild it for another. The C++
 * API (ringway.hpp) passes standard library objects, so in addition program and library need the same C++ standard
 * library (on Debian libstdc++ with the system's g++ or clang). */
#ifndef RINGWAY_VERSION_H_
#define RINGWAY_VERSION_H_

#define RINGWAY_VERSION_MAJOR 0
#define RINGWAY_VERSION_MINOR 10
#define RINGWAY_VERSION_PATCH 0
/* 10203 is 1.2.3. */
#define RINGWAY_VERSION_CODE (RINGWAY_VERSION_MAJOR * 10000 + RINGWAY_VERSION_MINOR * 100 + RINGWAY_VERSION_PATCH)

#endif /* RINGWAY_VERSION_H_ */
