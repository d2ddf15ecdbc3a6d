// Deleters for OpenSSL's objects.
#pragma once

namespace ringway::tls {

template <auto free_one>
struct Freer {
  template <typename T>
  void operator()(T* one) const {
    free_one(one);
  }
};

}  // namespace ringway::tls
