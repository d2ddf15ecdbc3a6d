// The CUDA kernels on a GPU, against the CPU's bytes. Skipped where there is none.
#include "daemon/staging/codec_kernels.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "tests/daemon/kernels/adversarial.h"
#include "tests/daemon/kernels/lossy_codecs.h"
#include "tests/daemon/kernels/reference.h"

namespace ringway::staging {
namespace {

using Bytes = std::vector<unsigned char>;

class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t size) : size_(size) { EXPECT_EQ(cudaMalloc(&data_, size + 1), cudaSuccess); }
  explicit DeviceBytes(const Bytes& bytes) : DeviceBytes(bytes.size()) {
    EXPECT_EQ(cudaMemcpy(data_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  void* data() const { return data_; }
  Bytes Read() const {
    Bytes bytes(size_);
    EXPECT_EQ(cudaMemcpy(bytes.data(), data_, size_, cudaMemcpyDeviceToHost), cudaSuccess);
    return bytes;
  }

 private:
  std::size_t size_;
  void* data_ = nullptr;
};

TEST(CodecKernelsTest, GiveTheBytesOfTheCpu) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU here";
  std::uint64_t seed = 0;
  for (const Codec codec : kernels::LossyCodecs()) {
    for (Encoding encoding : kernels::EncodingsOf(codec)) {
      for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
        for (const std::size_t count : {1, 33, 1000, 100'003}) {
          encoding.rounding = ++seed % 2 == 0 ? Rounding::kNearestEven : Rounding::kStochastic;
          if (!IsSupported(dtype, ReduceOp::kSum, encoding)) continue;
          const kernels::Dither dither{seed, 5 * kBlockMax};
          const Bytes values = kernels::Adversarial(dtype, count, seed),
                      a = kernels::reference::Mixture(dtype, count, seed);
          Bytes wire(EncodedBytes(encoding, dtype, count)), decoded(values.size()), sum(values.size());
          kernels::Encode(encoding, dtype, wire.data(), values.data(), count, &dither);
          kernels::Decode(encoding, dtype, decoded.data(), wire.data(), count);
          kernels::DecodeReduce(encoding, dtype, ReduceOp::kSum, sum.data(), a.data(), wire.data(), count);
          const DeviceBytes on_device(values), left(a), codes(wire.size()), out(values.size()), total(values.size());
          ASSERT_EQ(EncodeOnDevice(encoding, dtype, codes.data(), on_device.data(), count, &dither, nullptr), 0);
          ASSERT_EQ(DecodeOnDevice(encoding, dtype, out.data(), codes.data(), count, nullptr), 0);
          ASSERT_EQ(DecodeReduceOnDevice(encoding, dtype, ReduceOp::kSum, total.data(), left.data(), codes.data(),
                                         count, nullptr),
                    0);
          ASSERT_EQ(codes.Read(), wire) << NameOf(codec) << encoding.block << ' ' << NameOf(dtype) << ' ' << count;
          ASSERT_EQ(out.Read(), decoded) << NameOf(codec) << encoding.block << ' ' << NameOf(dtype) << ' ' << count;
          ASSERT_EQ(total.Read(), sum) << NameOf(codec) << encoding.block << ' ' << NameOf(dtype) << ' ' << count;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ringway::staging
