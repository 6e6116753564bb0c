// For tests: files as another version of Paceline may write them.
#pragma once

#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "paceline/records/store/crc32.h"

namespace paceline::store {

// The text of a checkpoint's state, as if it were of the next format.
inline std::string in_next_format(const std::string& state) {
  nlohmann::json document = nlohmann::json::parse(state);
  document["format"] = document["format"].get<int>() + 1;
  document.erase("crc32");
  const std::string text = document.dump(1, ' ');
  document["crc32"] = fmt::format("{:08x}", crc32_after(text.data(), text.size(), 0));
  return document.dump(1, ' ') + '\n';
}

}  // namespace paceline::store
