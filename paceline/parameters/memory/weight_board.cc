#include "paceline/parameters/memory/weight_board.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/transport/ipc/futex.h"

namespace paceline::memory {

namespace {

constexpr std::uint64_t kBoardMagic = 0x31647262656c6370;  // "pclebrd1"
constexpr int kMostBuffers = WeightWriter::kSlots + 64;
constexpr std::int64_t kNoVersion = -1;

// Version and buffer in one word, so that both change at once.
struct Latest {
  Version version;
  int buffer;
};
constexpr int kBufferBits = 12;
static_assert(kMostBuffers < (1 << kBufferBits));
std::uint64_t pack(Latest latest) {
  return static_cast<std::uint64_t>(latest.version.value()) << kBufferBits |
         static_cast<std::uint64_t>(latest.buffer);
}
Latest unpack(std::uint64_t word) {
  return {Version(static_cast<std::int64_t>(word >> kBufferBits)),
          static_cast<int>(word & ((1 << kBufferBits) - 1))};
}

}  // namespace

struct BoardHeader {
  std::uint64_t magic;
  std::int64_t floats;
  std::int32_t buffers;
  std::int32_t on_device;  // 1: they are in a card's memory, and not behind this header
  std::atomic<std::uint64_t> latest;
  std::atomic<std::uint32_t> published;  // counts publications; readers sleep on it
  // The buffer that each reader has pinned, + 1; or 0. A cache line each would be kinder to many readers, but
  // they pin once an iteration.
  std::atomic<std::uint32_t> pins[WeightWriter::kSlots];
  std::atomic<std::int64_t> versions[kMostBuffers];  // the version that each buffer holds
  std::atomic<std::int32_t> taken;  // the buffer that was taken and is not published, + 1; or 0
  std::atomic<std::uint32_t> rung;  // counts rings; a BoardBell sleeps on it
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

namespace {
// The buffers begin at a whole page, also of an arm64 kernel with the largest ones: a reader maps them alone.
constexpr std::size_t kLargestPage = 64 << 10;
std::size_t header_bytes() { return (sizeof(BoardHeader) + kLargestPage - 1) / kLargestPage * kLargestPage; }
std::size_t buffer_bytes(std::int64_t floats) {
  return ipc::whole_pages(static_cast<std::size_t>(floats) * sizeof(float));
}
// One the latest, one being written, and one for each that may hold on to an old version.
int buffers_for(int readers, int kept) { return 2 + readers + kept; }
}  // namespace

std::size_t WeightWriter::bytes(std::int64_t floats, int readers, int kept) {
  return header_bytes() + static_cast<std::size_t>(buffers_for(readers, kept)) * buffer_bytes(floats);
}

absl::StatusOr<WeightWriter> WeightWriter::create(std::int64_t floats, int readers, int kept,
                                                  std::unique_ptr<DeviceBuffers> device) {
  PACELINE_CHECK(readers > 0 && readers <= kSlots, "{} readers", readers);
  const int buffers = buffers_for(readers, kept);
  PACELINE_CHECK(buffers <= kMostBuffers, "{} buffers", buffers);
  const std::size_t size = device != nullptr ? header_bytes() : bytes(floats, readers, kept);
  PACELINE_ASSIGN_OR_RETURN(ipc::SharedMemory memory, ipc::SharedMemory::create("paceline-weights", size));
  PACELINE_ASSIGN_OR_RETURN(ipc::Mapping mapping, memory.map(0, size, true));
  auto* header = new (mapping.data()) BoardHeader{};
  header->magic = kBoardMagic;
  header->floats = floats;
  header->buffers = buffers;
  header->on_device = device != nullptr ? 1 : 0;
  for (std::atomic<std::int64_t>& version : header->versions) version.store(kNoVersion);
  return WeightWriter(std::move(memory), std::move(mapping), floats, kept, std::move(device));
}

namespace {

// Bytes that another process left are not trusted: places that they name have to be in the memory.
absl::Status check_board(const BoardHeader& header, std::size_t size) {
  const bool is_board = header.magic == kBoardMagic && header.buffers > 0 && header.buffers <= kMostBuffers &&
                        header.floats >= 0 && size >= header_bytes();
  const auto floats = static_cast<std::uint64_t>(header.floats);
  const auto fits = [&] {
    if (header.on_device != 0) return size == header_bytes();
    return floats <= size / sizeof(float) &&
           size == header_bytes() + static_cast<std::size_t>(header.buffers) * buffer_bytes(header.floats);
  };
  if (!is_board || !fits()) return absl::InvalidArgumentError("the memory has no board of weights");
  return absl::OkStatus();
}

absl::Status check_version(const BoardHeader& header) {
  const Latest latest = unpack(header.latest.load());
  const bool has_version =
      latest.buffer < header.buffers && header.versions[latest.buffer].load() == latest.version.value();
  if (!has_version) return absl::InvalidArgumentError("the board has no version");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Version> WeightWriter::version_in(const ipc::SharedMemory& memory) {
  PACELINE_ASSIGN_OR_RETURN(const ipc::Mapping mapping, memory.map(0, header_bytes(), false));
  const auto& header = *reinterpret_cast<const BoardHeader*>(mapping.data());
  PACELINE_RETURN_IF_ERROR(check_board(header, memory.size()));
  PACELINE_RETURN_IF_ERROR(check_version(header));
  return unpack(header.latest.load()).version;
}

absl::StatusOr<WeightWriter> WeightWriter::adopt(ipc::SharedMemory memory, std::int64_t floats, int readers,
                                                 int kept, std::unique_ptr<DeviceBuffers> device,
                                                 bool may_be_empty) {
  if (memory.size() != (device != nullptr ? header_bytes() : bytes(floats, readers, kept)))
    return absl::InvalidArgumentError("the board is of another model");
  PACELINE_ASSIGN_OR_RETURN(ipc::Mapping mapping, memory.map(0, memory.size(), true));
  auto* header = reinterpret_cast<BoardHeader*>(mapping.data());
  PACELINE_RETURN_IF_ERROR(check_board(*header, memory.size()));
  const absl::Status has_version = check_version(*header);
  const bool is_empty = may_be_empty && header->latest.load() == 0;
  if (!has_version.ok() && !is_empty) return has_version;
  const bool same = header->floats == floats && header->buffers == buffers_for(readers, kept) &&
                    (header->on_device != 0) == (device != nullptr);
  if (!same) return absl::InvalidArgumentError("the board is of another model");
  const Version latest = unpack(header->latest.load()).version;
  // Its process may have ended while it published the next one.
  for (std::atomic<std::int64_t>& version : header->versions) {
    if (version.load() > latest.value()) version.store(kNoVersion);
  }
  // The same process may not have come to waking those who wait for the latest.
  header->published.fetch_add(1);
  ipc::futex_wake_all(header->published);
  WeightWriter writer(std::move(memory), std::move(mapping), floats, kept, std::move(device));
  const int taken = header->taken.load() - 1;
  for (int index = 0; index < header->buffers; ++index) {
    if (header->versions[index].load() != kNoVersion || index == taken)
      PACELINE_RETURN_IF_ERROR(writer.find_on_device(index));
  }
  return writer;
}

WeightWriter::WeightWriter(ipc::SharedMemory memory, ipc::Mapping mapping, std::int64_t floats, int kept,
                           std::unique_ptr<DeviceBuffers> device)
    : memory_(std::move(memory)),
      mapping_(std::move(mapping)),
      header_(reinterpret_cast<BoardHeader*>(mapping_.data())),
      floats_(floats),
      most_kept_(static_cast<std::size_t>(kept)),
      device_(std::move(device)),
      on_device_(device_ != nullptr ? static_cast<std::size_t>(header_->buffers) : 0) {}

absl::Status WeightWriter::find_on_device(int index) {
  if (device_ == nullptr || on_device_[static_cast<std::size_t>(index)] != nullptr) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(on_device_[static_cast<std::size_t>(index)], device_->at(index));
  return absl::OkStatus();
}

absl::Status WeightWriter::reserve(int buffers) {
  for (int index = 0; index < std::min(buffers, header_->buffers); ++index)
    PACELINE_RETURN_IF_ERROR(find_on_device(index));
  return absl::OkStatus();
}

float* WeightWriter::buffer(int index) const {
  if (device_ != nullptr) return on_device_[static_cast<std::size_t>(index)];
  return reinterpret_cast<float*>(mapping_.data() + header_bytes() +
                                  static_cast<std::size_t>(index) * buffer_bytes(floats_));
}

bool WeightWriter::pinned(int index) const {
  return std::any_of(header_->pins, header_->pins + kSlots,
                     [&](const auto& pin) { return pin.load() == static_cast<std::uint32_t>(index) + 1; });
}

int WeightWriter::free_buffer() const {
  std::vector<bool> used(static_cast<std::size_t>(header_->buffers), false);
  used[static_cast<std::size_t>(unpack(header_->latest.load()).buffer)] = true;
  for (const auto& [version, index] : kept_) used[static_cast<std::size_t>(index)] = true;
  for (int slot = 0; slot < kSlots; ++slot) {
    const std::uint32_t pin = header_->pins[slot].load();
    if (pin > 0 && pin <= used.size()) used[pin - 1] = true;
  }
  // The lowest, so that pages of buffers nobody needs are never touched.
  const auto found = std::find(used.begin(), used.end(), false);
  PACELINE_CHECK(found != used.end(), "all {} buffers are in use", used.size());
  return static_cast<int>(found - used.begin());
}

std::span<float> WeightWriter::next() { return *take(); }

absl::StatusOr<std::span<float>> WeightWriter::take() {
  while (true) {
    taken_ = free_buffer();
    PACELINE_RETURN_IF_ERROR(find_on_device(taken_));
    // Until it is published the buffer holds no version: a late pin_exactly must not take it for its old one.
    // That pins and then looks at the version; this clears the version and then looks at the pins. One sees
    // the other.
    const std::int64_t old = header_->versions[taken_].exchange(kNoVersion);
    if (!pinned(taken_)) break;
    header_->versions[taken_].store(old);
  }
  header_->taken.store(taken_ + 1);
  return std::span<float>(buffer(taken_), static_cast<std::size_t>(floats_));
}

// A reader may have it pinned for a moment: as it holds no version, the reader lets it go.
absl::StatusOr<std::span<float>> WeightWriter::take_again() {
  const int index = header_->taken.load() - 1;
  const bool was_taken =
      index >= 0 && index < header_->buffers && header_->versions[index].load() == kNoVersion;
  if (!was_taken) return absl::FailedPreconditionError("no buffer of the board was taken");
  taken_ = index;
  return std::span<float>(buffer(taken_), static_cast<std::size_t>(floats_));
}

void WeightWriter::publish(Version version) {
  PACELINE_CHECK(taken_ >= 0 && (version > this->version() || version == Version(0)), "publish {} after {}",
                 version, this->version());
  header_->versions[taken_].store(version.value());
  header_->latest.store(pack({version, taken_}));
  header_->published.fetch_add(1);
  ipc::futex_wake_all(header_->published);
  header_->taken.store(0);
  taken_ = -1;
}

Version WeightWriter::version() const { return unpack(header_->latest.load()).version; }

std::span<const float> WeightWriter::latest() const {
  return {buffer(unpack(header_->latest.load()).buffer), static_cast<std::size_t>(floats_)};
}

absl::Status WeightWriter::keep(Version version) {
  const Latest latest = unpack(header_->latest.load());
  if (version != latest.version) {
    return absl::FailedPreconditionError(
        fmt::format("version {} is not the latest, {}", version, latest.version));
  }
  return keep_buffer(version, latest.buffer);
}

absl::Status WeightWriter::keep_again(Version version) {
  for (int index = 0; index < header_->buffers; ++index) {
    if (header_->versions[index].load() == version.value()) return keep_buffer(version, index);
  }
  return absl::NotFoundError(fmt::format("version {} is not on the board any more", version));
}

absl::Status WeightWriter::keep_taken(Version version) {
  PACELINE_CHECK(taken_ >= 0, "nothing is taken to be kept as {}", version);
  PACELINE_RETURN_IF_ERROR(keep_buffer(version, taken_));
  header_->versions[taken_].store(version.value());
  header_->taken.store(0);
  taken_ = -1;
  return absl::OkStatus();
}

absl::Status WeightWriter::keep_buffer(Version version, int buffer) {
  if (kept_.size() >= most_kept_)
    return absl::ResourceExhaustedError(fmt::format("{} versions are kept", most_kept_));
  kept_.emplace_back(version, buffer);
  return absl::OkStatus();
}

void WeightWriter::drop(Version version) {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const auto& one) { return one.first == version; });
  if (found != kept_.end()) kept_.erase(found);
}

std::span<const float> WeightWriter::kept(Version version) const {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const auto& one) { return one.first == version; });
  PACELINE_CHECK(found != kept_.end(), "version {} is not kept", version);
  return {buffer(found->second), static_cast<std::size_t>(floats_)};
}

void WeightWriter::release_reader(int slot) {
  if (slot >= 0 && slot < kSlots) header_->pins[slot].store(0);
}

absl::StatusOr<WeightReader> WeightReader::open(const std::string& path, std::int64_t floats, int slot) {
  PACELINE_ASSIGN_OR_RETURN(ipc::SharedMemory memory, ipc::SharedMemory::open(path));
  PACELINE_ASSIGN_OR_RETURN(ipc::Mapping mapping, memory.map(0, header_bytes(), true));
  const auto* header = reinterpret_cast<const BoardHeader*>(mapping.data());
  const bool fits = header->magic == kBoardMagic && header->floats == floats && header->buffers > 0 &&
                    header->buffers <= kMostBuffers && slot >= 0 && slot < WeightWriter::kSlots;
  if (!fits) {
    return absl::InvalidArgumentError(
        fmt::format("{} does not hold weights of this model ({} floats, reader {})", path, floats, slot));
  }
  const std::size_t bytes =
      static_cast<std::size_t>(header->buffers) * paceline::memory::buffer_bytes(floats);
  const bool on_device = header->on_device != 0;
  PACELINE_ASSIGN_OR_RETURN(ipc::Mapping buffers, on_device ? ipc::Mapping::reserve(bytes)
                                                            : memory.map(header_bytes(), bytes, false));
  return WeightReader(std::move(memory), std::move(mapping), std::move(buffers), floats, slot, on_device);
}

WeightReader::WeightReader(ipc::SharedMemory memory, ipc::Mapping header, ipc::Mapping buffers,
                           std::int64_t floats, int slot, bool on_device)
    : memory_(std::move(memory)),
      header_(std::move(header)),
      buffers_(std::move(buffers)),
      floats_(floats),
      slot_(slot),
      on_device_(on_device) {}

std::size_t WeightReader::buffers_offset() { return header_bytes(); }

BoardHeader* WeightReader::header() const { return reinterpret_cast<BoardHeader*>(header_.data()); }

// The number of buffers that are mapped. The header does not count, because others can write it.
int WeightReader::buffer_count() const { return static_cast<int>(buffers_.size() / buffer_bytes()); }

std::size_t WeightReader::buffer_bytes() const { return paceline::memory::buffer_bytes(floats_); }

std::span<const float> WeightReader::buffer(int index) const {
  const std::byte* start = buffers_.data() + static_cast<std::size_t>(index) * buffer_bytes();
  return {reinterpret_cast<const float*>(start), static_cast<std::size_t>(floats_)};
}

namespace {
void ring_at(BoardHeader& header) {
  header.rung.fetch_add(1);
  ipc::futex_wake_all(header.rung);
}
}  // namespace

absl::StatusOr<BoardBell> BoardBell::open(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(const ipc::SharedMemory memory, ipc::SharedMemory::open(path));
  PACELINE_ASSIGN_OR_RETURN(ipc::Mapping header, memory.map(0, header_bytes(), true));
  PACELINE_RETURN_IF_ERROR(check_board(*reinterpret_cast<const BoardHeader*>(header.data()), memory.size()));
  return BoardBell(std::move(header));
}

BoardHeader& BoardBell::header() const { return *reinterpret_cast<BoardHeader*>(header_.data()); }

std::uint32_t BoardBell::rung() const { return header().rung.load(); }

void BoardBell::wait(std::uint32_t seen, std::chrono::nanoseconds timeout) const {
  ipc::futex_wait(header().rung, seen, timeout);
}

void BoardBell::ring() const { ring_at(header()); }

void WeightReader::ring() { ring_at(*header()); }

std::optional<WeightReader::Pinned> WeightReader::pin(Version version, std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const std::uint32_t published = header()->published.load();
    const std::uint64_t word = header()->latest.load();
    const Latest latest = unpack(word);
    if (published > 0 && latest.version >= version && latest.buffer < buffer_count()) {
      header()->pins[slot_].store(static_cast<std::uint32_t>(latest.buffer) + 1);
      if (header()->latest.load() == word) return Pinned{latest.version, buffer(latest.buffer)};
      continue;
    }
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return std::nullopt;
    ipc::futex_wait(header()->published, published, left);
  }
}

std::optional<WeightReader::Pinned> WeightReader::pin_exactly(Version version) {
  for (int index = 0; index < buffer_count(); ++index) {
    if (header()->versions[index].load() != version.value()) continue;
    header()->pins[slot_].store(static_cast<std::uint32_t>(index) + 1);
    if (header()->versions[index].load() == version.value()) return Pinned{version, buffer(index)};
  }
  unpin();
  return std::nullopt;
}

void WeightReader::unpin() { header()->pins[slot_].store(0); }

Version WeightReader::version() const { return unpack(header()->latest.load()).version; }

}  // namespace paceline::memory
