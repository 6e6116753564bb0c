#include "paceline/parameters/memory/gradient_buffer.h"

#include <atomic>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::memory {

namespace {

constexpr std::uint64_t kGradientMagic = 0x31647267656c6370;  // "pclegrd1"
constexpr std::size_t kHeaderBytes = 4096;

struct GradientHeader {
  std::uint64_t magic;
  std::int64_t floats;
  std::atomic<std::int64_t> clock;  // clock of the iteration the gradient is from
  std::atomic<std::uint64_t> sums_progress;
  std::int64_t streams;
  double steps;
  std::atomic<std::uint64_t> ready;  // the replica and the iteration of ready_word()
};

// Replicas have numbers of 24 bits (control::Controller). 0 is no word, as the first iteration is 1.
std::uint64_t ready_word(ReplicaId replica, Clock clock) {
  constexpr int kClockBits = 40;
  return static_cast<std::uint64_t>(replica.value()) << kClockBits |
         (static_cast<std::uint64_t>(clock.value()) & ((std::uint64_t{1} << kClockBits) - 1));
}

GradientHeader* header_of(const ipc::Mapping& mapping) {
  return reinterpret_cast<GradientHeader*>(mapping.data());
}

constexpr std::int64_t kMostStreams = 2;

// Header, gradient, sums, state.
std::size_t bytes_for(std::int64_t floats, std::int64_t streams) {
  return kHeaderBytes + static_cast<std::size_t>((2 + streams) * floats) * sizeof(float);
}

std::span<float> gradient_of(const ipc::Mapping& mapping, std::int64_t floats) {
  return {reinterpret_cast<float*>(mapping.data() + kHeaderBytes), static_cast<std::size_t>(floats)};
}

std::span<float> sums_of(const ipc::Mapping& mapping, std::int64_t floats) {
  return {gradient_of(mapping, floats).data() + floats, static_cast<std::size_t>(floats)};
}

std::span<float> state_of(const ipc::Mapping& mapping, std::int64_t floats) {
  return {sums_of(mapping, floats).data() + floats, (mapping.size() - bytes_for(floats, 0)) / sizeof(float)};
}

struct OpenGradient {
  ipc::SharedMemory memory;
  ipc::Mapping mapping;
};

absl::StatusOr<OpenGradient> open_gradient(const std::string& path, std::int64_t floats, bool writable) {
  PACELINE_ASSIGN_OR_RETURN(ipc::SharedMemory memory, ipc::SharedMemory::open(path));
  PACELINE_ASSIGN_OR_RETURN(ipc::Mapping mapping, memory.map(0, bytes_for(floats, 0), writable));
  const GradientHeader* header = header_of(mapping);
  const std::int64_t streams = header->streams;
  if (header->magic != kGradientMagic || header->floats != floats || streams < 0 || streams > kMostStreams) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not a gradient of this model ({} floats)", path, floats));
  }
  if (streams > 0) {
    PACELINE_ASSIGN_OR_RETURN(mapping, memory.map(0, bytes_for(floats, streams), writable));
  }
  return OpenGradient{std::move(memory), std::move(mapping)};
}

}  // namespace

absl::StatusOr<GradientWriter> GradientWriter::create(std::int64_t floats, int streams, double steps) {
  PACELINE_CHECK(streams >= 0 && streams <= kMostStreams, "{} streams of state", streams);
  PACELINE_ASSIGN_OR_RETURN(ipc::SharedMemory memory,
                            ipc::SharedMemory::create("paceline-gradient", bytes_for(floats, streams)));
  PACELINE_ASSIGN_OR_RETURN(ipc::Mapping mapping, memory.map(0, bytes_for(floats, streams), true));
  auto* header = new (mapping.data()) GradientHeader{};
  header->magic = kGradientMagic;
  header->floats = floats;
  header->streams = streams;
  header->steps = steps;
  return GradientWriter(std::move(memory), std::move(mapping), floats);
}

absl::StatusOr<GradientWriter> GradientWriter::open(const std::string& path, std::int64_t floats) {
  PACELINE_ASSIGN_OR_RETURN(OpenGradient open, open_gradient(path, floats, true));
  return GradientWriter(std::move(open.memory), std::move(open.mapping), floats);
}

GradientWriter::GradientWriter(ipc::SharedMemory memory, ipc::Mapping mapping, std::int64_t floats)
    : memory_(std::move(memory)), mapping_(std::move(mapping)), floats_(floats) {}

std::span<float> GradientWriter::gradient() {
  if (device_) return {reinterpret_cast<float*>(device_->data()), static_cast<std::size_t>(floats_)};
  return gradient_of(mapping_, floats_);
}

std::span<float> GradientWriter::on_host() { return gradient_of(mapping_, floats_); }

absl::Status GradientWriter::move_to_device() {
  if (device_) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(device_,
                            ipc::Mapping::reserve(static_cast<std::size_t>(floats_) * sizeof(float)));
  return absl::OkStatus();
}

std::span<float> GradientWriter::first_state() { return state_of(mapping_, floats_); }

std::span<float> GradientWriter::sums() { return sums_of(mapping_, floats_); }

void GradientWriter::stamp(Clock clock) {
  header_of(mapping_)->clock.store(clock.value(), std::memory_order_release);
}

void GradientWriter::say_ready(ReplicaId replica, Clock clock) {
  header_of(mapping_)->ready.store(ready_word(replica, clock));
}

void GradientWriter::publish_sums(std::uint64_t progress) {
  header_of(mapping_)->sums_progress.store(progress, std::memory_order_release);
}

absl::StatusOr<GradientReader> GradientReader::open(const std::string& path, std::int64_t floats) {
  PACELINE_ASSIGN_OR_RETURN(OpenGradient open, open_gradient(path, floats, false));
  return GradientReader(std::move(open.mapping), floats);
}

GradientReader::GradientReader(ipc::Mapping mapping, std::int64_t floats)
    : mapping_(std::move(mapping)), floats_(floats) {}

absl::Status GradientReader::check(Clock clock) const {
  const std::int64_t held = header_of(mapping_)->clock.load(std::memory_order_acquire);
  if (held != clock.value()) {
    return absl::FailedPreconditionError(
        fmt::format("the worker's buffer holds iteration {}, not {}", held, clock));
  }
  return absl::OkStatus();
}

bool GradientReader::is_ready(ReplicaId replica, Clock clock) const {
  return header_of(mapping_)->ready.load() == ready_word(replica, clock);
}

absl::StatusOr<std::span<const float>> GradientReader::gradient(Clock clock) const {
  PACELINE_RETURN_IF_ERROR(check(clock));
  return std::span<const float>(gradient_of(mapping_, floats_));
}

std::uint64_t GradientReader::sums_progress() const {
  return header_of(mapping_)->sums_progress.load(std::memory_order_acquire);
}

std::span<const float> GradientReader::first_state() const { return state_of(mapping_, floats_); }

double GradientReader::first_steps() const { return header_of(mapping_)->steps; }

std::span<const float> GradientReader::sums() const { return sums_of(mapping_, floats_); }

}  // namespace paceline::memory
