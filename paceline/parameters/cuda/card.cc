#include "paceline/parameters/cuda/card.h"

#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::cuda {

namespace {

constexpr int kVirtualMemoryManagement = 102;  // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
constexpr int kPosixDescriptors = 103;  // CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
constexpr int kDescriptorHandle = 1;    // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
constexpr unsigned kBesideTheDefaultStream = 1;  // CU_STREAM_NON_BLOCKING

std::string text_of(const Uuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

absl::StatusOr<std::string> uuid_of(const Driver& driver, Device device) {
  Uuid uuid{};
  PACELINE_RETURN_IF_ERROR(driver.check(driver.device_uuid(&uuid, device), "cuDeviceGetUuid"));
  return text_of(uuid);
}

absl::StatusOr<std::vector<std::pair<std::string, Device>>> devices_of(const Driver& driver) {
  int count = 0;
  PACELINE_RETURN_IF_ERROR(driver.check(driver.device_count(&count), "cuDeviceGetCount"));
  std::vector<std::pair<std::string, Device>> devices;
  for (int i = 0; i < count; ++i) {
    Device device = 0;
    PACELINE_RETURN_IF_ERROR(driver.check(driver.device_get(&device, i), "cuDeviceGet"));
    PACELINE_ASSIGN_OR_RETURN(std::string uuid, uuid_of(driver, device));
    devices.emplace_back(std::move(uuid), device);
  }
  return devices;
}

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

absl::StatusOr<std::vector<std::string>> Card::all(const Driver& driver) {
  PACELINE_ASSIGN_OR_RETURN(const auto devices, devices_of(driver));
  std::vector<std::string> uuids;
  for (const auto& [uuid, device] : devices) uuids.push_back(uuid);
  return uuids;
}

absl::StatusOr<std::shared_ptr<Card>> Card::open(std::shared_ptr<const Driver> driver,
                                                 const std::string& uuid) {
  PACELINE_ASSIGN_OR_RETURN(const auto devices, devices_of(*driver));
  std::shared_ptr<Card> card(new Card);
  card->driver_ = std::move(driver);
  const Driver& cu = *card->driver_;
  bool found = false;
  for (const auto& [known, device] : devices) {
    if (known != uuid) continue;
    card->device_ = device;
    found = true;
  }
  if (!found) return absl::UnavailableError(fmt::format("this process sees no card {}", uuid));
  card->uuid_ = uuid;
  char name[128] = {};
  PACELINE_RETURN_IF_ERROR(cu.check(cu.device_name(name, sizeof name - 1, card->device_), "cuDeviceGetName"));
  card->name_ = name;
  for (const int attribute : {kVirtualMemoryManagement, kPosixDescriptors}) {
    int has = 0;
    PACELINE_RETURN_IF_ERROR(
        cu.check(cu.device_attribute(&has, attribute, card->device_), "cuDeviceGetAttribute"));
    if (has == 0)
      return absl::UnavailableError(
          fmt::format("memory of {} cannot be shared between processes", card->name_));
  }
  const absl::Status retained =
      cu.check(cu.primary_context_retain(&card->context_, card->device_), "cuDevicePrimaryCtxRetain");
  if (absl::IsResourceExhausted(retained))
    return absl::ResourceExhaustedError(
        fmt::format("{} has no room for another process, or one process has it alone ({})", card->name_,
                    std::string(retained.message())));
  PACELINE_RETURN_IF_ERROR(retained);
  PACELINE_RETURN_IF_ERROR(card->enter());
  AllocationProperties properties;
  properties.location.id = card->device_;
  PACELINE_RETURN_IF_ERROR(cu.check(cu.allocation_granularity(&card->granularity_, &properties, 0),
                                    "cuMemGetAllocationGranularity"));
  return card;
}

Card::~Card() {
  if (context_ != nullptr) driver_->primary_context_release(device_);
}

absl::Status Card::enter() const {
  return driver_->check(driver_->context_set_current(context_), "cuCtxSetCurrent");
}

absl::StatusOr<Card::Free> Card::memory() const {
  Free free{};
  PACELINE_RETURN_IF_ERROR(driver_->check(driver_->memory_info(&free.free, &free.total), "cuMemGetInfo"));
  return free;
}

absl::StatusOr<CardMemory> CardMemory::create(std::shared_ptr<Card> card, std::size_t bytes) {
  const Driver& cu = card->driver();
  const std::size_t rounded = card->rounded(std::max<std::size_t>(bytes, 1));
  AllocationProperties properties;
  properties.location.id = card->device();
  AllocationHandle handle = 0;
  const absl::Status made = cu.check(cu.memory_create(&handle, rounded, &properties, 0), "cuMemCreate");
  if (absl::IsResourceExhausted(made)) {
    PACELINE_ASSIGN_OR_RETURN(const Card::Free free, card->memory());
    return absl::ResourceExhaustedError(
        fmt::format("{} has {:.0f} MiB free of {:.0f}, and {:.0f} MiB more are needed", card->name(),
                    mebibytes(free.free), mebibytes(free.total), mebibytes(rounded)));
  }
  PACELINE_RETURN_IF_ERROR(made);
  CardMemory memory(std::move(card), handle, rounded);
  PACELINE_RETURN_IF_ERROR(memory.map());
  return memory;
}

absl::StatusOr<CardMemory> CardMemory::import(std::shared_ptr<Card> card, const FileDescriptor& descriptor,
                                              std::size_t bytes) {
  const Driver& cu = card->driver();
  AllocationHandle handle = 0;
  PACELINE_RETURN_IF_ERROR(cu.check(
      cu.memory_import(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get())),
                       kDescriptorHandle),
      "cuMemImportFromShareableHandle"));
  const std::size_t rounded = card->rounded(bytes);
  CardMemory memory(std::move(card), handle, rounded);
  PACELINE_RETURN_IF_ERROR(memory.map());
  return memory;
}

absl::Status CardMemory::map() {
  const Driver& cu = card_->driver();
  PACELINE_RETURN_IF_ERROR(cu.check(cu.address_reserve(&address_, bytes_, 0, 0, 0), "cuMemAddressReserve"));
  PACELINE_RETURN_IF_ERROR(cu.check(cu.memory_map(address_, bytes_, 0, handle_, 0), "cuMemMap"));
  mapped_ = true;
  AccessDescription access;
  access.location.id = card_->device();
  return cu.check(cu.memory_set_access(address_, bytes_, &access, 1), "cuMemSetAccess");
}

CardMemory& CardMemory::operator=(CardMemory&& other) noexcept {
  std::swap(card_, other.card_);
  std::swap(handle_, other.handle_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

CardMemory::~CardMemory() {
  if (card_ == nullptr) return;
  const Driver& cu = card_->driver();
  if (mapped_) cu.memory_unmap(address_, bytes_);
  if (address_ != 0) cu.address_free(address_, bytes_);
  cu.memory_release(handle_);
}

absl::StatusOr<FileDescriptor> CardMemory::descriptor() const {
  const Driver& cu = card_->driver();
  int fd = -1;
  PACELINE_RETURN_IF_ERROR(
      cu.check(cu.memory_export(&fd, handle_, kDescriptorHandle, 0), "cuMemExportToShareableHandle"));
  return FileDescriptor(fd);
}

absl::StatusOr<CardStream> CardStream::create(std::shared_ptr<Card> card) {
  const Driver& cu = card->driver();
  Stream stream = nullptr;
  PACELINE_RETURN_IF_ERROR(cu.check(cu.stream_create(&stream, kBesideTheDefaultStream), "cuStreamCreate"));
  return CardStream(std::move(card), stream);
}

CardStream::CardStream(CardStream&& other) noexcept
    : card_(std::move(other.card_)), stream_(std::exchange(other.stream_, nullptr)) {}

CardStream::~CardStream() {
  if (stream_ != nullptr) card_->driver().stream_destroy(stream_);
}

absl::Status CardStream::settle() const {
  const Driver& cu = card_->driver();
  return cu.check(cu.stream_synchronize(stream_), "cuStreamSynchronize");
}

absl::Status CardStream::copy(DevicePointer to, DevicePointer from, std::size_t bytes) const {
  if (bytes == 0) return absl::OkStatus();
  const Driver& cu = card_->driver();
  return cu.check(cu.copy(to, from, bytes, stream_), "cuMemcpyDtoDAsync");
}

absl::Status CardStream::copy_to_card(DevicePointer to, const void* from, std::size_t bytes) const {
  if (bytes == 0) return absl::OkStatus();
  const Driver& cu = card_->driver();
  return cu.check(cu.copy_to_device(to, from, bytes, stream_), "cuMemcpyHtoDAsync");
}

absl::Status CardStream::upload(DevicePointer to, const void* from, std::size_t bytes) const {
  PACELINE_RETURN_IF_ERROR(copy_to_card(to, from, bytes));
  return settle();
}

absl::Status CardStream::download(void* to, DevicePointer from, std::size_t bytes) const {
  if (bytes == 0) return settle();
  const Driver& cu = card_->driver();
  PACELINE_RETURN_IF_ERROR(cu.check(cu.copy_to_host(to, from, bytes, stream_), "cuMemcpyDtoHAsync"));
  return settle();
}

absl::Status CardStream::clear(DevicePointer at, std::size_t bytes) const {
  PACELINE_CHECK(bytes % sizeof(std::uint32_t) == 0, "{} bytes are not whole words", bytes);
  if (bytes == 0) return absl::OkStatus();
  const Driver& cu = card_->driver();
  return cu.check(cu.set_words(at, 0, bytes / sizeof(std::uint32_t), stream_), "cuMemsetD32Async");
}

absl::Status CardStream::set_word(DevicePointer at, std::uint32_t value) const {
  const Driver& cu = card_->driver();
  return cu.check(cu.set_words(at, value, 1, stream_), "cuMemsetD32Async");
}

}  // namespace paceline::cuda
