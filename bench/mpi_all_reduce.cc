// One rank of MPI's all-reduce, to be started by mpirun: bench_mpi_all_reduce FLOATS ROUNDS. Rounds are as
// all_reduce_rounds.h has them; rank 0 prints the time of each, in ms.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "bench/all_reduce_rounds.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  paceline::bench::all_reduce_rounds(
      ranks, std::atoll(argv[1]), std::atoi(argv[2]),
      [](std::span<float> gradient) {
        MPI_Allreduce(MPI_IN_PLACE, gradient.data(), static_cast<int>(gradient.size()), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
      },
      [&](double ms) {
        if (rank == 0) std::printf("%f\n", ms);
      });
  MPI_Finalize();
}
