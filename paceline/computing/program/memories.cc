#include "paceline/computing/program/memories.h"

#include <utility>

#include "paceline/parameters/ps/bfloat16.h"

namespace paceline::program {

void Memories::add(const engine::Memory& memory) {
  remove(memory.base);
  known_.emplace(memory.base, Known{memory, std::nullopt});
}

void Memories::remove(const std::byte* base) {
  const auto found = known_.find(base);
  if (found == known_.end()) return;
  if (found->second.number) to_forget_.push_back(*found->second.number);
  known_.erase(found);
}

Memories::Known* Memories::find(const float* pointer) {
  const auto* at = reinterpret_cast<const std::byte*>(pointer);
  auto behind = known_.upper_bound(at);
  if (behind == known_.begin()) return nullptr;
  Known& known = std::prev(behind)->second;
  return at < known.memory.base + known.memory.bytes ? &known : nullptr;
}

void Memories::introduce(Known& known, std::int64_t& next, std::string& lines) {
  if (known.number) return;
  known.number = next++;
  lines += map_line(*known.number, known.memory);
}

std::vector<std::int64_t> Memories::boards() const {
  std::vector<std::int64_t> all;
  for (const auto& [base, known] : known_) {
    if (known.number && !known.memory.card.empty() && !known.memory.writable) all.push_back(*known.number);
  }
  return all;
}

std::optional<std::int64_t> Memories::number_of(const std::byte* base, std::string& lines) {
  const auto found = known_.find(base);
  if (found == known_.end()) return std::nullopt;
  introduce(found->second, next_, lines);
  return found->second.number;
}

std::optional<std::vector<PlacedRun>> Memories::runs_of(const ps::Layout& layout,
                                                        std::span<const float* const> pointers,
                                                        std::string& lines) {
  for (const std::int64_t number : std::exchange(to_forget_, {})) lines += unmap_line(number);
  std::vector<PlacedRun> runs;
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    Known* known = find(pointers[i]);
    if (known == nullptr) return std::nullopt;
    const engine::Memory& memory = known->memory;
    introduce(*known, next_, lines);
    const std::int64_t offset = static_cast<std::int64_t>(memory.file_offset) +
                                (reinterpret_cast<const std::byte*>(pointers[i]) - memory.base);
    const auto follows = [&](const PlacedRun& run) {
      const std::int64_t first = layout.tensors()[static_cast<std::size_t>(run.tensor)].offset;
      const std::int64_t own = layout.tensors()[i].offset;
      const std::size_t bytes = own < layout.narrow() ? sizeof(ps::Bfloat16) : sizeof(float);
      return run.memory == *known->number && (first < layout.narrow()) == (own < layout.narrow()) &&
             run.offset + (own - first) * static_cast<std::int64_t>(bytes) == offset;
    };
    if (runs.empty() || !follows(runs.back()))
      runs.push_back({static_cast<std::int64_t>(i), *known->number, offset});
  }
  return runs;
}

}  // namespace paceline::program
