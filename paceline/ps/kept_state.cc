#include "paceline/ps/kept_state.h"

#include <new>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::ps {

namespace {

constexpr std::uint64_t kMagic = 0x3174617473636c70;  // "plcstat1"
constexpr std::int64_t kNoVersion = -1;

std::size_t stream_bytes(std::int64_t floats) {
  return memory::whole_pages(static_cast<std::size_t>(floats) * sizeof(float));
}
std::size_t bytes_of(int streams, std::int64_t floats) {
  return memory::kPageBytes + 2 * static_cast<std::size_t>(streams) * stream_bytes(floats);
}

}  // namespace

struct KeptState::Header {
  std::uint64_t magic;
  std::uint64_t identity;
  struct Slot {
    std::atomic<std::int64_t> version;
    std::atomic<double> fractions;
  } slots[2];
};

absl::StatusOr<KeptState> KeptState::create(int streams, std::int64_t floats, std::uint64_t identity) {
  PACELINE_ASSIGN_OR_RETURN(auto memory,
                            memory::SharedMemory::create("paceline-state", bytes_of(streams, floats)));
  PACELINE_ASSIGN_OR_RETURN(auto mapping, memory.map(0, memory.size(), true));
  auto* const header = new (mapping.data()) Header{};
  header->magic = kMagic;
  header->identity = identity;
  for (Header::Slot& slot : header->slots) slot.version.store(kNoVersion);
  return KeptState(std::move(memory), std::move(mapping), streams, floats);
}

absl::StatusOr<KeptState> KeptState::adopt(memory::SharedMemory memory, int streams, std::int64_t floats,
                                           std::uint64_t identity) {
  if (memory.size() != bytes_of(streams, floats))
    return absl::InvalidArgumentError("the optimizer's state is of another model");
  PACELINE_ASSIGN_OR_RETURN(auto mapping, memory.map(0, memory.size(), true));
  KeptState state(std::move(memory), std::move(mapping), streams, floats);
  if (state.header().magic != kMagic || state.header().identity != identity)
    return absl::InvalidArgumentError("the optimizer's state is of another shard or of another attempt");
  return state;
}

KeptState::Header& KeptState::header() const { return *reinterpret_cast<Header*>(mapping_.data()); }

std::vector<std::span<float>> KeptState::slot(int index) const {
  std::vector<std::span<float>> spans;
  for (int stream = 0; stream < streams_; ++stream) {
    std::byte* const begin = mapping_.data() + memory::kPageBytes +
                             static_cast<std::size_t>(index * streams_ + stream) * stream_bytes(floats_);
    spans.emplace_back(reinterpret_cast<float*>(begin), static_cast<std::size_t>(floats_));
  }
  return spans;
}

void KeptState::begin_next() { header().slots[1 - latest_].version.store(kNoVersion); }

void KeptState::name(Version version, double fractions) {
  Header::Slot& slot = header().slots[latest_];
  slot.fractions.store(fractions);
  slot.version.store(version.value());
}

absl::StatusOr<double> KeptState::take_up(Version version) {
  for (int index = 0; index < 2; ++index) {
    if (header().slots[index].version.load() != version.value()) continue;
    latest_ = index;
    return header().slots[index].fractions.load();
  }
  return absl::NotFoundError(fmt::format("no state of version {} is left", version));
}

}  // namespace paceline::ps
