// The first page of an optimizer's state that outlives its process: whose state it is, and which versions it has.
// Processors write it in order, so a process that is killed has done all that is before a point, and nothing behind it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>

#include "paceline/base/ids.h"

namespace paceline::ps {

class KeptVersions {
 public:
  // In memory that is zero and outlives this. `identity`: a number for the shard, its run and its attempt.
  static KeptVersions& create(std::byte* page, std::uint64_t identity) {
    auto* const made = new (page) KeptVersions;
    made->magic_ = kMagic;
    made->identity_ = identity;
    return *made;
  }
  // Memory in which create() may have made one.
  static KeptVersions& in(std::byte* page) { return *reinterpret_cast<KeptVersions*>(page); }

  bool is(std::uint64_t identity) const { return magic_ == kMagic && identity_ == identity; }

  // The state as it is belongs to a first version, after updates whose fractions have this sum.
  void start(Version version, double fractions) {
    begin(version, fractions);
    first_ = version.value();
  }
  // The update of the next version begins, or goes on. `fractions`: the sum with this update's.
  void begin(Version version, double fractions) {
    Entry& one = entry(version);
    if (one.version == version.value()) return;
    one.version = kNone;
    one.fractions = fractions;
    one.not_finite = 0;
    one.version = version.value();
  }

  // Whether the update of that version has begun, or is made. Requires: it is the published version or the next one.
  bool has_begun(Version version) const { return entry(version).version == version.value(); }
  std::int64_t updates_to(Version version) const { return version.value() - first_; }
  // The sum of the fractions up to a version; nothing if the page does not have that version.
  std::optional<double> fractions_of(Version version) const {
    const Entry& one = entry(version);
    if (one.version != version.value() || first_ < 0 || updates_to(version) < 0) return std::nullopt;
    return one.fractions;
  }
  void note_not_finite(Version version) { entry(version).not_finite = 1; }
  bool finite(Version version) const { return entry(version).not_finite == 0; }

 private:
  static constexpr std::uint64_t kMagic = 0x3474617473636c70;  // "plcstat4"
  static constexpr std::int64_t kNone = -1;

  struct Entry {
    std::atomic<std::int64_t> version{kNone};
    std::atomic<double> fractions;
    std::atomic<std::int32_t> not_finite;
  };

  KeptVersions() = default;
  Entry& entry(Version version) { return entries_[version.value() & 1]; }
  const Entry& entry(Version version) const { return entries_[version.value() & 1]; }

  std::uint64_t magic_ = 0;
  std::uint64_t identity_ = 0;
  std::atomic<std::int64_t> first_{kNone};
  // The published version and the next one, each in the place of its parity.
  Entry entries_[2];
};

}  // namespace paceline::ps
