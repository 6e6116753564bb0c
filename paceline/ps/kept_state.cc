#include "paceline/ps/kept_state.h"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::ps {

namespace {

constexpr std::uint64_t kMagic = 0x3274617473636c70;  // "plcstat2"
constexpr std::int64_t kNone = -1;

std::size_t float_bytes(std::int64_t floats) {
  return memory::whole_pages(static_cast<std::size_t>(floats) * sizeof(float));
}

// A process that is killed has done all that is before a point, and nothing behind it. The compiler has to keep that
// order; processors do.
void in_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace

struct KeptState::Header {
  std::uint64_t magic;
  std::uint64_t identity;
  // The published version and the next one, each in the place of its parity.
  struct Entry {
    std::atomic<std::int64_t> version;
    std::atomic<double> fractions;
    std::atomic<std::int32_t> not_finite;
  } entries[2];

  Entry& entry(Version version) { return entries[version.value() & 1]; }
};

struct KeptState::Piece {
  std::atomic<std::int64_t> version;
  std::atomic<std::int64_t> saved;  // place of older values in the log, in floats; kNone: there are none
};

std::size_t KeptState::table_bytes(const KeptShape& shape) {
  return memory::whole_pages(shape.pieces.size() * sizeof(Piece));
}

std::size_t KeptState::bytes(const KeptShape& shape) {
  return memory::kPageBytes + table_bytes(shape) +
         static_cast<std::size_t>(shape.streams) *
             (float_bytes(shape.floats) + float_bytes(shape.log_floats));
}

KeptShape KeptShape::of(const Layout& layout, OptimizerKind kind, int threads, std::int64_t piece) {
  PACELINE_CHECK(piece > 0 && piece % Layout::kAlignment == 0, "pieces of {} floats", piece);
  KeptShape shape{.streams = state_streams(kind), .floats = layout.size()};
  const std::vector<TensorSpec>& tensors = layout.tensors();
  for (std::size_t i = 0; is_tensorwise(kind) && i < tensors.size(); ++i) {
    const std::int64_t end = i + 1 < tensors.size() ? tensors[i + 1].offset : layout.size();
    if (tensors[i].kind != TensorKind::kConstant) shape.pieces.push_back({tensors[i].offset, end});
  }
  for (const Layout::Range& range : is_tensorwise(kind) ? std::vector<Layout::Range>() : layout.moving()) {
    for (std::int64_t begin = range.begin; begin < range.end; begin += piece)
      shape.pieces.push_back({begin, std::min(range.end, begin + piece)});
  }
  for (const auto& [begin, end] : shape.pieces)
    shape.place_floats = std::max(shape.place_floats, end - begin);
  shape.log_floats = shape.place_floats * std::max(1, threads);
  if (shape.log_floats >= shape.floats) {
    shape.log_floats = shape.floats;
    shape.place_floats = 0;
  }
  return shape;
}

absl::StatusOr<KeptState> KeptState::create(KeptShape shape, std::uint64_t identity) {
  PACELINE_ASSIGN_OR_RETURN(auto memory, memory::SharedMemory::create("paceline-state", bytes(shape)));
  PACELINE_ASSIGN_OR_RETURN(auto mapping, memory.map(0, memory.size(), true));
  KeptState state(std::move(memory), std::move(mapping), std::move(shape));
  auto* const header = new (state.mapping_.data()) Header{};
  header->magic = kMagic;
  header->identity = identity;
  for (Header::Entry& entry : header->entries) entry.version = kNone;
  for (std::size_t i = 0; i < state.shape_.pieces.size(); ++i) {
    Piece* const piece = new (&state.piece(i)) Piece{};
    piece->version = kNone;
    piece->saved = kNone;
  }
  return state;
}

absl::StatusOr<KeptState> KeptState::adopt(memory::SharedMemory memory, KeptShape shape,
                                           std::uint64_t identity) {
  if (memory.size() != bytes(shape))
    return absl::InvalidArgumentError("the optimizer's state is of another model");
  PACELINE_ASSIGN_OR_RETURN(auto mapping, memory.map(0, memory.size(), true));
  KeptState state(std::move(memory), std::move(mapping), std::move(shape));
  if (state.header().magic != kMagic || state.header().identity != identity)
    return absl::InvalidArgumentError("the optimizer's state is of another shard or of another attempt");
  return state;
}

KeptState::Header& KeptState::header() const { return *reinterpret_cast<Header*>(mapping_.data()); }

KeptState::Piece& KeptState::piece(std::size_t index) const {
  return reinterpret_cast<Piece*>(mapping_.data() + memory::kPageBytes)[index];
}

float* KeptState::stream(int index) const {
  return reinterpret_cast<float*>(mapping_.data() + memory::kPageBytes + table_bytes(shape_) +
                                  static_cast<std::size_t>(index) * float_bytes(shape_.floats));
}

float* KeptState::log(int index) const {
  return stream(shape_.streams) +
         static_cast<std::size_t>(index) * (float_bytes(shape_.log_floats) / sizeof(float));
}

std::vector<std::span<float>> KeptState::streams() const {
  std::vector<std::span<float>> spans;
  for (int i = 0; i < shape_.streams; ++i)
    spans.emplace_back(stream(i), static_cast<std::size_t>(shape_.floats));
  return spans;
}

void KeptState::start(Version version, double fractions) {
  begin(version, fractions);
  for (std::size_t i = 0; i < shape_.pieces.size(); ++i) piece(i).version = version.value();
}

void KeptState::begin(Version version, double fractions) {
  Header::Entry& entry = header().entry(version);
  if (entry.version == version.value()) return;
  entry.version = kNone;
  entry.fractions = fractions;
  entry.not_finite = 0;
  entry.version = version.value();
}

bool KeptState::has(std::size_t index, Version version) const {
  return piece(index).version == version.value();
}

void KeptState::save(std::size_t index, int thread) {
  const auto& [begin, end] = shape_.pieces[index];
  const std::int64_t place = shape_.place_floats == 0 ? begin : thread * shape_.place_floats;
  PACELINE_CHECK(place >= 0 && place + end - begin <= shape_.log_floats, "thread {} has no place", thread);
  for (int i = 0; i < shape_.streams; ++i) std::copy(stream(i) + begin, stream(i) + end, log(i) + place);
  in_order();
  piece(index).saved = place;
  in_order();
}

void KeptState::made(std::size_t index, Version version, bool finite) {
  in_order();
  if (!finite) header().entry(version).not_finite = 1;
  piece(index).version = version.value();
  piece(index).saved = kNone;
  in_order();
}

bool KeptState::finite(Version version) const { return header().entry(version).not_finite == 0; }

absl::StatusOr<KeptState::Left> KeptState::take_up(Version published) {
  const Header::Entry& entry = header().entry(published);
  if (entry.version != published.value())
    return absl::InvalidArgumentError(fmt::format("no state of version {} is left", published));
  Left left{.fractions = entry.fractions};
  for (std::size_t index = 0; index < shape_.pieces.size(); ++index) {
    Piece& one = piece(index);
    const auto& [begin, end] = shape_.pieces[index];
    const std::int64_t place = one.saved;
    const bool next = one.version == published.next().value();
    const bool fits = place == kNone || (place >= 0 && place <= shape_.log_floats - (end - begin));
    if (!fits || (!next && one.version != published.value()))
      return absl::InvalidArgumentError(
          fmt::format("a part of the state of version {} is not left", published));
    for (int i = 0; place != kNone && !next && i < shape_.streams; ++i)
      std::copy_n(log(i) + place, end - begin, stream(i) + begin);
    in_order();
    one.saved = kNone;
    left.begun |= next;
  }
  return left;
}

}  // namespace paceline::ps
