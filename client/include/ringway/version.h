/* Which Ringway this header belongs to. The library says which it is itself: ringway::Version(), ringwayGetVersion().
 *
 * What stays while the major version is 0: a program built against the C API (ringway.h) runs with every later library
 * of the same minor version, which the soname names (libringway.so.0.3); build it again for another. The C++ API
 * (ringway.hpp) passes objects of the standard library: there, too, the compiler's standard library has to be that of
 * the library (on Debian both are the system's g++ or clang with libstdc++). */
#ifndef RINGWAY_VERSION_H_
#define RINGWAY_VERSION_H_

#define RINGWAY_VERSION_MAJOR 0
#define RINGWAY_VERSION_MINOR 3
#define RINGWAY_VERSION_PATCH 0
/* 10203 is 1.2.3. */
#define RINGWAY_VERSION_CODE (RINGWAY_VERSION_MAJOR * 10000 + RINGWAY_VERSION_MINOR * 100 + RINGWAY_VERSION_PATCH)

#endif /* RINGWAY_VERSION_H_ */
