#include "paceline/tools/cli/build_id.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "paceline/base/program_version.h"

namespace paceline::cli {

namespace {

constexpr std::size_t kShownBytes = 8;

constexpr std::size_t padded(std::size_t size) { return (size + 3) / 4 * 4; }

// In hexadecimal; empty if these notes have no identity.
std::string identity_in(std::string_view notes) {
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof note) {
    std::memcpy(&note, notes.data(), sizeof note);
    notes.remove_prefix(sizeof note);
    const std::size_t name = padded(note.n_namesz), size = padded(note.n_descsz);
    if (name + size > notes.size()) return "";
    if (note.n_type == NT_GNU_BUILD_ID && notes.starts_with(std::string_view("GNU\0", 4))) {
      std::string text;
      for (const char byte : notes.substr(name, std::min<std::size_t>(note.n_descsz, kShownBytes)))
        text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
      return text;
    }
    notes.remove_prefix(name + size);
  }
  return "";
}

// The first object of the process is the program itself.
int read_first(dl_phdr_info* object, std::size_t, void* found) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const auto* begin = reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr);
    const std::string identity = identity_in({begin, part.p_memsz});
    if (!identity.empty()) *static_cast<std::string*>(found) = identity;
  }
  return 1;
}

}  // namespace

std::string build_id() {
  std::string identity;
  dl_iterate_phdr(read_first, &identity);
  return identity.empty() ? kProgramVersion : fmt::format("{} {}", kProgramVersion, identity);
}

}  // namespace paceline::cli
