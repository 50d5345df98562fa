// gpunode-bench-mpi BOARD: MPI_Allreduce in place. A rank of `gpunode-bench all-reduce`, started by
// mpirun, which also chooses transport and algorithm; built only where OpenMPI is installed.
#include <mpi.h>

#include "tools/bench/peers/peer_vector.hpp"
#include "tools/bench/rank_board.hpp"

namespace gpunode::bench {
namespace {

class MpiWork final : public RankWork {
 public:
  MpiWork(std::uint32_t rank, std::uint32_t ranks) : rank_(rank), ranks_(ranks) {}

  Result<void> prepare(std::uint64_t element_count, std::uint32_t setting) override {
    return vector_.prepare(element_count, rank_, ranks_, [&] { return run(setting); });
  }

  Result<void> run(std::uint32_t) override {
    const int status = MPI_Allreduce(MPI_IN_PLACE, vector_.data(), static_cast<int>(vector_.size()),
                                     MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (status != MPI_SUCCESS)
      return Error{ErrorCode::internal, "MPI_Allreduce gives " + std::to_string(status)};
    return {};
  }

  void release(std::uint32_t) override { vector_.clear(); }

 private:
  std::uint32_t rank_, ranks_;
  PeerVector vector_;
};

}  // namespace
}  // namespace gpunode::bench

int main(int argc, char** argv) {
  using namespace gpunode::bench;
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS || argc != 2) return 2;
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  auto board = RankBoard::open(argv[1]);
  if (!board) MPI_Abort(MPI_COMM_WORLD, 1);
  MpiWork work(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(ranks));
  const int status = board->serve(static_cast<std::uint32_t>(rank), work);
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return 0;
}
