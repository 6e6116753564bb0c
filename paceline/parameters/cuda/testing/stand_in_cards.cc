#include "paceline/parameters/cuda/testing/stand_in_cards.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <set>
#include <string>
#include <utility>

namespace paceline::cuda::stand_in {

namespace {

constexpr std::size_t kDefaultBytes = std::size_t{8} << 30;

std::size_t number_of(const char* variable, std::size_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 10);
}

// PACELINE_STAND_IN_NAME keeps the cards of tests apart that run at the same time.
std::string name_before_card() {
  const char* name = std::getenv("PACELINE_STAND_IN_NAME");
  return std::string("paceline-card-") + (name == nullptr ? "" : name) + "-";
}

// The link that /proc shows for a memfd of a card, up to its number.
std::string link_before_card() { return "/memfd:" + name_before_card(); }

bool begins(const std::string& text, const std::string& with) {
  return text.compare(0, with.size(), with) == 0;
}

std::string link_of(const std::string& path) {
  char text[512];
  const ssize_t size = readlink(path.c_str(), text, sizeof text);
  return size <= 0 ? std::string() : std::string(text, static_cast<std::size_t>(size));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* open = opendir(folder.c_str());
  if (open == nullptr) return names;  // a process that has ended meanwhile, or another person's
  while (const dirent* entry = readdir(open)) {
    if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9') names.emplace_back(entry->d_name);
  }
  closedir(open);
  return names;
}

std::uint64_t at(const void* address) { return reinterpret_cast<std::uint64_t>(address); }
void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

// PACELINE_STAND_IN_ONLY leaves a process one card, as CUDA_VISIBLE_DEVICES does.
int card_count() {
  static const bool sees_one = std::getenv("PACELINE_STAND_IN_ONLY") != nullptr;
  static const int count = sees_one ? 1 : static_cast<int>(number_of("PACELINE_STAND_IN_CARDS", 1));
  return count;
}

int number_on_host(int card) {
  static const int first = static_cast<int>(number_of("PACELINE_STAND_IN_ONLY", 0));
  return first + card;
}

std::size_t total_bytes(int card) {
  const char* text = std::getenv("PACELINE_STAND_IN_BYTES");
  if (text == nullptr || *text == '\0') return kDefaultBytes;
  for (int before = 0; before < number_on_host(card); ++before) {
    const char* comma = std::strchr(text, ',');
    if (comma == nullptr) break;
    text = comma + 1;
  }
  return std::strtoull(text, nullptr, 10);
}

std::size_t held_bytes(int card) {
  const std::string link = link_before_card() + std::to_string(number_on_host(card)) + " ";
  std::set<ino_t> seen;
  std::size_t bytes = 0;
  for (const std::string& process : names_in("/proc")) {
    const std::string folder = "/proc/" + process + "/fd/";
    for (const std::string& fd : names_in(folder)) {
      const std::string path = folder + fd;
      struct stat status;
      if (begins(link_of(path), link) && stat(path.c_str(), &status) == 0 &&
          seen.insert(status.st_ino).second) {
        bytes += static_cast<std::size_t>(status.st_size);
      }
    }
  }
  return bytes;
}

Error Allocation::create(int card, std::size_t bytes, std::shared_ptr<Allocation>& out) {
  if (bytes == 0 || bytes % kGranularity != 0) return kInvalidValue;
  // Two processes that allocate at the same time may both get the last bytes. No test depends on it.
  const std::size_t total = total_bytes(card);
  if (bytes > total || held_bytes(card) > total - bytes) return kOutOfMemory;
  const std::string name = name_before_card() + std::to_string(number_on_host(card));
  const int fd = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (fd < 0) return kOperatingSystem;
  out.reset(new Allocation(fd, card, bytes));
  return ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? kSuccess : kOutOfMemory;
}

Error Allocation::import(int fd, std::shared_ptr<Allocation>& out) {
  struct stat status;
  const std::string link = link_of("/proc/self/fd/" + std::to_string(fd));
  const std::string before = link_before_card();
  // The driver refuses a descriptor of anything but a card's memory, and so does this.
  if (!begins(link, before) || fstat(fd, &status) != 0) return kInvalidValue;
  const int card = std::atoi(link.c_str() + before.size()) - number_on_host(0);
  if (card < 0 || card >= card_count()) return kInvalidDevice;
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return kOperatingSystem;
  out.reset(new Allocation(copy, card, static_cast<std::size_t>(status.st_size)));
  return kSuccess;
}

Allocation::~Allocation() { close(fd_); }

Error Addresses::reserve(std::size_t bytes, std::size_t alignment, std::uint64_t& out) {
  if (bytes == 0 || bytes % kGranularity != 0 || (alignment & (alignment - 1)) != 0) return kInvalidValue;
  const std::size_t step = alignment > kGranularity ? alignment : kGranularity;
  void* whole = mmap(nullptr, bytes + step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED) return kOutOfMemory;
  const std::uint64_t begin = (at(whole) + step - 1) / step * step;
  if (begin > at(whole)) munmap(whole, begin - at(whole));
  const std::uint64_t behind = at(whole) + step - begin;
  if (behind > 0) munmap(pointer(begin + bytes), behind);
  const std::lock_guard lock(mutex_);
  reservations_[begin] = bytes;
  out = begin;
  return kSuccess;
}

Error Addresses::free(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != bytes) return kInvalidValue;
  const auto mapped = mappings_.lower_bound(address);
  if (mapped != mappings_.end() && mapped->first < address + bytes) return kInvalidValue;
  munmap(pointer(address), bytes);
  reservations_.erase(found);
  return kSuccess;
}

bool Addresses::reserved(std::uint64_t address, std::size_t bytes) const {
  auto after = reservations_.upper_bound(address);
  if (after == reservations_.begin()) return false;
  --after;
  return address + bytes <= after->first + after->second;
}

Error Addresses::map(std::uint64_t address, std::size_t bytes, std::shared_ptr<Allocation> allocation) {
  const std::lock_guard lock(mutex_);
  // The driver maps whole allocations.
  if (bytes != allocation->bytes() || address % kGranularity != 0 || !reserved(address, bytes))
    return kInvalidValue;
  const auto after = mappings_.lower_bound(address);
  if (after != mappings_.end() && after->first < address + bytes) return kInvalidValue;
  if (after != mappings_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second.bytes > address) return kInvalidValue;
  }
  // Without access until set_access(), as on a card.
  if (mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, allocation->fd(), 0) == MAP_FAILED) {
    return kOutOfMemory;
  }
  mappings_[address] = {bytes, std::move(allocation)};
  return kSuccess;
}

Error Addresses::set_access(std::uint64_t address, std::size_t bytes, int flags) {
  if (flags != 0 && flags != 1 && flags != 3) return kInvalidValue;
  const std::lock_guard lock(mutex_);
  const std::uint64_t end = address + bytes;
  std::uint64_t reached = address;
  for (auto it = mappings_.find(address); it != mappings_.end() && it->first == reached && reached < end;
       ++it) {
    reached += it->second.bytes;
  }
  if (reached != end || bytes == 0) return kInvalidValue;
  const int protection = flags == 0 ? PROT_NONE : flags == 1 ? PROT_READ : PROT_READ | PROT_WRITE;
  if (mprotect(pointer(address), bytes, protection) != 0) return kOperatingSystem;
  for (auto it = mappings_.find(address); it != mappings_.end() && it->first < end; ++it)
    it->second.access = flags;
  return kSuccess;
}

Error Addresses::unmap(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(address);
  if (found == mappings_.end() || found->second.bytes != bytes) return kInvalidValue;
  // The addresses stay reserved.
  if (mmap(pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
           0) == MAP_FAILED) {
    return kOutOfMemory;
  }
  mappings_.erase(found);
  return kSuccess;
}

Error Addresses::register_host(void* address, std::size_t bytes) {
  if (address == nullptr || bytes == 0) return kInvalidValue;
  const std::lock_guard lock(mutex_);
  const auto after = registered_.lower_bound(at(address));
  if (after != registered_.end() && after->first < at(address) + bytes) return kHostMemoryAlreadyRegistered;
  if (after != registered_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second > at(address)) return kHostMemoryAlreadyRegistered;
  }
  registered_[at(address)] = bytes;
  return kSuccess;
}

Error Addresses::unregister_host(void* address) {
  const std::lock_guard lock(mutex_);
  return registered_.erase(at(address)) == 0 ? kHostMemoryNotRegistered : kSuccess;
}

Error Addresses::allocate_host(std::size_t bytes, void*& out) {
  if (bytes == 0) return kInvalidValue;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  const Error error = register_host(memory, bytes);
  if (error != kSuccess) return error;
  const std::lock_guard lock(mutex_);
  host_allocations_[at(memory)] = bytes;
  out = memory;
  return kSuccess;
}

Error Addresses::free_host(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = host_allocations_.find(at(address));
  if (found == host_allocations_.end()) return kInvalidValue;
  munmap(address, found->second);
  host_allocations_.erase(found);
  registered_.erase(at(address));
  return kSuccess;
}

bool Addresses::known(std::uint64_t address, std::size_t bytes, bool write) const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t end = address + bytes;
  if (end < address) return false;
  auto host = registered_.upper_bound(address);
  if (host != registered_.begin()) {
    --host;
    if (end <= host->first + host->second) return true;
  }
  auto mapping = mappings_.upper_bound(address);
  if (mapping == mappings_.begin()) return false;
  --mapping;
  if (mapping->first + mapping->second.bytes <= address) return false;
  while (mapping != mappings_.end() && mapping->first <= address) {
    if (mapping->second.access < (write ? 3 : 1)) return false;
    address = mapping->first + mapping->second.bytes;
    if (end <= address) return true;
    ++mapping;
  }
  return false;
}

}  // namespace paceline::cuda::stand_in
