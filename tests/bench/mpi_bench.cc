// Baseline: MPI_Allreduce of float32, one process a rank. compare.sh builds and runs this with Open MPI.
#include <mpi.h>

#include <vector>

#include "tests/bench/baseline.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  baseline::Options options = baseline::ParseOptions(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &options.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &options.world);
  const std::size_t count = std::max<std::size_t>(options.bytes / sizeof(float), 1);
  const std::vector<float> input(count, 1.0F);
  std::vector<float> output(count);
  const baseline::Measured measured = baseline::Measure(options, [&] {
    MPI_Allreduce(input.data(), output.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  });
  const bool right = output[0] == static_cast<float>(options.world);
  if (!right) std::fprintf(stderr, "mpi_bench: the sum is wrong\n");
  const int status = right ? baseline::WriteJson(options, "MPI_Allreduce", measured) : 1;
  MPI_Finalize();
  return status;
}
