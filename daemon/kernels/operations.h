// The reductions of two elements, for loops and for CUDA. Internal linkage for the reason given in elements.h.
#pragma once

#include "daemon/kernels/elements.h"

namespace ringway::kernels {
namespace {

// The operations: `Arith` on widened numbers, single ones or vectors; `Apply` on the bits of one element.
struct Sum {
  template <class T>
  RINGWAY_KERNEL static T Arith(T a, T b) {
    return a + b;
  }
  template <class E, class Bits = typename E::Bits>
  RINGWAY_KERNEL static Bits Apply(Bits a, Bits b) {
    return E::Narrow(Arith(E::Widen(a), E::Widen(b)));
  }
};
struct Prod {
  template <class T>
  RINGWAY_KERNEL static T Arith(T a, T b) {
    return a * b;
  }
  template <class E, class Bits = typename E::Bits>
  RINGWAY_KERNEL static Bits Apply(Bits a, Bits b) {
    return E::Narrow(Arith(E::Widen(a), E::Widen(b)));
  }
};
struct Min {
  template <class E, class Bits = typename E::Bits>
  RINGWAY_KERNEL static Bits Apply(Bits a, Bits b) {
    return E::Min(a, b);
  }
};
struct Max {
  template <class E, class Bits = typename E::Bits>
  RINGWAY_KERNEL static Bits Apply(Bits a, Bits b) {
    return E::Max(a, b);
  }
};

}  // namespace
}  // namespace ringway::kernels
