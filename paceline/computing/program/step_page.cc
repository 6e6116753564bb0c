#include "paceline/computing/program/step_page.h"

#include <atomic>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/program/messages.h"

namespace paceline::program {

namespace {

constexpr std::size_t kBegun = 0;
constexpr std::size_t kRow = 8;
constexpr std::size_t kDone = 64;
constexpr std::size_t kFirstValue = 128;
constexpr std::int64_t kFloats = ipc::kPageBytes / sizeof(float);

}  // namespace

absl::StatusOr<StepPage> StepPage::create() {
  PACELINE_ASSIGN_OR_RETURN(auto page, ipc::SharedFloats::create("paceline-step", kFloats));
  return StepPage(std::move(page));
}

engine::Memory StepPage::memory() const {
  return {.path = page_.path(),
          .base = page_.mapping().data(),
          .bytes = page_.mapping().size(),
          .file_offset = 0,
          .writable = true};
}

void StepPage::let_begin(std::uint32_t number, std::int64_t row) {
  std::atomic_ref(*at<std::int64_t>(kRow)).store(row, std::memory_order_relaxed);
  std::atomic_ref(*at<std::uint32_t>(kBegun)).store(number, std::memory_order_release);
}

bool StepPage::done(std::uint32_t number) const {
  const std::uint32_t last = std::atomic_ref(*at<std::uint32_t>(kDone)).load(std::memory_order_acquire);
  return static_cast<std::int32_t>(last - number) >= 0;
}

double StepPage::value(int slot) const {
  PACELINE_CHECK(0 <= slot && slot < kStepValues, "value {} of a step", slot);
  return std::atomic_ref(at<double>(kFirstValue)[slot]).load(std::memory_order_relaxed);
}

}  // namespace paceline::program
