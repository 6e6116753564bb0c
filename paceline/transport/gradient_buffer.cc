#include "paceline/transport/gradient_buffer.h"

#include <atomic>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::transport {

namespace {

constexpr std::uint64_t kMagic = 0x31647267656c6370;  // "pclegrd1"
constexpr std::size_t kHeaderBytes = 4096;

struct GradientHeader {
  std::uint64_t magic;
  std::int64_t floats;
  std::atomic<std::int64_t> clock;  // of the iteration the gradient is from
};

std::size_t bytes_for(std::int64_t floats) {
  return kHeaderBytes + static_cast<std::size_t>(floats) * sizeof(float);
}

std::span<float> floats_of(const Mapping& mapping, std::int64_t floats) {
  return {reinterpret_cast<float*>(mapping.data() + kHeaderBytes), static_cast<std::size_t>(floats)};
}

}  // namespace

absl::StatusOr<GradientWriter> GradientWriter::create(std::int64_t floats) {
  PACELINE_ASSIGN_OR_RETURN(SharedMemory memory,
                            SharedMemory::create("paceline-gradient", bytes_for(floats)));
  PACELINE_ASSIGN_OR_RETURN(Mapping mapping, memory.map(0, bytes_for(floats), true));
  auto* header = new (mapping.data()) GradientHeader{};
  header->magic = kMagic;
  header->floats = floats;
  return GradientWriter(std::move(memory), std::move(mapping), floats);
}

GradientWriter::GradientWriter(SharedMemory memory, Mapping mapping, std::int64_t floats)
    : memory_(std::move(memory)), mapping_(std::move(mapping)), floats_(floats) {}

std::span<float> GradientWriter::gradient() { return floats_of(mapping_, floats_); }

void GradientWriter::stamp(Clock clock) {
  reinterpret_cast<GradientHeader*>(mapping_.data())->clock.store(clock.value(), std::memory_order_release);
}

absl::StatusOr<GradientReader> GradientReader::open(const std::string& path, std::int64_t floats) {
  PACELINE_ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::open(path));
  PACELINE_ASSIGN_OR_RETURN(Mapping mapping, memory.map(0, bytes_for(floats), false));
  const auto* header = reinterpret_cast<const GradientHeader*>(mapping.data());
  if (header->magic != kMagic || header->floats != floats) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not a gradient of this model ({} floats)", path, floats));
  }
  return GradientReader(std::move(mapping), floats);
}

GradientReader::GradientReader(Mapping mapping, std::int64_t floats)
    : mapping_(std::move(mapping)), floats_(floats) {}

absl::StatusOr<std::span<const float>> GradientReader::gradient(Clock clock) const {
  const auto* header = reinterpret_cast<const GradientHeader*>(mapping_.data());
  const std::int64_t held = header->clock.load(std::memory_order_acquire);
  if (held != clock.value()) {
    return absl::FailedPreconditionError(
        fmt::format("the worker's buffer holds iteration {}, not {}", held, clock));
  }
  return std::span<const float>(floats_of(mapping_, floats_));
}

}  // namespace paceline::transport
