#include "bench/gloo.h"

#include <unistd.h>

#include <chrono>

#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace paceline::bench {

void gloo_all_reduce(const std::string& store, int rank, int ranks, std::int64_t floats, int rounds,
                     int times) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::FileStore>(store, ranks),
                                                           rank, ranks, options);
  std::vector<torch::Tensor> tensors = {torch::full({floats}, 1e-6f)};
  for (int i = 0; i < rounds; ++i) {
    group->barrier()->wait();
    const auto start = std::chrono::steady_clock::now();
    group->allreduce(tensors)->wait();
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (times >= 0 && write(times, &ms, sizeof ms) != sizeof ms) return;
  }
  group->barrier()->wait();
}

}  // namespace paceline::bench
