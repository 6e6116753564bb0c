#include "paceline/base/core_dumps.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string_view>

namespace paceline {

namespace {

constexpr char kFilter[] = "/proc/self/coredump_filter";
constexpr std::string_view kNoMemory = "0x10";
// Linux's default. A parent that has secrets has passed its own setting on to this process, and the setting
// before that is unknown.
constexpr std::string_view kDefault = "0x33";

// The setting as it was read, "00000033
// "; empty: nothing was changed.
char filter_before[32] = "";
std::atomic<bool> left_out = false;

void write_filter(std::string_view filter) {
  const int file = open(kFilter, O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const auto written = write(file, filter.data(), filter.size());
  close(file);
}

}  // namespace

void keep_memory_out_of_core_dumps() {
  if (left_out.exchange(true)) return;
  const int file = open(kFilter, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  filter_before[0] = '0';
  filter_before[1] = 'x';
  const ssize_t count = read(file, filter_before + 2, sizeof filter_before - 3);
  close(file);
  filter_before[count > 0 ? 2 + count : 0] = '\0';
  if (std::strncmp(filter_before + 2, "00000010", 8) == 0)
    std::memcpy(filter_before, kDefault.data(), kDefault.size() + 1);
  write_filter(kNoMemory);
}

void put_memory_into_core_dumps() {
  if (left_out && filter_before[0] != '\0') write_filter({filter_before, std::strlen(filter_before)});
}

}  // namespace paceline
