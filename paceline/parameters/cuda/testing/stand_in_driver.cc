// A library with those functions of the CUDA driver's interface that Paceline uses, for machines without a
// GPU. A card's memory is a memfd, so processes share it by descriptor; a stream is a thread; a kernel is a
// function of the processor.
//
// PACELINE_STAND_IN_CARDS   number of cards, 1 by default
// PACELINE_STAND_IN_BYTES   memory of each card, 8 GiB by default; or a list with a number for each, "1000,2000"
// PACELINE_STAND_IN_NAME    processes with the same name share the cards' memory; empty by default
//
// The stand-in is stricter than the driver where a mistake would otherwise not show: every use of memory
// needs a current context, streams wait for nothing that they are not told to wait for, copies from the host
// read when their turn comes, and a process that was forked after cuInit() gets only errors.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "paceline/parameters/cuda/host_kernels.h"
#include "paceline/parameters/cuda/testing/stand_in_cards.h"
#include "paceline/parameters/cuda/testing/stand_in_streams.h"

#define STAND_IN_API extern "C" __attribute__((visibility("default")))

extern "C" __attribute__((weak)) const HostKernel* paceline_host_kernel(const char* name);

namespace paceline::cuda::stand_in {

namespace {

using Pointer = std::uint64_t;      // CUdeviceptr
using Handle = unsigned long long;  // CUmemGenericAllocationHandle
constexpr int kDriverVersion = 13000;
constexpr int kPosixDescriptor = 1;  // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
constexpr int kPinned = 1;           // CU_MEM_ALLOCATION_TYPE_PINNED
constexpr int kDeviceLocation = 1;   // CU_MEM_LOCATION_TYPE_DEVICE

struct Location {  // CUmemLocation
  int type;
  int id;
};

struct AllocationProperties {  // CUmemAllocationProp
  int type;
  int handle_types;
  Location location;
  void* windows;
  unsigned char flags[8];
};

struct Access {  // CUmemAccessDesc
  Location location;
  int flags;
};

struct Context {
  int card;
  int retained = 0;
};

// All of one process. It is never destroyed: streams may still wait for words when the process exits.
struct State {
  const pid_t process = getpid();
  Addresses addresses;
  std::mutex mutex;
  std::vector<std::unique_ptr<Context>> contexts;  // the primary context of each card
  std::map<Handle, std::shared_ptr<Allocation>> allocations;
  Handle next_handle = 1;
  std::map<void*, std::unique_ptr<Stream>> streams;
  std::unique_ptr<Stream> null_stream;
};

std::atomic<State*> state_of_process{nullptr};
thread_local Context* current = nullptr;

State* state() { return state_of_process.load(); }

// The check of a call that needs no context.
Error initialized() {
  State* here = state();
  return here == nullptr || here->process != getpid() ? kNotInitialized : kSuccess;
}

Error ready() {
  const Error error = initialized();
  if (error != kSuccess) return error;
  const std::lock_guard lock(state()->mutex);
  return current == nullptr || current->retained == 0 ? kInvalidContext : kSuccess;
}

bool is_card(int card) { return card >= 0 && card < card_count(); }

// Null if there is no such stream. The handles 0, 1 and 2 are the null stream, as the driver has them.
Stream* stream_of(void* handle) {
  State& here = *state();
  const std::lock_guard lock(here.mutex);
  if (reinterpret_cast<std::uintptr_t>(handle) <= 2) {
    if (!here.null_stream) here.null_stream = std::make_unique<Stream>();
    return here.null_stream.get();
  }
  const auto found = here.streams.find(handle);
  return found == here.streams.end() ? nullptr : found->second.get();
}

template <typename Work>
Error on_stream(void* handle, Work work) {
  if (const Error error = ready(); error != kSuccess) return error;
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  work(*stream);
  return kSuccess;
}

bool known(Pointer address, std::size_t bytes, bool write) {
  return state()->addresses.known(address, bytes, write);
}

template <typename T>
T* at(Pointer address) {
  return reinterpret_cast<T*>(address);
}

Pointer address_of(const void* pointer) { return reinterpret_cast<Pointer>(pointer); }

enum class Side { kHost, kCard };

Error copy(Pointer to, Side to_side, Pointer from, Side from_side, std::size_t bytes, void* stream) {
  if (const Error error = ready(); error != kSuccess) return error;
  if (bytes == 0) return kSuccess;
  if (to == 0 || from == 0) return kInvalidValue;
  if (to_side == Side::kCard && !known(to, bytes, true)) return kInvalidValue;
  if (from_side == Side::kCard && !known(from, bytes, false)) return kInvalidValue;
  return on_stream(stream,
                   [=](Stream& on) { on.add([=] { std::memmove(at<void>(to), at<void>(from), bytes); }); });
}

Error wait_for(void* stream) {
  return on_stream(stream, [](Stream& on) { on.synchronize(); });
}

Error copy_now(Pointer to, Side to_side, Pointer from, Side from_side, std::size_t bytes) {
  const Error error = copy(to, to_side, from, from_side, bytes, nullptr);
  return error != kSuccess ? error : wait_for(nullptr);
}

template <typename T>
Error fill(Pointer to, T value, std::size_t count, void* stream) {
  if (const Error error = ready(); error != kSuccess) return error;
  if (to % sizeof(T) != 0 || !known(to, count * sizeof(T), true)) return kInvalidValue;
  return on_stream(stream, [=](Stream& on) {
    on.add([=] {
      T* begin = at<T>(to);
      std::fill(begin, begin + count, value);
    });
  });
}

bool word_holds(const std::uint32_t* word, std::uint32_t value, unsigned flags) {
  const std::uint32_t now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  switch (flags & 3) {
    case 0:
      return static_cast<std::int32_t>(now - value) >= 0;
    case 1:
      return now == value;
    case 2:
      return (now & value) != 0;
    default:
      return ~(now | value) != 0;
  }
}

Error allocation_of(Handle handle, std::shared_ptr<Allocation>& out) {
  const std::lock_guard lock(state()->mutex);
  const auto found = state()->allocations.find(handle);
  if (found == state()->allocations.end()) return kInvalidValue;
  out = found->second;
  return kSuccess;
}

Handle keep(std::shared_ptr<Allocation> allocation) {
  State& here = *state();
  const std::lock_guard lock(here.mutex);
  here.allocations[here.next_handle] = std::move(allocation);
  return here.next_handle++;
}

struct Named {
  Error error;
  const char* name;
  const char* text;
};
constexpr Named kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kOperatingSystem, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kHostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {kHostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

int named(int error, const char* Named::*part, const char** out) {
  for (const Named& one : kErrors) {
    if (one.error == error) {
      *out = one.*part;
      return kSuccess;
    }
  }
  *out = nullptr;
  return kInvalidValue;
}

}  // namespace

// The driver and its cards.

STAND_IN_API int cuInit(unsigned flags) {
  if (flags != 0) return kInvalidValue;
  if (state() != nullptr) return initialized();
  auto* fresh = new State;
  for (int card = 0; card < card_count(); ++card)
    fresh->contexts.push_back(std::make_unique<Context>(Context{card}));
  State* none = nullptr;
  if (!state_of_process.compare_exchange_strong(none, fresh)) delete fresh;
  return kSuccess;
}

STAND_IN_API int cuDriverGetVersion(int* version) {
  *version = kDriverVersion;
  return kSuccess;
}

STAND_IN_API int cuGetErrorName(int error, const char** name) { return named(error, &Named::name, name); }

STAND_IN_API int cuGetErrorString(int error, const char** text) { return named(error, &Named::text, text); }

STAND_IN_API int cuDeviceGetCount(int* count) {
  if (const Error error = initialized(); error != kSuccess) return error;
  *count = card_count();
  return kSuccess;
}

STAND_IN_API int cuDeviceGet(int* card, int ordinal) {
  if (const Error error = initialized(); error != kSuccess) return error;
  if (!is_card(ordinal)) return kInvalidDevice;
  *card = ordinal;
  return kSuccess;
}

STAND_IN_API int cuDeviceGetName(char* name, int length, int card) {
  if (const Error error = initialized(); error != kSuccess) return error;
  if (!is_card(card)) return kInvalidDevice;
  std::snprintf(name, static_cast<std::size_t>(length), "Paceline's stand-in %d", card);
  return kSuccess;
}

STAND_IN_API int cuDeviceGetUuid_v2(unsigned char* uuid, int card) {
  if (const Error error = initialized(); error != kSuccess) return error;
  if (!is_card(card)) return kInvalidDevice;
  std::memcpy(uuid, "PacelineStandIn", 15);
  uuid[15] = static_cast<unsigned char>(number_on_host(card));
  return kSuccess;
}

STAND_IN_API int cuDeviceTotalMem_v2(std::size_t* bytes, int card) {
  if (const Error error = initialized(); error != kSuccess) return error;
  if (!is_card(card)) return kInvalidDevice;
  *bytes = total_bytes(card);
  return kSuccess;
}

STAND_IN_API int cuDeviceGetAttribute(int* value, int attribute, int card) {
  if (const Error error = initialized(); error != kSuccess) return error;
  if (!is_card(card)) return kInvalidDevice;
  switch (attribute) {
    case 1:
      *value = 1024;
      break;  // MAX_THREADS_PER_BLOCK
    case 10:
      *value = 32;
      break;  // WARP_SIZE
    case 16:
      *value = 4;
      break;  // MULTIPROCESSOR_COUNT
    case 75:
      *value = 7;
      break;  // COMPUTE_CAPABILITY_MAJOR
    case 76:
      *value = 0;
      break;   // COMPUTE_CAPABILITY_MINOR
    case 41:   // UNIFIED_ADDRESSING
    case 92:   // CAN_USE_STREAM_MEM_OPS_V1
    case 102:  // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    case 103:
      *value = 1;
      break;  // HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
    default:
      *value = 0;
  }
  return kSuccess;
}

STAND_IN_API int cuDevicePrimaryCtxRetain(void** context, int card) {
  if (const Error error = initialized(); error != kSuccess) return error;
  if (!is_card(card)) return kInvalidDevice;
  const std::lock_guard lock(state()->mutex);
  Context& primary = *state()->contexts[static_cast<std::size_t>(card)];
  ++primary.retained;
  *context = &primary;
  return kSuccess;
}

STAND_IN_API int cuDevicePrimaryCtxRelease_v2(int card) {
  if (const Error error = initialized(); error != kSuccess) return error;
  if (!is_card(card)) return kInvalidDevice;
  const std::lock_guard lock(state()->mutex);
  Context& primary = *state()->contexts[static_cast<std::size_t>(card)];
  if (primary.retained == 0) return kInvalidContext;
  --primary.retained;
  return kSuccess;
}

STAND_IN_API int cuCtxSetCurrent(void* context) {
  if (const Error error = initialized(); error != kSuccess) return error;
  current = static_cast<Context*>(context);
  return kSuccess;
}

STAND_IN_API int cuCtxGetCurrent(void** context) {
  if (const Error error = initialized(); error != kSuccess) return error;
  *context = current;
  return kSuccess;
}

STAND_IN_API int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (const Error error = ready(); error != kSuccess) return error;
  const std::size_t held = held_bytes(current->card);
  *total = total_bytes(current->card);
  *free = held < *total ? *total - held : 0;
  return kSuccess;
}

// Memory of a card.

STAND_IN_API int cuMemGetAllocationGranularity(std::size_t* granularity,
                                               const AllocationProperties* properties, int) {
  if (const Error error = initialized(); error != kSuccess) return error;
  if (granularity == nullptr || properties == nullptr) return kInvalidValue;
  *granularity = kGranularity;
  return kSuccess;
}

STAND_IN_API int cuMemCreate(Handle* handle, std::size_t bytes, const AllocationProperties* properties,
                             unsigned long long flags) {
  if (const Error error = ready(); error != kSuccess) return error;
  if (handle == nullptr || properties == nullptr || flags != 0 || properties->type != kPinned ||
      properties->location.type != kDeviceLocation) {
    return kInvalidValue;
  }
  if (!is_card(properties->location.id)) return kInvalidDevice;
  // Without this type the allocation could not be exported later.
  if (properties->handle_types != kPosixDescriptor) return kNotSupported;
  std::shared_ptr<Allocation> allocation;
  const Error error = Allocation::create(properties->location.id, bytes, allocation);
  if (error != kSuccess) return error;
  *handle = keep(std::move(allocation));
  return kSuccess;
}

STAND_IN_API int cuMemExportToShareableHandle(void* out, Handle handle, int type, unsigned long long flags) {
  if (const Error error = ready(); error != kSuccess) return error;
  if (out == nullptr || type != kPosixDescriptor || flags != 0) return kInvalidValue;
  std::shared_ptr<Allocation> allocation;
  if (const Error error = allocation_of(handle, allocation); error != kSuccess) return error;
  const int fd = dup(allocation->fd());
  if (fd < 0) return kOperatingSystem;
  std::memcpy(out, &fd, sizeof fd);
  return kSuccess;
}

STAND_IN_API int cuMemImportFromShareableHandle(Handle* handle, void* descriptor, int type) {
  if (const Error error = ready(); error != kSuccess) return error;
  if (handle == nullptr || type != kPosixDescriptor) return kInvalidValue;
  std::shared_ptr<Allocation> allocation;
  const auto fd = static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor));
  if (const Error error = Allocation::import(fd, allocation); error != kSuccess) return error;
  *handle = keep(std::move(allocation));
  return kSuccess;
}

STAND_IN_API int cuMemRelease(Handle handle) {
  if (const Error error = ready(); error != kSuccess) return error;
  const std::lock_guard lock(state()->mutex);
  return state()->allocations.erase(handle) == 0 ? kInvalidValue : kSuccess;
}

STAND_IN_API int cuMemAddressReserve(Pointer* address, std::size_t bytes, std::size_t alignment, Pointer,
                                     unsigned long long flags) {
  if (const Error error = ready(); error != kSuccess) return error;
  if (address == nullptr || flags != 0) return kInvalidValue;
  return state()->addresses.reserve(bytes, alignment, *address);
}

STAND_IN_API int cuMemAddressFree(Pointer address, std::size_t bytes) {
  if (const Error error = ready(); error != kSuccess) return error;
  return state()->addresses.free(address, bytes);
}

STAND_IN_API int cuMemMap(Pointer address, std::size_t bytes, std::size_t offset, Handle handle,
                          unsigned long long flags) {
  if (const Error error = ready(); error != kSuccess) return error;
  if (offset != 0 || flags != 0) return kInvalidValue;
  std::shared_ptr<Allocation> allocation;
  if (const Error error = allocation_of(handle, allocation); error != kSuccess) return error;
  return state()->addresses.map(address, bytes, std::move(allocation));
}

STAND_IN_API int cuMemSetAccess(Pointer address, std::size_t bytes, const Access* access, std::size_t count) {
  if (const Error error = ready(); error != kSuccess) return error;
  if (access == nullptr || count == 0) return kInvalidValue;
  int flags = 0;  // one process sees all cards at the same address, so the widest access counts
  for (const Access* one = access; one != access + count; ++one) {
    if (one->location.type != kDeviceLocation) return kInvalidValue;
    if (!is_card(one->location.id)) return kInvalidDevice;
    flags |= one->flags;
  }
  return state()->addresses.set_access(address, bytes, flags);
}

STAND_IN_API int cuMemUnmap(Pointer address, std::size_t bytes) {
  if (const Error error = ready(); error != kSuccess) return error;
  return state()->addresses.unmap(address, bytes);
}

// Memory of the host that the driver knows.

STAND_IN_API int cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned) {
  if (const Error error = ready(); error != kSuccess) return error;
  return state()->addresses.register_host(address, bytes);
}

STAND_IN_API int cuMemHostUnregister(void* address) {
  if (const Error error = ready(); error != kSuccess) return error;
  return state()->addresses.unregister_host(address);
}

STAND_IN_API int cuMemHostGetDevicePointer_v2(Pointer* out, void* address, unsigned flags) {
  if (const Error error = ready(); error != kSuccess) return error;
  if (out == nullptr || flags != 0 || !known(address_of(address), 1, false)) return kInvalidValue;
  *out = address_of(address);
  return kSuccess;
}

STAND_IN_API int cuMemHostAlloc(void** out, std::size_t bytes, unsigned) {
  if (const Error error = ready(); error != kSuccess) return error;
  return out == nullptr ? kInvalidValue : state()->addresses.allocate_host(bytes, *out);
}

STAND_IN_API int cuMemFreeHost(void* address) {
  if (const Error error = ready(); error != kSuccess) return error;
  return state()->addresses.free_host(address);
}

// Streams and events.

STAND_IN_API int cuStreamCreate(void** out, unsigned flags) {
  if (const Error error = ready(); error != kSuccess) return error;
  if (out == nullptr || flags > 1) return kInvalidValue;
  auto stream = std::make_unique<Stream>();
  *out = stream.get();
  const std::lock_guard lock(state()->mutex);
  state()->streams[*out] = std::move(stream);
  return kSuccess;
}

STAND_IN_API int cuStreamDestroy_v2(void* handle) {
  if (const Error error = ready(); error != kSuccess) return error;
  std::unique_ptr<Stream> ending;  // outside the lock: it finishes its work
  const std::lock_guard lock(state()->mutex);
  const auto found = state()->streams.find(handle);
  if (found == state()->streams.end()) return kInvalidHandle;
  ending = std::move(found->second);
  state()->streams.erase(found);
  return kSuccess;
}

STAND_IN_API int cuStreamSynchronize(void* stream) { return wait_for(stream); }

STAND_IN_API int cuStreamQuery(void* stream) {
  bool idle = false;
  const Error error = on_stream(stream, [&](Stream& on) { idle = on.idle(); });
  return error != kSuccess ? error : idle ? kSuccess : kNotReady;
}

STAND_IN_API int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  if (event == nullptr) return kInvalidHandle;
  std::shared_ptr<Mark> mark = static_cast<Event*>(event)->recorded();
  return on_stream(stream, [&](Stream& on) {
    if (mark) on.wait_until([mark] { return mark->is_set(); });
  });
}

STAND_IN_API int cuEventCreate(void** out, unsigned) {
  if (const Error error = ready(); error != kSuccess) return error;
  *out = new Event;
  return kSuccess;
}

STAND_IN_API int cuEventDestroy_v2(void* event) {
  if (const Error error = ready(); error != kSuccess) return error;
  delete static_cast<Event*>(event);
  return kSuccess;
}

STAND_IN_API int cuEventRecord(void* event, void* stream) {
  if (event == nullptr) return kInvalidHandle;
  return on_stream(stream, [&](Stream& on) { static_cast<Event*>(event)->record(on); });
}

STAND_IN_API int cuEventQuery(void* event) {
  if (const Error error = ready(); error != kSuccess) return error;
  const std::shared_ptr<Mark> mark = static_cast<Event*>(event)->recorded();
  return !mark || mark->is_set() ? kSuccess : kNotReady;
}

STAND_IN_API int cuEventSynchronize(void* event) {
  if (const Error error = ready(); error != kSuccess) return error;
  const std::shared_ptr<Mark> mark = static_cast<Event*>(event)->recorded();
  if (mark) mark->wait();
  return kSuccess;
}

// Work of a stream.

STAND_IN_API int cuMemcpyAsync(Pointer to, Pointer from, std::size_t bytes, void* stream) {
  // Addresses are of any kind here. Pageable memory of the host is not known to the driver, and allowed.
  return copy(to, Side::kHost, from, Side::kHost, bytes, stream);
}

STAND_IN_API int cuMemcpyHtoDAsync_v2(Pointer to, const void* from, std::size_t bytes, void* stream) {
  return copy(to, Side::kCard, address_of(from), Side::kHost, bytes, stream);
}

STAND_IN_API int cuMemcpyDtoHAsync_v2(void* to, Pointer from, std::size_t bytes, void* stream) {
  return copy(address_of(to), Side::kHost, from, Side::kCard, bytes, stream);
}

STAND_IN_API int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, std::size_t bytes, void* stream) {
  return copy(to, Side::kCard, from, Side::kCard, bytes, stream);
}

STAND_IN_API int cuMemcpyHtoD_v2(Pointer to, const void* from, std::size_t bytes) {
  return copy_now(to, Side::kCard, address_of(from), Side::kHost, bytes);
}

STAND_IN_API int cuMemcpyDtoH_v2(void* to, Pointer from, std::size_t bytes) {
  return copy_now(address_of(to), Side::kHost, from, Side::kCard, bytes);
}

STAND_IN_API int cuMemsetD32Async(Pointer to, unsigned value, std::size_t count, void* stream) {
  return fill<std::uint32_t>(to, value, count, stream);
}

STAND_IN_API int cuMemsetD8Async(Pointer to, unsigned char value, std::size_t count, void* stream) {
  return fill<unsigned char>(to, value, count, stream);
}

STAND_IN_API int cuStreamWaitValue32_v2(void* stream, Pointer word, std::uint32_t value, unsigned flags) {
  if (const Error error = ready(); error != kSuccess) return error;
  if (word % sizeof value != 0 || !known(word, sizeof value, false)) return kInvalidValue;
  return on_stream(stream, [=](Stream& on) {
    on.wait_until([=] { return word_holds(at<std::uint32_t>(word), value, flags); });
  });
}

STAND_IN_API int cuStreamWriteValue32_v2(void* stream, Pointer word, std::uint32_t value, unsigned) {
  if (const Error error = ready(); error != kSuccess) return error;
  if (word % sizeof value != 0 || !known(word, sizeof value, true)) return kInvalidValue;
  return on_stream(stream, [=](Stream& on) {
    on.add([=] { __atomic_store_n(at<std::uint32_t>(word), value, __ATOMIC_RELEASE); });
  });
}

STAND_IN_API int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  if (function == nullptr) return kInvalidValue;
  return on_stream(stream, [=](Stream& on) { on.add([=] { function(data); }); });
}

// Kernels.

STAND_IN_API int cuModuleLoadData(void** module, const void* image) {
  if (const Error error = ready(); error != kSuccess) return error;
  if (module == nullptr || image == nullptr) return kInvalidValue;
  *module = new char;  // every module has all kernels
  return kSuccess;
}

STAND_IN_API int cuModuleUnload(void* module) {
  if (const Error error = ready(); error != kSuccess) return error;
  delete static_cast<char*>(module);
  return kSuccess;
}

STAND_IN_API int cuModuleGetFunction(void** function, void* module, const char* name) {
  if (const Error error = ready(); error != kSuccess) return error;
  if (module == nullptr) return kInvalidHandle;
  const HostKernel* kernel = paceline_host_kernel == nullptr ? nullptr : paceline_host_kernel(name);
  if (kernel == nullptr) return kNotFound;
  *function = const_cast<HostKernel*>(kernel);
  return kSuccess;
}

STAND_IN_API int cuLaunchKernel(void* function, unsigned blocks, unsigned blocks_y, unsigned blocks_z,
                                unsigned threads, unsigned threads_y, unsigned threads_z, unsigned,
                                void* stream, void** arguments, void** extra) {
  if (function == nullptr) return kInvalidHandle;
  // Paceline's kernels have one dimension.
  if (blocks == 0 || threads == 0 || threads > 1024 || blocks_y != 1 || blocks_z != 1 || threads_y != 1 ||
      threads_z != 1 || extra != nullptr) {
    return kInvalidValue;
  }
  const HostKernel& kernel = *static_cast<HostKernel*>(function);
  // Arguments are those of the launch, whatever the caller does with its variables afterwards.
  std::vector<std::vector<char>> values;
  for (int i = 0; i < kernel.count; ++i) {
    const char* value = static_cast<const char*>(arguments[i]);
    values.emplace_back(value, value + kernel.sizes[i]);
  }
  return on_stream(stream, [&](Stream& on) {
    on.add([&kernel, blocks, threads, values = std::move(values)]() mutable {
      std::vector<void*> pointers;
      for (std::vector<char>& value : values) pointers.push_back(value.data());
      kernel.run(pointers.data(), blocks, threads);
    });
  });
}

}  // namespace paceline::cuda::stand_in
