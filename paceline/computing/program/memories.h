// The memory that a program may have to map: the parts that it knows, and the place of our pointers in it.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/computing/engine/engine.h"
#include "paceline/computing/program/messages.h"
#include "paceline/parameters/ps/layout.h"

namespace paceline::program {

class Memories {
 public:
  void add(const engine::Memory& memory);
  void remove(const std::byte* base);

  // The places of these pointers, one a tensor of the layout, in as few runs as can be. Lines that the
  // program must be told before are added to `lines`. Nothing if one of them points to no memory that was
  // added.
  std::optional<std::vector<PlacedRun>> runs_of(const ps::Layout& layout,
                                                std::span<const float* const> pointers, std::string& lines);
  // The numbers of the memories of cards that the program knows and may only read: each may have the weights.
  std::vector<std::int64_t> boards() const;
  // The number of the memory at `base`; as above.
  std::optional<std::int64_t> number_of(const std::byte* base, std::string& lines);

 private:
  struct Known {
    engine::Memory memory;
    std::optional<std::int64_t> number;  // once the program knows it
  };
  Known* find(const float* pointer);
  static void introduce(Known& known, std::int64_t& next, std::string& lines);

  std::map<const std::byte*, Known> known_;  // key: base
  std::vector<std::int64_t> to_forget_;      // numbers that the program knows in vain
  std::int64_t next_ = 0;
};

}  // namespace paceline::program
