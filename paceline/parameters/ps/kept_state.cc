#include "paceline/parameters/ps/kept_state.h"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::ps {

namespace {

std::size_t float_bytes(std::int64_t floats) {
  return ipc::whole_pages(static_cast<std::size_t>(floats) * sizeof(float));
}

// A process that is killed has done all that is before a point, and nothing behind it. The compiler has to keep that
// order; processors do.
void in_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace

// A cache line each, since each is of another thread.
struct alignas(64) KeptState::Progress {
  std::atomic<std::int64_t> steps;
};

std::size_t KeptState::table_bytes(const KeptShape& shape) {
  return ipc::whole_pages(shape.chains.size() * sizeof(Progress));
}

std::size_t KeptState::bytes(const KeptShape& shape) {
  return ipc::kPageBytes + table_bytes(shape) +
         static_cast<std::size_t>(shape.streams) * float_bytes(shape.floats);
}

KeptShape KeptShape::of(const Layout& layout, OptimizerKind kind, int threads, std::int64_t piece) {
  PACELINE_CHECK(!is_tensorwise(kind), "a kept state in pieces of tensors that step as wholes");
  PACELINE_CHECK(piece > 0 && piece % Layout::kAlignment == 0, "pieces of {} floats", piece);
  KeptShape shape{.streams = state_streams(kind), .slot_floats = piece};
  for (const Layout::Range& range : layout.moving()) {
    // A small constant is a part of a piece, so that a layout with many of them has as few slots as another.
    std::int64_t begin = range.begin;
    if (!shape.pieces.empty()) {
      const std::int64_t end = std::min(range.end, shape.pieces.back().begin + piece);
      if (end > begin) shape.pieces.back().end = begin = end;
    }
    for (; begin < range.end; begin += piece)
      shape.pieces.push_back({begin, std::min(range.end, begin + piece)});
  }
  const auto count = std::min(shape.pieces.size(), static_cast<std::size_t>(std::max(1, threads)));
  for (std::size_t i = 0; i < count; ++i) {
    const Chain chain{shape.pieces.size() * i / count, shape.pieces.size() * (i + 1) / count, shape.floats};
    shape.chains.push_back(chain);
    shape.floats += static_cast<std::int64_t>(chain.end - chain.begin + 1) * piece;
  }
  return shape;
}

absl::StatusOr<KeptState> KeptState::create(KeptShape shape, std::uint64_t identity) {
  PACELINE_CHECK(shape.streams <= static_cast<int>(kMostStreams), "{} streams", shape.streams);
  PACELINE_ASSIGN_OR_RETURN(auto memory, ipc::SharedMemory::create("paceline-state", bytes(shape)));
  PACELINE_ASSIGN_OR_RETURN(auto mapping, memory.map(0, memory.size(), true));
  KeptState state(std::move(memory), std::move(mapping), std::move(shape));
  KeptVersions::create(state.mapping_.data(), identity);
  for (std::size_t i = 0; i < state.chains(); ++i) new (&state.progress(i)) Progress{};
  return state;
}

absl::StatusOr<KeptState> KeptState::adopt(ipc::SharedMemory memory, KeptShape shape,
                                           std::uint64_t identity) {
  if (memory.size() != bytes(shape))
    return absl::InvalidArgumentError("the optimizer's state is of another model");
  PACELINE_ASSIGN_OR_RETURN(auto mapping, memory.map(0, memory.size(), true));
  KeptState state(std::move(memory), std::move(mapping), std::move(shape));
  if (!state.versions().is(identity))
    return absl::InvalidArgumentError("the optimizer's state is of another shard or of another attempt");
  return state;
}

bool KeptState::has_begun(const ipc::SharedMemory& memory, Version version) {
  const auto page = memory.map(0, ipc::kPageBytes, true);
  return page.ok() && KeptVersions::in(page->data()).has_begun(version);
}

KeptVersions& KeptState::versions() const { return KeptVersions::in(mapping_.data()); }

KeptState::Progress& KeptState::progress(std::size_t chain) const {
  return reinterpret_cast<Progress*>(mapping_.data() + ipc::kPageBytes)[chain];
}

float* KeptState::stream(int index) const {
  return reinterpret_cast<float*>(mapping_.data() + ipc::kPageBytes + table_bytes(shape_) +
                                  static_cast<std::size_t>(index) * float_bytes(shape_.floats));
}

KeptState::Place KeptState::place_of(const KeptShape::Chain& chain, std::int64_t step) const {
  const auto pieces = static_cast<std::int64_t>(chain.end - chain.begin), slots = pieces + 1;
  Place place{.piece = chain.begin + static_cast<std::size_t>(step % pieces)};
  place.range = shape_.pieces[place.piece];
  const std::int64_t from = chain.place + step % slots * shape_.slot_floats;
  const std::int64_t to = chain.place + (step + pieces) % slots * shape_.slot_floats;
  for (int i = 0; i < shape_.streams; ++i) {
    place.before[static_cast<std::size_t>(i)] = stream(i) + from;
    place.state[static_cast<std::size_t>(i)] = stream(i) + to;
  }
  return place;
}

std::vector<KeptState::Place> KeptState::places() const {
  std::vector<Place> places;
  for (std::size_t i = 0; i < chains(); ++i) {
    const KeptShape::Chain& chain = shape_.chains[i];
    const std::int64_t steps = progress(i).steps;
    for (std::int64_t piece = 0; piece < static_cast<std::int64_t>(chain.end - chain.begin); ++piece)
      places.push_back(place_of(chain, steps + piece));
  }
  return places;
}

KeptState::Walk::Walk(KeptState& state, std::size_t chain, Version version)
    : state_(state),
      chain_(state.shape_.chains[chain]),
      progress_(state.progress(chain)),
      version_(version),
      steps_(progress_.steps) {
  const auto pieces = static_cast<std::int64_t>(chain_.end - chain_.begin);
  end_ = state.versions().updates_to(version) * pieces;
  PACELINE_CHECK(steps_ >= end_ - pieces && steps_ <= end_, "{} steps of {} pieces for version {}", steps_,
                 pieces, version);
  place_ = state.place_of(chain_, steps_);
  slot_ = steps_ % (pieces + 1);
  for (int i = 0; i < state.shape_.streams; ++i)
    first_slot_[static_cast<std::size_t>(i)] = state.stream(i) + chain_.place;
}

const KeptState::Place* KeptState::Walk::next() const { return steps_ == end_ ? nullptr : &place_; }

void KeptState::Walk::made(bool finite) {
  in_order();
  if (!finite) state_.versions().note_not_finite(version_);
  // This thread alone writes the count, so the addition needs no lock.
  progress_.steps.store(++steps_, std::memory_order_release);
  in_order();
  go_on();
}

// The same as place_of(), without its divisions, which would cost as much as a tenth of a piece.
void KeptState::Walk::go_on() {
  const KeptShape& shape = state_.shape_;
  if (++place_.piece == chain_.end) place_.piece = chain_.begin;
  place_.range = shape.pieces[place_.piece];
  place_.state = place_.before;
  if (++slot_ > static_cast<std::int64_t>(chain_.end - chain_.begin)) slot_ = 0;
  for (int i = 0; i < shape.streams; ++i)
    place_.before[static_cast<std::size_t>(i)] =
        first_slot_[static_cast<std::size_t>(i)] + slot_ * shape.slot_floats;
}

// Bytes that another process left are not trusted: a count that does not fit the version is an error.
absl::StatusOr<KeptState::Left> KeptState::take_up(Version published) const {
  const std::optional<double> fractions = versions().fractions_of(published);
  if (!fractions) return absl::InvalidArgumentError(fmt::format("no state of version {} is left", published));
  const std::int64_t updates = versions().updates_to(published);
  Left left{.fractions = *fractions};
  for (std::size_t i = 0; i < chains(); ++i) {
    const KeptShape::Chain& chain = shape_.chains[i];
    const auto pieces = static_cast<std::int64_t>(chain.end - chain.begin);
    const std::int64_t steps = progress(i).steps;
    const std::int64_t whole = steps / pieces, more = steps % pieces;
    if (steps < 0 || !(whole == updates || (whole == updates + 1 && more == 0)))
      return absl::InvalidArgumentError(
          fmt::format("a part of the state of version {} is not left", published));
    left.begun |= whole > updates || more > 0;
  }
  return left;
}

}  // namespace paceline::ps
