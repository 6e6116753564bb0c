// The header of an NPY file in NumPy's form, version 1.0, for tests that read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/computing/data/npy_header.h"

namespace paceline::data {

// NumPy's code of the type, for example "<f4": byte order, kind, bytes.
inline std::string descr_of(NpyType type) {
  const bool whole = is_integer(type);
  const bool natural = std::string(name_of(type)).starts_with("uint");
  return fmt::format("{}{}{}", bytes_of(type) == 1 ? '|' : '<',
                     !whole    ? 'f'
                     : natural ? 'u'
                               : 'i',
                     bytes_of(type));
}

inline std::string npy_header_text(NpyType type, const std::vector<std::int64_t>& shape) {
  constexpr std::size_t kAligned = 64;
  std::string dictionary = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                       descr_of(type), fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  std::string text("\x93NUMPY\1\0", 8);
  const std::size_t before = text.size() + 2;
  dictionary.append((kAligned - (before + dictionary.size() + 1) % kAligned) % kAligned, ' ');
  dictionary += '\n';
  text += static_cast<char>(dictionary.size() & 0xff);
  text += static_cast<char>(dictionary.size() >> 8);
  return text + dictionary;
}

}  // namespace paceline::data
