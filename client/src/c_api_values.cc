// The values of the C API's enumerations are those of types.h: ringway.h cannot include that, being C. Nothing runs
// here.
#include <ringway/ringway.h>
#include <ringway/types.h>

#include <iterator>
#include <string_view>
#include <utility>

namespace {

using ringway::Code;

static_assert(ringwaySuccess == static_cast<int>(Code::kOk));
static_assert(ringwayInvalidArgument == static_cast<int>(Code::kInvalidArgument));
static_assert(ringwayDaemonUnreachable == static_cast<int>(Code::kDaemonUnreachable));
static_assert(ringwayVersionMismatch == static_cast<int>(Code::kVersionMismatch));
static_assert(ringwayDaemonLost == static_cast<int>(Code::kDaemonLost));
static_assert(ringwayTimeout == static_cast<int>(Code::kTimeout));
static_assert(ringwayMismatch == static_cast<int>(Code::kMismatch));
static_assert(ringwayPeerLost == static_cast<int>(Code::kPeerLost));
static_assert(ringwayWorldTooSmall == static_cast<int>(Code::kWorldTooSmall));
static_assert(ringwayCancelled == static_cast<int>(Code::kCancelled));
static_assert(ringwayEvicted == static_cast<int>(Code::kEvicted));
static_assert(ringwayJoinRefused == static_cast<int>(Code::kJoinRefused));
static_assert(ringwayPeerUnreachable == static_cast<int>(Code::kPeerUnreachable));
static_assert(ringwayResourceExhausted == static_cast<int>(Code::kResourceExhausted));
static_assert(ringwayNotSupported == static_cast<int>(Code::kNotSupported));
static_assert(ringwayForked == static_cast<int>(Code::kForked));
static_assert(ringwayLeft == static_cast<int>(Code::kLeft));
static_assert(ringwayShuttingDown == static_cast<int>(Code::kShuttingDown));
static_assert(ringwayMasterUnreachable == static_cast<int>(Code::kMasterUnreachable));
static_assert(ringwayProtocolError == static_cast<int>(Code::kProtocol));
static_assert(ringwayIoError == static_cast<int>(Code::kIo));
static_assert(ringwayInternalError == static_cast<int>(Code::kInternal));
static_assert(ringwayDeadline == static_cast<int>(Code::kDeadline));
static_assert(ringwayRejoined == static_cast<int>(Code::kRejoined));
static_assert(ringwayBufferModified == static_cast<int>(Code::kBufferModified));
static_assert(ringwayInterrupted == static_cast<int>(Code::kInterrupted));
static_assert(ringwayDeviceFailed == static_cast<int>(Code::kDeviceFailed));
static_assert(ringwayDeviceFailed + 1 == ringway::kCodeCount);

static_assert(ringwayUint8 == static_cast<int>(ringway::DType::kU8));
static_assert(ringwayInt8 == static_cast<int>(ringway::DType::kI8));
static_assert(ringwayUint16 == static_cast<int>(ringway::DType::kU16));
static_assert(ringwayInt16 == static_cast<int>(ringway::DType::kI16));
static_assert(ringwayUint32 == static_cast<int>(ringway::DType::kU32));
static_assert(ringwayInt32 == static_cast<int>(ringway::DType::kI32));
static_assert(ringwayUint64 == static_cast<int>(ringway::DType::kU64));
static_assert(ringwayInt64 == static_cast<int>(ringway::DType::kI64));
static_assert(ringwayFloat16 == static_cast<int>(ringway::DType::kF16));
static_assert(ringwayBfloat16 == static_cast<int>(ringway::DType::kBF16));
static_assert(ringwayFloat32 == static_cast<int>(ringway::DType::kF32));
static_assert(ringwayFloat64 == static_cast<int>(ringway::DType::kF64));
static_assert(ringwayFloat64 + 1 == ringway::kDTypeCount);

static_assert(ringwaySum == static_cast<int>(ringway::ReduceOp::kSum));
static_assert(ringwayAvg == static_cast<int>(ringway::ReduceOp::kAvg));
static_assert(ringwayProd == static_cast<int>(ringway::ReduceOp::kProd));
static_assert(ringwayMin == static_cast<int>(ringway::ReduceOp::kMin));
static_assert(ringwayMax == static_cast<int>(ringway::ReduceOp::kMax));
static_assert(ringwayMax + 1 == ringway::kReduceOpCount);

constexpr std::pair<ringwayCodec_t, std::string_view> kCodecsOfC[] = {
    {ringwayCodecNone, "none"},      {ringwayCodecBf16, "bf16"},        {ringwayCodecInt8, "int8"},
    {ringwayCodecF16, "f16"},        {ringwayCodecInt4, "int4"},        {ringwayCodecInt8Zp, "int8_zp"},
    {ringwayCodecInt4Zp, "int4_zp"}, {ringwayCodecFp8E4m3, "fp8_e4m3"}, {ringwayCodecFp8E5m2, "fp8_e5m2"},
};

constexpr bool CodecsOfCMatch() {
  if (std::size(kCodecsOfC) != ringway::kCodecCount) return false;
  for (int i = 0; i < ringway::kCodecCount; ++i) {
    if (kCodecsOfC[i].first != i || kCodecsOfC[i].second != ringway::kCodecs[i].name) return false;
  }
  return true;
}
static_assert(CodecsOfCMatch());

static_assert(ringwayRing == static_cast<int>(ringway::Algorithm::kRing));
static_assert(ringwayTwoRings == static_cast<int>(ringway::Algorithm::kTwoRings));
static_assert(ringwayDirect == static_cast<int>(ringway::Algorithm::kDirect));
static_assert(ringwayOneShot == static_cast<int>(ringway::Algorithm::kOneShot));
static_assert(ringwayTree == static_cast<int>(ringway::Algorithm::kTree));
static_assert(ringwayHalvingDoubling == static_cast<int>(ringway::Algorithm::kHalvingDoubling));
static_assert(ringwayNaive == static_cast<int>(ringway::Algorithm::kNaive));
static_assert(ringwayHierarchical == static_cast<int>(ringway::Algorithm::kHierarchical));
static_assert(ringwayRings == static_cast<int>(ringway::Algorithm::kRings));
static_assert(ringwayRings + 1 == ringway::kAlgorithmCount);

}  // namespace
