#include "paceline/parameters/exchange/slices.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/parameters/exchange/message.h"

namespace paceline::exchange {

namespace {

constexpr std::size_t kMostSlices = 2;
// Besides these. There are more only if a peer holds back blocks that it has begun to send.
constexpr std::size_t kMostLeaving = 4;

// The first slice of this version or a later one.
auto place_of(auto& slices, Version version) {
  return std::find_if(slices.begin(), slices.end(),
                      [&](const auto& slice) { return slice->version >= version; });
}

}  // namespace

Slices::Slice* Slices::find(List& slices, Version version) {
  const auto found = place_of(slices, version);
  return found == slices.end() || (*found)->version != version ? nullptr : found->get();
}

Slices::Slice& Slices::add(Host& host, Version version) const {
  const std::size_t blocks = block_count(floats_);
  auto slice = std::make_unique<Slice>(
      Slice{version, spares_->take(), std::vector<bool>(blocks), std::vector<bool>(blocks)});
  return **host.slices.insert(place_of(host.slices, version), std::move(slice));
}

absl::StatusOr<std::optional<std::span<float>>> Slices::room(int host, Version version, std::int64_t begin) {
  const std::lock_guard lock(mutex_);
  Host& from = hosts_[static_cast<std::size_t>(host)];
  if (version <= from.skipped) return std::nullopt;
  Slice* slice = find(from.slices, version);
  const bool earlier =
      version <= from.over || (!from.slices.empty() && version < from.slices.back()->version);
  if (slice == nullptr && earlier)
    return absl::DataLossError(fmt::format("gradients of number {}, which is over", version));
  if (slice == nullptr && (from.slices.size() == kMostSlices || from.leaving.size() >= kMostLeaving))
    return std::nullopt;
  if (slice == nullptr) slice = &add(from, version);
  if (slice->offered[block_index(floats_, begin)])
    return absl::DataLossError(fmt::format("gradients of number {} from {} on twice", version, begin));
  slice->offered[block_index(floats_, begin)] = true;
  return block_at(std::span(slice->floats.get(), static_cast<std::size_t>(floats_)), begin);
}

bool Slices::arrived(int host, Version version, std::int64_t begin) {
  bool left = false;
  {
    const std::lock_guard lock(mutex_);
    Host& from = hosts_[static_cast<std::size_t>(host)];
    Slice* slice = find(from.slices, version);
    const bool leaving = slice == nullptr;
    if (leaving) slice = find(from.leaving, version);
    PACELINE_CHECK(slice != nullptr, "a block of commit {} of host {}, which is not here", version, host);
    slice->here[block_index(floats_, begin)] = true;
    left = leaving && slice->here == slice->offered;
    if (left) {
      spares_->give(std::move(slice->floats));
      from.leaving.erase(place_of(from.leaving, version));
    }
  }
  changed_.notify_all();
  return left;
}

void Slices::fail(absl::Status why) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_.ok()) failed_ = std::move(why);
  }
  changed_.notify_all();
}

float* Slices::slice(int host, Version version) {
  const std::lock_guard lock(mutex_);
  Host& from = hosts_[static_cast<std::size_t>(host)];
  Slice* slice = find(from.slices, version);
  if (slice == nullptr) slice = &add(from, version);
  return slice->floats.get();
}

absl::Status Slices::wait(int host, Version version, std::int64_t begin, std::int64_t end) {
  std::unique_lock lock(mutex_);
  Slice* slice = find(hosts_[static_cast<std::size_t>(host)].slices, version);
  PACELINE_CHECK(slice != nullptr, "nobody asked for commit {} of host {}", version, host);
  const auto first = slice->here.begin() + static_cast<std::ptrdiff_t>(block_index(floats_, begin));
  const auto last = slice->here.begin() + static_cast<std::ptrdiff_t>(blocks_before(floats_, end));
  const auto all_here = [&] { return std::all_of(first, last, [](bool here) { return here; }); };
  changed_.wait(lock, [&] { return !failed_.ok() || all_here(); });
  return all_here() ? absl::OkStatus() : failed_;
}

void Slices::release(int host, Version version) {
  const std::lock_guard lock(mutex_);
  Host& from = hosts_[static_cast<std::size_t>(host)];
  const auto released = place_of(from.slices, version);
  PACELINE_CHECK(released != from.slices.end() && (*released)->version == version,
                 "commit {} of host {} is not here", version, host);
  put_away(from, std::move(*released));
  from.slices.erase(released);
  from.over = version;
}

// All blocks that were asked for have come; but a peer may send others, which are still under way.
void Slices::put_away(Host& host, std::unique_ptr<Slice> slice) const {
  if (slice->here == slice->offered) {
    spares_->give(std::move(slice->floats));
  } else {
    host.leaving.insert(place_of(host.leaving, slice->version), std::move(slice));
  }
}

void Slices::skip(int host, Version version) {
  const std::lock_guard lock(mutex_);
  Host& from = hosts_[static_cast<std::size_t>(host)];
  from.skipped = std::max(from.skipped, version);
  while (!from.slices.empty() && from.slices.front()->version <= version) {
    put_away(from, std::move(from.slices.front()));
    from.slices.pop_front();
  }
}

bool Slices::skipped(int host, Version version) {
  const std::lock_guard lock(mutex_);
  return version <= hosts_[static_cast<std::size_t>(host)].skipped;
}

}  // namespace paceline::exchange
