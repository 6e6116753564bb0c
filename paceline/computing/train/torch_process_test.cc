// Tests of libtorch in a process: its exceptions and its threads.
#include <stdexcept>

#include <ATen/Parallel.h>
#include <torch/types.h>

#include "paceline/computing/train/catch_torch.h"
#include "paceline/computing/train/testing.h"
#include "paceline/computing/train/threads.h"

namespace paceline::train {
namespace {

TEST(CatchTorch, MakesOneLineOfAnException) {
  const auto thrown = catch_torch("a test", []() -> absl::StatusOr<int> {
    throw std::runtime_error("out of luck\nframe #0: somewhere");
  });
  expect_error(thrown.status(), absl::StatusCode::kInternal, {"a test", "out of luck"});
  const auto torchs = catch_torch("a test", []() -> absl::StatusOr<int> {
    return torch::ones({2, 3}).mm(torch::ones({2, 3})).item<int>();
  });
  expect_error(torchs.status(), absl::StatusCode::kInternal, {"a test", "cannot be multiplied"});
}

TEST(CatchTorch, PassesResultsThrough) {
  EXPECT_EQ(*catch_torch("a test", []() -> absl::StatusOr<int> { return 3; }), 3);
  const auto refused =
      catch_torch("a test", []() -> absl::StatusOr<int> { return absl::NotFoundError("no"); });
  EXPECT_EQ(refused.status(), absl::NotFoundError("no"));
}

TEST(UseThreads, SetsBothKindsAndMayBeCalledAgain) {
  use_threads(2);
  EXPECT_EQ(at::get_num_threads(), 2);
  use_threads(1);
  EXPECT_EQ(at::get_num_threads(), 1);
  EXPECT_EQ(at::get_num_interop_threads(), 1);
}

}  // namespace
}  // namespace paceline::train
